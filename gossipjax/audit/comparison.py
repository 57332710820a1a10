"""One line of the comparison of a ledger with a compiled program."""

import math
from typing import NamedTuple

import numpy as np

from gossipjax.audit.control_paths import Bag, Ways
from gossipjax.traffic import Traffic


class Row(NamedTuple):
  """Bytes that each worker sends in one step; arrays are i64[workers]."""

  step: int
  kinds: dict[str, np.ndarray]  # In the compiled program, by collective.
  compiled: np.ndarray  # The sum of those.
  explained: np.ndarray  # What is left of it when `reason` is allowed for.
  ledger: np.ndarray  # What the strategy says.
  reason: str  # served, widened, masked, or several; '' for none.
  ways: int  # Of reading the program; if not 1, any that agrees will do.


def holds(row: Row) -> bool:
  """Whether the ledger is the compiled program's, but for named reasons."""
  return bool((row.ledger == row.explained).all())


def worst(row: Row) -> int:
  """The worker with the largest difference, else the one that sends most."""
  return max(
    range(len(row.ledger)),
    key=lambda i: (
      abs(row.ledger[i] - row.explained[i]),
      row.compiled[i] - row.ledger[i],
      row.compiled[i],
    ),
  )


def sentence(row: Row) -> str:
  """What the row says of its `worst` worker, to be read by people."""
  i, because = worst(row), f' ({row.reason})' if row.reason else ''
  verdict = 'which agrees' if holds(row) else 'which DIFFERS without a reason'
  kinds = (
    ', '.join(f'{kind} {sent[i]:,}' for kind, sent in sorted(row.kinds.items()))
    or 'nothing'
  )
  return (
    f'at step {row.step} worker {i} sends {row.ledger[i]:,} bytes by the '
    f'ledger and {row.compiled[i]:,} compiled ({kinds}'
    + f' in one of {row.ways} ways' * (row.ways > 1)
    + f'), {verdict}{because}'
  )


def compare(
  step: int, ways: Ways, sent: Traffic, full: Row | None = None
) -> Row:
  """Finds the way through the program's branches that the ledger tells of.

  Args:
    step: to write into the row.
    ways: of the compiled program.
    sent: the ledger of a run of it, leaves [workers].
    full: of a run of the same program in which everybody talked. It allows
      for workers that are held back: in a lock-step program their messages
      move all the same, to be ignored.
  """
  rows = [_row(step, bag, sent)._replace(ways=len(ways)) for bag in ways]
  for row in rows:
    if holds(row):
      return row
  ledger = np.asarray(sent.bytes)
  if full and holds(full) and (ledger <= full.ledger).all():
    return full._replace(
      ledger=ledger,
      explained=ledger,
      reason=', '.join(filter(None, [full.reason, 'masked'])),
    )
  return min(rows, key=lambda row: np.abs(row.ledger - row.explained).sum())


def _row(step: int, bag: Bag, sent: Traffic) -> Row:
  ledger, messages = np.asarray(sent.bytes), np.asarray(sent.messages)
  workers = len(ledger)
  kinds, meant, reasons, uneven = {}, np.zeros(workers, object), set(), 0
  for move, times in bag:
    exact = times * np.array(move.meant(workers), object)
    kinds[move.kind] = kinds.get(move.kind, 0) + (
      times * np.array(move.compiled(workers), object)
    )
    uneven += times * any(x.denominator > 1 for x in exact)
    meant, reasons = meant + exact, reasons | move.reasons()

  # The ledger rounds up once per call, and a call sends a message at least.
  roundings = np.minimum(uneven, messages)
  rounded = (meant <= ledger) & (ledger < meant + roundings)
  return Row(
    step,
    {k: _whole(v) for k, v in kinds.items()},
    _whole(sum(kinds.values(), np.zeros(workers, object))),
    np.where(rounded, ledger, _whole(meant)),
    ledger,
    ', '.join(sorted(reasons)),
    ways=1,
  )


def _whole(values: np.ndarray) -> np.ndarray:
  return np.array([math.ceil(v) for v in values], np.int64)
