"""The training runs of a claim: each is done once, kept in a file, then read.

A run is looked at by wrapping an aggregator: what the wrapper remembers comes
out with the workers' state, so that no byte and no number changes.
"""

import dataclasses
import hashlib
import json
import pathlib
import signal
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import msgspec
from absl import flags
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import claim
from gossipjax import executors
from gossipjax.aggregator import Aggregator, State, Tree
from gossipjax.commands import console
from gossipjax.results import workdir
from gossipjax.training import loop
from gossipjax.training.ledger import Diverged
from gossipjax.training.run import Run, resolve_run
from gossipjax.training.train import train
from gossipjax.tuning import tune
from gossipjax.worker import Worker

RUNS = flags.DEFINE_string(
  'runs', 'runs/claims', 'What is finished, so that the same goes on.'
)
MINUTES = flags.DEFINE_float('minutes', None, 'After which no run begins.')


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


def _watching(run: Run, watch: Watch) -> Run:
  """The run, with the watched side of its strategy wrapped."""
  side = watch.side
  wrapped = watched(getattr(run.strategy, side), watch)
  return dataclasses.replace(
    run, strategy=run.strategy._replace(**{side: wrapped})
  )


def _train(run: Run, watch: Watch | None) -> tuple[list, list, str]:
  """Records, what the watch told at each checkpoint, and why it diverged."""
  records, told = [], []

  def show(step: int, workers: Worker) -> None:
    if loop.due(run.checkpoint_every, step, run.steps):
      seen = jax.device_get(getattr(workers, watch.side).seen)
      told.append({'step': step, **watch.tell(seen)})

  shown = {} if watch is None else {'watch': show}
  try:
    for record in train(_watching(run, watch) if watch else run, **shown):
      records.append(msgspec.structs.asdict(record))
  except Diverged as error:
    return records, told, str(error)
  return records, told, ''


def _digest(config: Mapping[str, Any]) -> str:
  """Of what a config says; keys that say nothing may come and go."""
  said = {key: value for key, value in config.items() if value}
  text = json.dumps(said, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept(config: ConfigDict, folder: pathlib.Path) -> pathlib.Path:
  return folder / f'{config.strategy.name}-{_digest(config.to_dict())}.json'


def one(
  config: ConfigDict, folder: pathlib.Path, watch: Watch | None = None
) -> dict[str, Any]:
  """One run: its records, what was seen at each `checkpoint_every` steps, and
  the sentence about it if it diverged."""
  path = _kept(config, folder)
  if path.exists():
    return json.loads(path.read_text())
  began = time.perf_counter()
  records, told, diverged = _train(resolve_run(config), watch)
  result = {
    'config': config.to_dict(),
    'records': records,
    'diverged': diverged,
    'told': told,
    'took_s': time.perf_counter() - began,
  }
  workdir.write(path, json.dumps(result))
  return json.loads(path.read_text())


class Evidence:
  """The runs of one claim, in a folder of their own, within some minutes."""

  def __init__(self, folder: pathlib.Path, minutes: float | None = None):
    self.folder = folder
    folder.mkdir(parents=True, exist_ok=True)
    self._since = time.monotonic()
    self._until = self._since + 60 * (minutes or 1e9)

  def over(self) -> bool:
    """Whether nothing new may begin."""
    return time.monotonic() > self._until

  def again(self) -> bool:
    """Whether there is time for as much again as has been done."""
    now = time.monotonic()
    return now - self._since < self._until - now

  def rates(
    self, config: ConfigDict, rates: Sequence[float]
  ) -> dict[str, float]:
    """The best learning rate of each of a comparison's variants.

    Each tries all the rates once, on the config's seed, and is judged by a
    part of the training set.
    """
    key = 'optimizer.learning_rate'
    config = config.copy_and_resolve_references()
    config.checkpoint_every = 0  # They are short.
    found = tune.best(
      config,
      {key: tuple(rates)},
      1,
      self.folder / f'tuning-{_digest(config.to_dict())}',
    )
    return {name: point[key] for name, point in found.chosen.items()}

  def one(self, config: ConfigDict) -> dict[str, Any]:
    """One run, whatever the time."""
    return one(config, self.folder)

  def collect(
    self,
    cells: Mapping[Hashable, ConfigDict],
    watch: Callable[[Hashable], Watch | None] = lambda key: None,
  ) -> dict[Hashable, dict[str, Any]]:
    """The runs that are finished when all are, or time is over."""
    found, new_s = {}, []
    for i, (key, config) in enumerate(cells.items(), 1):
      kept = _kept(config, self.folder).exists()
      if not kept and self.over():
        continue
      found[key] = one(config, self.folder, watch(key))
      if not kept:
        new_s.append(found[key]['took_s'])
        left_s = (len(cells) - i) * sum(new_s) / len(new_s)
        console.say(
          f'{i}/{len(cells)} {key}: {new_s[-1]:.0f} s, about '
          f'{left_s / 60:.0f} min to go'
        )
    return found


def run(
  what: claim.Claim,
  measure: Callable[[bool, Evidence], claim.Finding],
  figure: Callable[..., Figure],
  devices: int,
) -> None:
  """As `claim.run`, for a claim that keeps runs, on emulated devices."""

  def with_evidence(quick: bool, folder: pathlib.Path) -> claim.Finding:
    del folder
    # To stop at once costs no more than the run that is under way.
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, signal.SIG_DFL)
    executors.emulate(devices)
    # Seeds run the same programs, and so does who goes on tomorrow.
    jax.config.update('jax_compilation_cache_dir', f'{RUNS.value}/programs')
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.3)
    return measure(
      quick, Evidence(pathlib.Path(RUNS.value) / what.name, MINUTES.value)
    )

  claim.run(what, with_evidence, figure)
