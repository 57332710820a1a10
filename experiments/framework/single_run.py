"""One training run of a claim: its key, and how it is made."""

import dataclasses
import functools
import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from ml_collections import ConfigDict

from experiments.framework import numerics
from experiments.framework.probe import Probe, read_probe, with_probe
from gossipjax.config import defaults, resolve
from gossipjax.local_step import Worker
from gossipjax.simulation import simulate
from gossipjax.training import loop
from gossipjax.training.ledger import Diverged
from gossipjax.training.record import Record
from gossipjax.training.run import Run, resolve_run
from gossipjax.training.train import train

# Keys of a config that do not change the result of a run.
WITHOUT_EFFECT = (
  'data',
  'log',
  'checkpoint_every',
  'variants',
  'executor',
  'target_share',
)
# Record fields with a number for every worker: the sum is kept, for SENT also
# the largest. Seconds of this machine are left out: a run keeps them once.
SENT = ('bytes_sent', 'messages')
SUMS = ('bytes_local', 'bytes_inner', 'compute_s', 'waiting_s', 'transfer_s')
LEFT_OUT = (
  'bytes_received',
  'comm_s',
  'examples_per_s',
  'inner_s',
  'train_s',
  'wall_s',
  'wire_bytes',
  'worker0_accuracy',
  'worker0_loss',
)
MAX_RECORDS = 20  # Largest number of records that are kept of a run.
Result = dict[str, Any]


def key_of(config: ConfigDict, probe: str = '') -> dict[str, Any]:
  """The key of a run: its config, without empty values, and versions.

  Empty values are left out, so that a config key that is added later and empty
  by default does not change the keys of kept runs. 0 and False stay where a
  missing value would mean something else: where the default is None, or is not
  listed in the config, as in `strategy.outer`.

  Args:
    config: of the run.
    probe: 'module:function' of a probe that watches it.
  """
  parts = {k: v for k, v in config.to_dict().items() if k not in WITHOUT_EFFECT}
  filled = {k: _filled(v, default(k, v)) for k, v in parts.items()}
  # As it is kept: JSON has no tuples.
  stored = json.loads(json.dumps({k: v for k, v in filled.items() if v}))
  found: dict[str, Any] = {'config': stored}
  if probe:
    found['probe'] = probe
  if versions := numerics.versions(stored):
    found['numerics'] = versions
  return found


def default(name: str, part: Any) -> Any:
  """Returns the default of a config key; a strategy or task has all arguments.

  Args:
    name: of the key.
    part: its value.
  """
  part_name = part['name'] if name in ('strategy', 'task') else ''
  return _default(name, part_name, bool(part))


@functools.cache
def _default(name: str, part_name: str, is_set: bool) -> Any:
  if name == 'strategy':
    return resolve.strategy_config(part_name).to_dict()
  if name == 'task':
    return defaults.task(part_name).to_dict()
  if name == 'cluster' and is_set:
    return defaults.cluster().to_dict()
  if name == 'link':
    return {'latency_s': 0.0}  # It is always given: none is 0.
  value = defaults.get_config()[name]
  return value.to_dict() if isinstance(value, ConfigDict) else value


def _filled(value: Any, otherwise: Any) -> Any:
  """Removes the empty values of a dict, at any depth.

  Args:
    value: anything.
    otherwise: its default; None if it is None or unknown.
  """
  if not isinstance(value, dict):
    return value
  known = otherwise if isinstance(otherwise, dict) else {}
  found = {k: _filled(v, known.get(k)) for k, v in value.items()}
  is_zero = lambda v: v == 0 and isinstance(v, float | int)
  return {
    k: v for k, v in found.items() if v or (is_zero(v) and known.get(k) is None)
  }


def make(config: ConfigDict, probe: str = '') -> Result:
  """Trains, in virtual time if the config has a cluster.

  Returns:
    records: reduced, see `_lean`; without the last one if the run diverged.
    comm_s: modelled communication seconds of all steps, by link.
    diverged: a sentence about how the run diverged, '' if it did not.
    told: the probe's numbers every `log_every` steps, each with its step.
  """
  records, diverged, readings = [], '', []
  watcher = probe_named(probe) if probe else None
  try:
    for record in _training(resolve_run(config), watcher, readings.append):
      records.append(record)
  except Diverged as error:
    diverged = str(error)
  last = records[-1].step if records else 0
  return {
    'records': [_lean(record) for record in _thinned(records)],
    'comm_s': _rounded(records[-1].comm_s) if records else {},
    'diverged': diverged,
    'told': [_rounded(line) for line in readings if line['step'] <= last],
  }


def probe_named(name: str) -> Probe:
  """Returns the probe that 'module:function' makes."""
  module, _, function = name.partition(':')
  return getattr(importlib.import_module(module), function)()


def _thinned(records: list[Record]) -> list[Record]:
  """Returns at most MAX_RECORDS, with the last two: between these a run in
  virtual time reaches its target."""
  if len(records) <= MAX_RECORDS:
    return records
  steps = (len(records) - 2) / (MAX_RECORDS - 1)
  kept = {round(i * steps) for i in range(MAX_RECORDS - 1)} | {len(records) - 2}
  return [records[i] for i in sorted(kept)[-MAX_RECORDS + 1 :]] + records[-1:]


def _lean(record: Record) -> dict[str, Any]:
  """Reduces a record: sums and largest values replace those of each worker."""
  found = {
    name: getattr(record, name)
    for name in Record.__struct_fields__
    if name not in (*SENT, *SUMS, *LEFT_OUT)
  }
  for name in SENT:
    values = getattr(record, name)
    found[name], found[f'most_{name}'] = sum(values), max(values)
  for name in SUMS:
    found[name] = sum(getattr(record, name) or ()) or None
  return _rounded({k: v for k, v in found.items() if v is not None})


def _rounded(numbers: dict[str, Any]) -> dict[str, Any]:
  """Rounds floats to six digits; NaN and infinity become None, for JSON."""
  return {
    name: _six_digits(value) if isinstance(value, float) else value
    for name, value in numbers.items()
  }


def _six_digits(value: float) -> float | None:
  found = float(f'{value:.6g}')
  return found if abs(found) < float('inf') else None


def _training(
  run: Run, probe: Probe | None, report: Callable[[dict[str, float]], None]
) -> Iterator[Record]:
  """Returns the records of a run; the probe is read while it trains."""
  if probe is None:
    return simulate.simulate(run) if run.cluster else train(run)
  if run.cluster:
    raise ValueError('A probe cannot watch a run in virtual time.')

  def watch(step: int, workers: Worker) -> None:
    if loop.due(run.log_every, step, run.steps):
      report({'step': step, **read_probe(workers, probe)})

  strategy = with_probe(run.strategy, probe)
  return train(dataclasses.replace(run, strategy=strategy), watch=watch)
