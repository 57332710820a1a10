"""One training run of a claim: its key, and how it is made."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from ml_collections import ConfigDict

from experiments.framework.probe import Probe, read_probe, with_probe
from gossipjax.simulation import simulate
from gossipjax.training import loop
from gossipjax.training.ledger import Diverged
from gossipjax.training.record import Record
from gossipjax.training.run import Run, resolve_run
from gossipjax.training.train import train
from gossipjax.worker import Worker

# Keys of a config that change no result: files, and whatever reads them.
WITHOUT_EFFECT = ('data', 'log', 'checkpoint_every', 'variants')
Result = dict[str, Any]


def key_of(config: ConfigDict, probe: Probe | None = None) -> dict[str, Any]:
  """The key of a run: its config, without empty values.

  A key of the config that is added later, and empty by default, changes no key
  of a kept run.
  """
  given = {
    name: value
    for name, value in config.to_dict().items()
    if value and name not in WITHOUT_EFFECT
  }
  return {'config': given} | ({'probe': probe.name} if probe else {})


def make(config: ConfigDict, probe: Probe | None) -> Result:
  """Trains, in virtual time if the config has a cluster.

  Returns:
    config: of the run.
    records: as dicts; without the last ones if the run diverged.
    diverged: the sentence about it, '' if it did not.
    told: the probe's numbers at each `log_every` steps, with their step.
  """
  records, diverged, told = [], '', []
  try:
    for record in _training(resolve_run(config), probe, told.append):
      records.append(msgspec.structs.asdict(record))
  except Diverged as error:
    diverged = str(error)
  last = records[-1]['step'] if records else 0
  return {
    'config': config.to_dict(),
    'records': records,
    'diverged': diverged,
    'told': [line for line in told if line['step'] <= last],
  }


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
