"""The training runs of a claim: each is done once, kept in a file, then read.

A run is looked at by wrapping an aggregator: what the wrapper remembers comes
out with the workers' state, so that no byte and no number changes.
"""

import hashlib
import json
import pathlib
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from experiments import tune, workdir
from gossipjax import console
from gossipjax.aggregator import Aggregator, State, Strategy, Tree
from gossipjax.train import train


class Watch(NamedTuple):
  """What to look at besides the records.

  Attributes:
    init: tree -> seen, a worker's memory of it.
    look: (seen, tree, mean, state before, state after) -> seen, in each step;
      tree and mean are what the aggregator takes and gives.
    tell: (seen, of all workers, on the host) -> numbers by name.
    side: of the strategy, 'gradients' or 'parameters'.
  """

  init: Callable[[Tree], Any]
  look: Callable[..., Any]
  tell: Callable[[Any], dict[str, float]]
  side: str = 'gradients'


class Watched(NamedTuple):
  inner: State  # The aggregator's.
  seen: Any


def watched(aggregator: Aggregator, watch: Watch) -> Aggregator:
  """The same aggregator, under eyes."""

  def init(tree):
    return Watched(aggregator.init(tree), watch.init(tree))

  def update(tree, state, step, active=True):
    mean, inner, sent = aggregator.update(tree, state.inner, step, active)
    seen = watch.look(state.seen, tree, mean, state.inner, inner)
    return mean, Watched(inner, seen), sent

  return Aggregator(init, update)


class _Observer:
  """Stands where a store of checkpoints would: is shown, keeps what it tells.
  """

  def __init__(self, watch: Watch):
    self._watch, self.told = watch, []

  def last(self) -> None:
    """It has nothing to continue from."""

  def save(self, step, workers, totals):
    del totals
    seen = getattr(workers, self._watch.side).seen
    told = self._watch.tell(jax.device_get(seen))
    self.told.append({'step': step, **told})

  def change(self, strategy: Strategy) -> Strategy:
    side = self._watch.side
    return strategy._replace(
        **{side: watched(getattr(strategy, side), self._watch)})


def run(config: ConfigDict, folder: pathlib.Path, watch: Watch | None = None,
        interrupted: Callable[[], bool] = lambda: False) -> dict[str, Any]:
  """One run: its records, and what was seen at each `checkpoint_every` steps.
  """
  text = config.to_json(sort_keys=True)
  name = hashlib.sha256(text.encode()).hexdigest()[:16]
  path = folder / f'{config.strategy.name}-{name}.json'
  if path.exists():
    return json.loads(path.read_text())
  began, observer = time.perf_counter(), watch and _Observer(watch)
  looking = dict(store=observer, change=observer.change) if watch else {}
  records = [record._asdict() for record in train(
      config, interrupted=interrupted, **looking)]
  result = {'config': json.loads(text), 'records': records,
            'told': observer.told if watch else [],
            'took_s': time.perf_counter() - began}
  workdir.write(path, json.dumps(result))
  return result


class Evidence:
  """The runs of one claim, in a folder of their own, within some minutes."""

  def __init__(self, folder: pathlib.Path, minutes: float | None = None,
               interrupted: Callable[[], bool] = lambda: False):
    self.folder, self._interrupted = folder, interrupted
    folder.mkdir(parents=True, exist_ok=True)
    self._until = time.monotonic() + 60 * (minutes or 1e9)

  def rates(self, config: ConfigDict, rates: Sequence[float]
            ) -> dict[str, float]:
    """The best learning rate of each of a comparison's variants.

    Each tries all the rates once, on the config's seed, and is judged by a
    part of the training set.
    """
    key, config = 'optimizer.learning_rate', config.copy_and_resolve_references()
    config.checkpoint_every = 0  # They are short.
    name = hashlib.sha256(config.to_json(sort_keys=True).encode()).hexdigest()
    found = tune.best(config, {key: tuple(rates)}, 1,
                      self.folder / f'tuning-{name[:16]}',
                      interrupted=self._interrupted)
    return {name: point[key] for name, point in found.chosen.items()}

  def collect(self, cells: Mapping[Hashable, ConfigDict],
              watch: Callable[[Hashable], Watch | None] = lambda key: None
              ) -> dict[Hashable, dict[str, Any]]:
    """The runs that are finished, in this order, when all are or time is over.
    """
    found, new_s = {}, []
    for i, (key, config) in enumerate(cells.items(), 1):
      if time.monotonic() > self._until:
        break
      began = time.perf_counter()
      found[key] = run(config, self.folder, watch(key), self._interrupted)
      took_s = time.perf_counter() - began
      new_s += [took_s] * (took_s > 0.5)  # Others were only read.
      if new_s:
        left_s = (len(cells) - i) * sum(new_s) / len(new_s)
        console.say(f'{i}/{len(cells)} {key}: {took_s:.0f} s, about '
                    f'{left_s / 60:.0f} min to go')
    return found


def scores(runs: Mapping[tuple, dict[str, Any]], cell: tuple,
           field: str = 'test_accuracy') -> dict[int, float]:
  """By seed, what the runs of a cell ended with; keys are `(*cell, seed)`."""
  return {key[-1]: run['records'][-1][field]
          for key, run in runs.items() if key[:-1] == cell}


def difference(runs: Mapping[tuple, dict[str, Any]], a: tuple, b: tuple
               ) -> tuple[float, float]:
  """Points of accuracy that cell a is above b: mean over their common seeds,
  and its standard error (NaN for one seed)."""
  ours, theirs = scores(runs, a), scores(runs, b)
  found = 100 * np.array([ours[s] - theirs[s] for s in ours if s in theirs])
  error = found.std(ddof=1) / len(found)**.5 if len(found) > 1 else np.nan
  return (float(found.mean()) if len(found) else np.nan), float(error)


def extent(runs: Mapping[tuple, dict[str, Any]], wanted: Mapping) -> str:
  """A sentence on how much of what was wanted there is."""
  minutes = sum(found['took_s'] for found in runs.values()) / 60
  rest = '' if len(runs) == len(wanted) else (
      ' The others had no time; the same command goes on with them.')
  return (f'{len(runs)} of {len(wanted)} runs are in the table; they took '
          f'{minutes:.0f} minutes, tuning not counted.{rest}')


def rows(runs: Mapping[tuple, dict[str, Any]], names: Sequence[str]
         ) -> list[dict[str, Any]]:
  """A row per cell, means over its seeds; of what was told, the second half.

  Args:
    runs: by `(*cell, seed)`.
    names: of the parts of a cell.
  """
  groups: dict[tuple, list] = {}
  for key, found in runs.items():
    groups.setdefault(key[:-1], []).append(found)
  told = list(dict.fromkeys(
      name for r in runs.values() for line in r['told'] for name in line
      if name != 'step'))
  return [dict(zip(names, cell, strict=True)) | _row(group, told)
          for cell, group in groups.items()]


def _row(group: list[dict[str, Any]], told: list[str]) -> dict[str, Any]:
  last = [found['records'][-1] for found in group]
  accuracy = 100 * np.array([record['test_accuracy'] for record in last])
  lines = [line for found in group
           for line in found['told'][len(found['told']) // 2:]]
  return {
      'seeds': len(group),
      'rate': group[0]['config']['optimizer']['learning_rate'],
      'accuracy %': f'{accuracy.mean():.2f}',
      'sd': f'{accuracy.std(ddof=1):.2f}' if len(group) > 1 else None,
      'loss': float(np.mean([record['test_loss'] for record in last])),
      'sent a step': int(np.mean([
          max(record['bytes_sent']) / record['step'] for record in last])),
      **{name: float(np.mean([line[name] for line in lines]))
         if lines else None for name in told}}
