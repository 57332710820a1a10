"""Trains pilots: short runs of the user's config, scored on validation data.

Pilots yield scores only. Their seconds are forecast from those of one worker
alone, see `step_cost`, and of the modelled link, see `network`. Finished pilots
are kept in the workdir and are not trained again.
"""

import json
import pathlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from gossipjax.advice.halving import Pilot, halving
from gossipjax.advice.pilot_config import config_of
from gossipjax.advice.pilot_plan import Plan, candidates, planned
from gossipjax.advice.ranking import DENSE, Curve, Rank
from gossipjax.advice.risk import Risk
from gossipjax.comparison import scores, unlearned
from gossipjax.comparison.targets import share_of
from gossipjax.errors import UserError
from gossipjax.results import record_file, workdir
from gossipjax.tuning import trials

_REMEDY = 'delete it, and the same command writes it again'


class Bench:
  """Trains pilots in a folder.

  Args:
    configs: of the variants at full length, by name; all-reduce is DENSE.
    own_s: seconds of a step of one worker alone, by name.
    comm_s: mean communication seconds per step of a full-length training, by
      name, of variants whose traffic does not depend on the gradients. They
      replace a pilot's own, since it may end in the middle of a period.
    link: the name of the configs' link in records.
    folder: of the pilots.
    say: called with a sentence about each pilot that it trains.
    interrupted: asked after every step; True saves and stops.
  """

  def __init__(
    self,
    configs: Mapping[str, ConfigDict],
    own_s: Mapping[str, float],
    comm_s: Mapping[str, float],
    link: str,
    folder: pathlib.Path,
    say: Callable[[str], None],
    interrupted: Callable[[], bool],
  ):
    self._configs, self._own_s, self._link = configs, own_s, link
    self._comm_s = comm_s
    self._folder, self._say, self._interrupted = folder, say, interrupted
    self._tasks: dict[str, Any] = {}
    self.metric = ''  # Column of the score to rank by; set by the first pilot.
    self.higher = False  # Whether large values of it are good.

  def __call__(self, pilot: Pilot) -> Curve:
    """Returns a pilot's curve, training it if needed; empty if it diverged."""
    name, rate = pilot.candidate
    config = config_of(self._configs[name], pilot)
    trial = trials.Trial(name, {}, config, self._place(pilot))
    was_finished = (trial.folder / workdir.SUMMARY).exists()
    summary = trials.finish(trial, self._interrupted, self._tasks)
    # From the task, since a diverged pilot may have recorded no score.
    self.metric, self.higher = scores.of_task(
      config, next(iter(self._tasks.values()))
    )
    metric = self.metric
    records = record_file.columns(trial.folder / workdir.RECORDS)
    # Every record of a pilot has a score, so a missing one was a NaN.
    if summary.get('diverged') or np.isnan(records[metric]).any():
      self._say(f'{name}, learning rate {rate:.3g}: diverged')
      return Curve([], [])
    steps, comm_s = records['step'], records[f'comm_{self._link}_s']
    if name in self._comm_s:
      comm_s = self._comm_s[name] * steps
    seconds = self._own_s[name] * steps + comm_s
    curve = Curve(records[metric].tolist(), seconds.tolist())
    if not was_finished:
      self._say(
        f'{name}, learning rate {rate:.3g}, {pilot.steps} steps: '
        f'{scores.validation(metric)} '
        f'{scores.as_text(metric, curve.scores[-1])}'
      )
    return curve

  def learned_nothing(self, rank: Rank) -> str:
    """See `unlearned.why`, for the pilots of a rank."""
    first = self._configs[DENSE].seed
    seeds = range(first, first + rank.seeds)
    pilots = (Pilot(rank.candidate, rank.steps, seed) for seed in seeds)
    folders = map(self._place, pilots)
    return unlearned.in_folders(folders, self.metric, self.higher)

  def _place(self, pilot: Pilot) -> pathlib.Path:
    name, rate = pilot.candidate
    full = self._configs[name].steps  # The pilot's schedule depends on it.
    steps = f'steps={pilot.steps},of={full}'
    folder_name = f'{steps},rate={rate:.3g},seed={pilot.seed}'
    return self._folder / name / folder_name

  def plan(
    self,
    names: Sequence[str],
    full: int,
    minutes: float,
    step_s: float,
    begin_s: float,
  ) -> Plan | None:
    """The plan of an earlier call with the same minutes, else `planned`."""
    path = self._folder / f'plan_of_{full}_steps.json'
    if path.exists():
      before, plan = workdir.read(path, tuple[float, Plan], _REMEDY)
      if before == minutes:
        return plan
    plan = planned(names, full, 60 * minutes, step_s, begin_s)
    if plan is not None:
      workdir.write(path, json.dumps([minutes, plan]))
    return plan

  def timed(self, pilot: Pilot) -> tuple[float, float]:
    """Measures the seconds here of a step, and of a pilot besides its steps.

    Raises:
      UserError: the pilot diverged.
    """
    path = self._folder / 'timing.json'
    if not path.exists():  # A stopped call may have trained a part of it.
      shutil.rmtree(self._place(pilot), ignore_errors=True)
    began = time.monotonic()
    if not self(pilot).scores:
      name, rate = pilot.candidate
      raise UserError(
        f'{name} diverges at optimizer.learning_rate={rate:.3g} within the '
        f'{pilot.steps} steps of a pilot; set a lower optimizer.learning_rate.'
      )
    if not path.exists():
      took = time.monotonic() - began
      records = record_file.columns(self._place(pilot) / workdir.RECORDS)
      step_s = float(records['train_s'][-1]) / pilot.steps
      begin_s = max(0.0, took - step_s * pilot.steps)
      workdir.write(path, json.dumps([step_s, begin_s]))
    step_s, begin_s = workdir.read(path, list[float], _REMEDY)
    return step_s, begin_s


def run(
  plan: Plan,
  configs: Mapping[str, ConfigDict],
  make: Callable[[Pilot], Curve],
  higher: bool,
  until: float,
  risks: Mapping[str, Risk],
) -> list[list[Rank]]:
  """Trains the pilots of a plan.

  Args:
    plan: the strategies, learning rates and rounds to try.
    configs: of the variants at full length.
    make: trains a pilot and returns its curve.
    higher: whether large scores are good.
    until: the `time.monotonic` after which no pilot begins.
    risks: see `ranked`.

  Returns:
    The ranks of each complete round; [] if none is complete, or if all-reduce
    diverged.
  """
  full, seed = configs[DENSE].steps, configs[DENSE].seed
  ranks: list[list[Rank]] = []
  search = halving(
    list(candidates(plan, configs)),
    plan.rounds,
    full,
    higher,
    seed,
    ranks.append,
    risks,
    share_of(configs[DENSE]),
  )
  pilots = next(search)
  while True:
    curves = []
    for pilot in pilots:
      if time.monotonic() > until:
        return ranks
      curves.append(make(pilot))
    try:
      pilots = search.send(curves)
    except StopIteration as end:
      return ranks if end.value else []
