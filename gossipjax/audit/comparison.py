"""Compares one step of a ledger with the compiled program, worker by worker."""

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gossipjax.audit.collective_bytes import Transfer
from gossipjax.audit.control_paths import Path
from gossipjax.traffic import Traffic

Way = tuple[Path, ...]  # The control path of each device of a worker.


class Row(NamedTuple):
  """Bytes that each worker sends in one step; arrays are i64[workers]."""

  step: int
  kinds: dict[str, np.ndarray]  # In the compiled program, by collective.
  compiled: np.ndarray  # The sum of those.
  explained: np.ndarray  # The sum after correcting for `reason`.
  ledger: np.ndarray  # As the strategy reports it.
  reason: str  # served, widened, masked, or several; '' for none.
  paths: int  # Control paths compared; if several, one that agrees suffices.
  within: bool = False  # Bytes between the devices of a worker.


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
  whom = 'among its devices ' * row.within
  return (
    f'at step {row.step} worker {i} sends {whom}{row.ledger[i]:,} bytes by the '
    f'ledger and {row.compiled[i]:,} compiled ({kinds}'
    + f' in one of {row.paths} control paths' * (row.paths > 1)
    + f'), {verdict}{because}'
  )


def as_json(row: Row) -> dict[str, Any]:
  """A row as a JSON object: the bytes of its `worst` worker."""
  i = worst(row)
  return {
    'step': row.step,
    'worker': i,
    'kinds': {kind: int(sent[i]) for kind, sent in row.kinds.items()},
    'compiled': int(row.compiled[i]),
    'ledger': int(row.ledger[i]),
    'reason': row.reason,
    **({'within': True} if row.within else {}),
  }


def levels(row: Row, devices: int) -> list[Row]:
  """The rows of a row of `compare`: between workers, and within if there are
  several devices."""
  if devices == 1:
    return [row]
  workers = len(row.ledger) // 2
  cut = lambda x, part: x[:workers] if part == 0 else x[workers:]
  return [
    row._replace(
      kinds={k: c for k, v in row.kinds.items() if (c := cut(v, part)).any()},
      compiled=cut(row.compiled, part),
      explained=cut(row.explained, part),
      ledger=cut(row.ledger, part),
      reason='' if part else row.reason,
      within=bool(part),
    )
    for part in range(2)
  ]


def compare(
  step: int,
  ways: Iterable[Way],
  sent: Traffic,
  full: Row | None = None,
  devices: int = 1,
) -> Row:
  """Compares a ledger with the control path that fits it best.

  Args:
    step: to write into the row.
    ways: control paths that a run of the compiled program may have taken.
    sent: the ledger of that run, leaves [workers].
    full: the row of a run of the same program in which all workers sent. With
      it a smaller ledger is accepted as `masked` where no worker sends more
      than it did then: in a lock-step program the message of a silent worker
      moves, and its receiver ignores it.
    devices: of a worker. For several the arrays of the row are i64[2 workers]:
      between workers, then within.

  Returns:
    The row of a way that agrees; if none does, that with the least difference.
  """
  rows = [_row(step, way, sent, devices) for way in ways]
  rows = [row._replace(paths=len(rows)) for row in rows]
  for row in rows:
    if holds(row):
      return row
  for row in rows if full and holds(full) else []:
    gaps = full.ledger - row.ledger
    moved = row.compiled <= full.compiled  # Or a branch hides what it sends.
    if gaps.any() and (gaps >= 0).all() and moved.all():
      because = ', '.join(filter(None, [row.reason, 'masked']))
      return row._replace(explained=row.ledger, reason=because)
  return min(rows, key=lambda row: np.abs(row.ledger - row.explained).sum())


def _row(step: int, way: Way, sent: Traffic, devices: int) -> Row:
  ledger, messages = _ledger(sent, devices), np.asarray(sent.messages)
  kinds, intended = {}, np.zeros(len(ledger), object)
  reasons, uneven = set(), np.zeros((len(ledger) // len(messages), 1), int)
  for transfer, times, mine in _parts(way):
    exact, compiled = (
      times * _by_level(transfer, count, sent, mine)
      for count in (Transfer.intended_bytes, Transfer.compiled_bytes)
    )
    kinds[transfer.kind] = kinds.get(transfer.kind, 0) + compiled
    broken = np.array([x.denominator > 1 for x in exact])
    parts = broken.reshape(len(uneven), -1).any(axis=1, keepdims=True)
    uneven += times * mine.sum() * parts
    intended, reasons = intended + exact, reasons | transfer.reasons()

  # The ledger rounds up once per call, and a call sends a message at least.
  roundings = np.tile(uneven, len(messages))
  roundings[0] = np.minimum(roundings[0], messages)
  rounded = (intended <= ledger) & (ledger < intended + roundings.reshape(-1))
  return Row(
    step,
    {k: _whole(v) for k, v in kinds.items()},
    _whole(sum(kinds.values(), np.zeros(len(ledger), object))),
    np.where(rounded, ledger, _whole(intended)),
    ledger,
    ', '.join(sorted(reasons)),
    paths=1,
  )


def _parts(way: Way) -> Iterator[tuple[Transfer, int, np.ndarray]]:
  """Transfers, how often each runs, and on which devices, bool[devices]."""
  for path in {*way}:
    mine = np.array([path == other for other in way])
    yield from ((transfer, times, mine) for transfer, times in path)


def _ledger(sent: Traffic, devices: int) -> np.ndarray:
  """What the workers sent each other; for several devices, then within."""
  between = np.asarray(sent.bytes)
  if devices == 1:
    return between
  return np.concatenate([between, np.asarray(sent.inner)])


def _by_level(
  transfer: Transfer,
  count: Callable[[Transfer, int], list[Fraction]],
  sent: Traffic,
  mine: np.ndarray,
) -> np.ndarray:
  """Bytes of a transfer by the devices `mine`, in the form of `_ledger`."""
  workers, devices = len(np.asarray(sent.bytes)), len(mine)
  found = [
    np.array(count(part, workers * devices), object)
    if part
    else np.zeros(workers * devices, object) + Fraction(0)
    for part in transfer.levels(devices)
  ]
  of_workers = [x.reshape(workers, devices)[:, mine].sum(axis=1) for x in found]
  return np.concatenate(of_workers[: 1 if devices == 1 else 2])


def _whole(values: np.ndarray) -> np.ndarray:
  return np.array([math.ceil(v) for v in values], np.int64)
