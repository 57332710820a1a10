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

# Keys of a config that change no result: files, and whatever reads them.
WITHOUT_EFFECT = (
  'data',
  'log',
  'checkpoint_every',
  'variants',
  'executor',
  'target_share',
)
# Fields of a record with a number for every worker: the sum is kept, of SENT
# also the largest. Seconds of this machine are kept once, for the whole run.
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
MOST = 20  # Records that are kept of a run.
Result = dict[str, Any]


def key_of(config: ConfigDict, probe: str = '') -> dict[str, Any]:
  """The key of a run: its config, without empty values, and versions.

  A key of the config that is added later, and empty by default, changes no key
  of a kept run. 0 and False are kept where None, or nothing, means another
  value: where the default is None, and in a part whose defaults the config does
  not list, such as `strategy.outer`.

  Args:
    config: of the run.
    probe: 'module:function' of a probe that watches it.
  """
  parts = {k: v for k, v in config.to_dict().items() if k not in WITHOUT_EFFECT}
  filled = {k: _filled(v, default(k, v)) for k, v in parts.items()}
  # As it is kept: JSON has no tuples.
  given = json.loads(json.dumps({k: v for k, v in filled.items() if v}))
  found: dict[str, Any] = {'config': given}
  if probe:
    found['probe'] = probe
  if versions := numerics.versions(given):
    found['numerics'] = versions
  return found


def default(name: str, part: Any) -> Any:
  """The default of a key of the config, with all arguments of what is named.

  Args:
    name: of the key.
    part: its value.
  """
  named = part['name'] if name in ('strategy', 'task') else ''
  return _default(name, named, bool(part))


@functools.cache
def _default(name: str, named: str, given: bool) -> Any:
  if name == 'strategy':
    return resolve.strategy_config(named).to_dict()
  if name == 'task':
    return defaults.task(named).to_dict()
  if name == 'cluster' and given:
    return defaults.cluster().to_dict()
  if name == 'link':
    return {'latency_s': 0.0}  # It is always given: none is 0.
  value = defaults.get_config()[name]
  return value.to_dict() if isinstance(value, ConfigDict) else value


def _filled(value: Any, otherwise: Any) -> Any:
  """A dict without its empty values, at any depth.

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
    records: small ones, see `_lean`; without the last if the run diverged.
    comm_s: modelled seconds of all steps, by link.
    diverged: the sentence about it, '' if it did not.
    told: the probe's numbers at each `log_every` steps, with their step.
  """
  records, diverged, told = [], '', []
  watching = probe_named(probe) if probe else None
  try:
    for record in _training(resolve_run(config), watching, told.append):
      records.append(record)
  except Diverged as error:
    diverged = str(error)
  last = records[-1].step if records else 0
  return {
    'records': [_lean(record) for record in _thinned(records)],
    'comm_s': _rounded(records[-1].comm_s) if records else {},
    'diverged': diverged,
    'told': [_rounded(line) for line in told if line['step'] <= last],
  }


def probe_named(name: str) -> Probe:
  """What 'module:function' makes."""
  module, _, function = name.partition(':')
  return getattr(importlib.import_module(module), function)()


def _thinned(records: list[Record]) -> list[Record]:
  """At most 20 of them, among them the last two, between which a run in
  virtual time reaches its target."""
  if len(records) <= MOST:
    return records
  steps = (len(records) - 2) / (MOST - 1)
  kept = {round(i * steps) for i in range(MOST - 1)} | {len(records) - 2}
  return [records[i] for i in sorted(kept)[-MOST + 1 :]] + records[-1:]


def _lean(record: Record) -> dict[str, Any]:
  """A record without what can be missed: sums and largest values of workers."""
  found = {
    name: getattr(record, name)
    for name in Record.__struct_fields__
    if name not in (*SENT, *SUMS, *LEFT_OUT)
  }
  for name in SENT:
    each = getattr(record, name)
    found[name], found[f'most_{name}'] = sum(each), max(each)
  for name in SUMS:
    found[name] = sum(getattr(record, name) or ()) or None
  return _rounded({k: v for k, v in found.items() if v is not None})


def _rounded(numbers: dict[str, Any]) -> dict[str, Any]:
  """Floats with six digits; NaN and infinity, which JSON has not, are None."""
  return {
    name: _six_digits(value) if isinstance(value, float) else value
    for name, value in numbers.items()
  }


def _six_digits(value: float) -> float | None:
  found = float(f'{value:.6g}')
  return found if abs(found) < float('inf') else None


def _training(
  run: Run, probe: Probe | None, tell: Callable[[dict[str, float]], None]
) -> Iterator[Record]:
  """The records of a run, whose probe is read while it trains."""
  if run.cluster:
    return simulate.simulate(run)
  if probe is None:
    return train(run)

  def watch(step: int, workers: Worker) -> None:
    if loop.due(run.log_every, step, run.steps):
      tell({'step': step, **read_probe(workers, probe)})

  strategy = with_probe(run.strategy, probe)
  return train(dataclasses.replace(run, strategy=strategy), watch=watch)
