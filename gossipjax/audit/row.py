"""Rows: one step of a ledger beside one control path, for each worker."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from gossipjax.audit.collective_bytes import Transfer
from gossipjax.audit.control_paths import Path
from gossipjax.traffic import Traffic

DevicePaths = tuple[Path, ...]  # The control path of each device of a worker.


class Row(NamedTuple):
  """Bytes that each worker sends in one step; arrays are i64[workers]."""

  step: int
  kinds: dict[str, np.ndarray]  # Compiled bytes by the kind of collective.
  compiled: np.ndarray  # The sum of `kinds`.
  explained: np.ndarray  # The sum after correcting for `reason`.
  ledger: np.ndarray  # Bytes that the strategy reports.
  reason: str  # served, widened, masked, or several; '' for none.
  paths: int  # Control paths compared; if several, one that agrees suffices.
  within: bool = False  # Bytes between the devices of a worker.


def make_row(step: int, way: DevicePaths, sent: Traffic, devices: int) -> Row:
  """Returns the row of a run.

  Args:
    step: to write into the row.
    way: the control paths that the run took.
    sent: the bill of the run, leaves [workers].
    devices: of a worker.
  """
  ledger, messages = _ledger(sent, devices), np.asarray(sent.messages)
  kinds, intended = {}, np.zeros(len(ledger), object)
  reasons, uneven = set(), np.zeros((len(ledger) // len(messages), 1), int)
  for transfer, times, mask in _parts(way):
    exact, compiled = (
      times * _by_level(transfer, count, sent, mask)
      for count in (Transfer.intended_bytes, Transfer.compiled_bytes)
    )
    kinds[transfer.kind] = kinds.get(transfer.kind, 0) + compiled
    broken = np.array([x.denominator > 1 for x in exact])
    parts = broken.reshape(len(uneven), -1).any(axis=1, keepdims=True)
    uneven += times * mask.sum() * parts
    intended, reasons = intended + exact, reasons | transfer.reasons()

  # The ledger rounds up once per call; each call sends at least one message.
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


def _parts(way: DevicePaths) -> Iterator[tuple[Transfer, int, np.ndarray]]:
  """Transfers, how often each runs, and on which devices, bool[devices]."""
  for path in {*way}:
    mask = np.array([path == other for other in way])
    yield from ((transfer, times, mask) for transfer, times in path)


def _ledger(sent: Traffic, devices: int) -> np.ndarray:
  """Bytes between workers, followed by those within if they have devices."""
  between = np.asarray(sent.bytes)
  if devices == 1:
    return between
  return np.concatenate([between, np.asarray(sent.inner)])


def _by_level(
  transfer: Transfer,
  count: Callable[[Transfer, int], list[Fraction]],
  sent: Traffic,
  mask: np.ndarray,
) -> np.ndarray:
  """Bytes that devices in `mask` send in a transfer, in `_ledger`'s form."""
  workers, devices = len(np.asarray(sent.bytes)), len(mask)
  found = [
    np.array(count(part, workers * devices), object)
    if part
    else np.zeros(workers * devices, object) + Fraction(0)
    for part in transfer.levels(devices)
  ]
  of_workers = [x.reshape(workers, devices)[:, mask].sum(axis=1) for x in found]
  return np.concatenate(of_workers[: 1 if devices == 1 else 2])


def _whole(values: np.ndarray) -> np.ndarray:
  return np.array([math.ceil(v) for v in values], np.int64)
