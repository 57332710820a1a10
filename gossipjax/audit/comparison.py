"""Compares one step of a ledger with the compiled program, worker by worker."""

import math
from typing import NamedTuple

import numpy as np

from gossipjax.audit.control_paths import Path, Paths
from gossipjax.traffic import Traffic


class Row(NamedTuple):
  """Bytes that each worker sends in one step; arrays are i64[workers]."""

  step: int
  kinds: dict[str, np.ndarray]  # In the compiled program, by collective.
  compiled: np.ndarray  # The sum of those.
  explained: np.ndarray  # The sum after correcting for `reason`.
  ledger: np.ndarray  # As the strategy reports it.
  reason: str  # served, widened, masked, or several; '' for none.
  paths: int  # Control paths compared; if several, one that agrees suffices.


def holds(row: Row) -> bool:
  """Whether the ledger equals the compiled bytes after correction."""
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
  """A sentence about the `worst` worker of a row."""
  i, because = worst(row), f' ({row.reason})' if row.reason else ''
  verdict = 'which agrees' if holds(row) else 'which DIFFERS without a reason'
  kinds = (
    ', '.join(f'{kind} {sent[i]:,}' for kind, sent in sorted(row.kinds.items()))
    or 'nothing'
  )
  return (
    f'at step {row.step} worker {i} sends {row.ledger[i]:,} bytes by the '
    f'ledger and {row.compiled[i]:,} compiled ({kinds}'
    + f' in one of {row.paths} control paths' * (row.paths > 1)
    + f'), {verdict}{because}'
  )


def compare(
  step: int, paths: Paths, sent: Traffic, full: Row | None = None
) -> Row:
  """Compares a ledger with the control path that fits it best.

  Args:
    step: to write into the row.
    paths: those that a run of the compiled program may have taken.
    sent: the ledger of that run, leaves [workers].
    full: the row of a run of the same program in which all workers sent. With
      it a smaller ledger is accepted as `masked`: in a lock-step program the
      message of a silent worker moves, and its receiver ignores it.

  Returns:
    The row of a path that agrees; if none does, that with the least difference.
  """
  rows = [_row(step, path, sent)._replace(paths=len(paths)) for path in paths]
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


def _row(step: int, path: Path, sent: Traffic) -> Row:
  ledger, messages = np.asarray(sent.bytes), np.asarray(sent.messages)
  workers = len(ledger)
  kinds, intended = {}, np.zeros(workers, object)
  reasons, uneven = set(), 0
  for transfer, times in path:
    exact = times * np.array(transfer.intended_bytes(workers), object)
    compiled = times * np.array(transfer.compiled_bytes(workers), object)
    kinds[transfer.kind] = kinds.get(transfer.kind, 0) + compiled
    uneven += times * any(x.denominator > 1 for x in exact)
    intended, reasons = intended + exact, reasons | transfer.reasons()

  # The ledger rounds up once per call, and a call sends a message at least.
  roundings = np.minimum(uneven, messages)
  rounded = (intended <= ledger) & (ledger < intended + roundings)
  return Row(
    step,
    {k: _whole(v) for k, v in kinds.items()},
    _whole(sum(kinds.values(), np.zeros(workers, object))),
    np.where(rounded, ledger, _whole(intended)),
    ledger,
    ', '.join(sorted(reasons)),
    paths=1,
  )


def _whole(values: np.ndarray) -> np.ndarray:
  return np.array([math.ceil(v) for v in values], np.int64)
