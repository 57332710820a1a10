"""Training runs and measurements of a claim, each made once and kept."""

import pathlib
import signal
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
from absl import flags
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import claim, kept_results
from experiments.framework.probe import Probe
from experiments.framework.single_run import Result, key_of, make
from gossipjax import executors
from gossipjax.config.variants import variants
from gossipjax.tuning import best_points, trials

FOLDER = flags.DEFINE_string(
  'runs', 'runs/claims', 'Folder of kept runs; what is there is not run again.'
)
MINUTES = flags.DEFINE_float('minutes', None, 'After which no run begins.')


class KeptRuns:
  """The runs of one claim, in one folder, within some minutes."""

  def __init__(self, folder: pathlib.Path, minutes: float | None = None):
    self.folder = folder
    self.budget = kept_results.Budget(minutes)

  def run(self, config: ConfigDict, probe: Probe | None = None) -> Result:
    """One run, also when the time is over: `single_run.make`, and `took_s`."""
    key = key_of(config, probe)
    name = config.strategy.name
    kept = kept_results.once(
      self.folder, name, key, lambda: make(config, probe)
    )
    return kept['result'] | {'took_s': kept['took_s']}

  def measurement(
    self, name: str, given: Mapping[str, Any], measure: Callable[[], Any]
  ) -> Any:
    """What `measure()` returns, which is no training.

    Args:
      name: of what is measured.
      given: everything that the result depends on.
      measure: returns what JSON can hold.
    """
    key = {'measurement': name, **given}
    return kept_results.once(self.folder, name, key, measure)['result']

  def may_measure(self, name: str, given: Mapping[str, Any]) -> bool:
    """Whether there is time for a measurement, or it is kept already."""
    key = {'measurement': name, **given}
    kept = kept_results.path(self.folder, name, key).exists()
    return kept or not self.budget.is_over()

  def rates(
    self, config: ConfigDict, rates: Sequence[float]
  ) -> dict[str, float]:
    """The best learning rate of each of a comparison's variants.

    Each variant tries all the rates once, with the config's seed, and is judged
    by a part of the training set.

    Raises:
      UserError: a variant diverged at every rate.
    """
    key = 'optimizer.learning_rate'
    values = {key: tuple(rates)}
    plan = trials.plan(dict(variants(config)), values, 1, None, self.folder)
    rows = [
      trials.row(trial, _summary(self.run(trial.config))) for trial in plan
    ]
    chosen = best_points.choose(rows, values, best_points.METRICS[0])
    return {name: point[key] for name, point in chosen.items()}

  def collect(
    self,
    cells: Mapping[Hashable, ConfigDict],
    probe: Callable[[Hashable], Probe | None] = lambda key: None,
  ) -> dict[Hashable, Result]:
    """The runs that are finished when all are, or the time is over."""
    found, seconds = {}, []
    for i, (key, config) in enumerate(cells.items(), 1):
      mine = probe(key)
      file = kept_results.path(
        self.folder, config.strategy.name, key_of(config, mine)
      )
      kept = file.exists()
      if not kept and self.budget.is_over():
        continue
      found[key] = self.run(config, mine)
      if not kept:
        seconds.append(found[key]['took_s'])
        kept_results.say_progress(i, len(cells), key, seconds)
    return found


def _summary(run: Result) -> dict[str, Any]:
  """A run's last record, in the form of a trial's summary."""
  last = run['records'][-1] if run['records'] else {}
  return last | {'diverged': run['diverged']}


def run(
  what: claim.Claim,
  measure: Callable[[bool, KeptRuns], claim.Finding],
  figure: Callable[..., Figure],
  devices: int | None = None,
) -> None:
  """As `claim.run`, for a claim that keeps runs.

  Args:
    what: is claimed.
    measure: (quick, kept runs) -> what was found.
    figure: (rows, further tables by name) -> its figure.
    devices: to emulate; None if no training runs in this process.
  """

  def with_runs(quick: bool, folder: pathlib.Path) -> claim.Finding:
    del folder
    root = pathlib.Path(FOLDER.value)
    if devices:
      # Stopping at once costs no more than the run that is under way.
      for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
      executors.emulate(devices)
      # Runs that differ in their seed have the same programs.
      jax.config.update('jax_compilation_cache_dir', f'{root}-programs')
      jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.3)
    return measure(quick, KeptRuns(root / what.name, MINUTES.value))

  claim.run(what, with_runs, figure)
