"""Runs the trainings that claims need and that are not kept yet.

    nice -n 19 python -m experiments.queue [CLAIM ...] --minutes=150
    python -m experiments.queue [CLAIM ...] --status
    python -m experiments.queue gtopk_mass --workload=fashion-dense

Every run is kept in experiments/runs as soon as it is finished. The queue may
be stopped in any way, and resumes where it was. The gates of all workloads come
first, since a claim on a workload without a met gate has no verdict; then
claims take turns, each with its most telling study.

Several queues may share a folder; none makes a run that another is making. One
queue on each core (`taskset -c 0 nice ...`) is fastest: 21 steps a second in
all, against 13 to 18 of two queues that share both cores (fashion).
"""

import importlib
import itertools
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from absl import app, flags
from ml_collections import ConfigDict

from experiments.framework import (
  best_rate,
  gates,
  own_process,
  study,
  training_claim,
  workloads,
)
from experiments.framework.result_store import ResultStore, folder_of, locked
from gossipjax.commands import command_line, console
from gossipjax.distributed import allocator, gpus
from gossipjax.errors import UserError, check_minutes, nearest

# The most valuable first.
CLAIMS = (
  'gtopk_mass',
  'adaptive_gossip',
  'hylo',
  'fronts',
  'sites',
  'union_size',
  'async_crossover',
  'stragglers',
  'adaptive_time',
  'train_1gbit',
  'speedups',
  'advice_quality',
)
MINUTES = flags.DEFINE_float('minutes', 150.0, 'After which no run begins.')
ONLY = flags.DEFINE_list('workload', [], 'Only studies on these; all if empty.')
STATUS = flags.DEFINE_bool('status', False, 'Show what is missing.')
LOCK = 'queue.lock'  # In the folder of runs; each run locks one byte of it.
WAIT_S = 10.0  # Pause while other queues make all that is left.


class Job(NamedTuple):
  """A study of a claim.

  Attributes:
    claim: its name, or 'gate'.
    cell: what the study is about; its first part is the workload.
    begin: makes the study.
  """

  claim: str
  cell: tuple[Any, ...]
  begin: Callable[[], study.Study]


def jobs(
  names: Sequence[str], scale: str, only: Sequence[str] = ()
) -> Iterator[Job]:
  """Yields gates, then the studies of some claims, in the order of the work;
  only those on the workloads in `only`, unless it is empty."""
  claim_of = lambda name: importlib.import_module(f'experiments.{name}')
  claims = [
    [
      Job(name, *item)
      for item in training_claim.of_scale(studies, scale).items()
    ]
    for name in names
    for studies in [claim_of(name).studies(scale)]
  ]
  turns = filter(None, itertools.chain(*itertools.zip_longest(*claims)))
  found = [job for job in turns if not only or job.cell[0] in only]
  for name in dict.fromkeys(job.cell[0] for job in found):
    yield Job('gate', (name,), partial(gates.of_all_reduce, name, scale))
  yield from found


class OutOfTime(Exception):
  """No further run may begin."""


def work(
  found: Iterable[Job], kept: ResultStore, minutes: float
) -> tuple[int, int]:
  """Makes what is missing until the time is over.

  Returns:
    How many runs were made, and how many studies were given up.
  """
  made, failed, deadline = 0, 0, time.monotonic() + 60 * minutes

  def make(request: study.RunRequest) -> None:
    nonlocal made
    if time.monotonic() > deadline:
      raise OutOfTime
    with locked(request.key, kept.folder / LOCK) as acquired:
      if acquired and study.line_of(request, kept) is None:
        seconds = _make(request, kept)
        made += 1
        left = max(0.0, deadline - time.monotonic()) / 60
        ended = f'{seconds:.0f} s; {made} runs made, {left:.0f} minutes left'
        console.say(f'{_title(job, request.config)}: {ended}')

  try:
    while found:
      before, waiting = made, []
      for job in found:
        try:
          study.complete(job.begin(), kept, make)
        except study.RunInProgress:
          waiting.append(job)
        except (RuntimeError, UserError) as error:
          failed += 1
          console.say(f'{job.claim} {job.cell} was given up: {error}')
      found = waiting
      if waiting and made == before:
        time.sleep(WAIT_S)
  except OutOfTime:
    console.say('Time is up; the same command continues.')
  else:
    given_up = f', but {failed} studies were given up, see above' * (failed > 0)
    console.say(f'No run is left to make{given_up}.')
  return made, failed


def _make(request: study.RunRequest, kept: ResultStore) -> float:
  """Makes and keeps a run; returns its seconds."""
  result, seconds, made_with = own_process.in_a_process(
    request.config, request.probe
  )
  kept.add(request.workload, request.key, result, seconds, made_with)
  return seconds


def _title(job: Job, config: ConfigDict) -> str:
  return (
    f'{job.claim} {" ".join(map(str, job.cell))}, learning rate '
    f'{config.optimizer.learning_rate:g}, seed {config.seed}'
  )


def status(
  names: Sequence[str], kept: ResultStore, scale: str, only: Sequence[str] = ()
) -> list[str]:
  """A line for each gate and each claim: runs made, missing, hours left."""
  lines, every_job = [], [*jobs(names, scale, only)]
  for job in every_job:
    if job.claim == 'gate':
      lines.append(f'gate {gates.gate(job.cell[0], kept, scale)}')
  for name in names:
    made = missing = done = 0
    hours = 0.0
    part = [job for job in every_job if job.claim == name]
    for job in part:
      progress = study.replay(job.begin(), kept)
      left = _missing(progress)
      made, missing = made + len(progress.made), missing + left
      done += not left
      hours += left * study.seconds_of(progress.missing, kept) / 3600
    lines.append(
      f'{name}: {done} of {len(part)} studies done, {made} runs made, at least '
      f'{missing} missing, about {hours:.1f} hours left'
    )
  return lines


def _missing(progress: study.Progress) -> int:
  """Runs that a study needs at least: three rates, then its seeds."""
  if not progress.missing:
    return 0
  return max(len(progress.missing), 3 + best_rate.SEEDS - len(progress.made))


def _check(kind: str, names: Iterable[str], known: Collection[str]) -> None:
  for name in names:
    if name not in known:
      raise UserError(f'{name} is no {kind}{nearest(name, known)}')


def main(argv: list[str], interrupted: Any) -> None:
  """The command line."""
  del interrupted  # Stopping at once costs no more than the run under way.
  names = argv[1:] or CLAIMS
  _check('claim that trains', names, CLAIMS)
  _check('workload', ONLY.value, workloads.WORKLOADS)
  scale = training_claim.SCALE.value
  kept = ResultStore(
    folder_of(scale, pathlib.Path(training_claim.FOLDER.value))
  )
  if STATUS.value:
    print('\n'.join(status(names, kept, scale, ONLY.value)))
    return
  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
  os.environ |= allocator.environment() | os.environ  # For the trainings.
  gpus.share_memory()  # Several queues, and their trainings, share a GPU.
  if scale == 'gpu':
    gpus.require()  # Else CPU runs would be kept as a GPU's.
  check_minutes(MINUTES.value)
  _, failed = work(jobs(names, scale, ONLY.value), kept, MINUTES.value)
  if failed:
    sys.exit(1)


if __name__ == '__main__':
  app.run(
    console.guarded(main, again='the same command'),
    flags_parser=lambda argv: command_line.parse(argv, positional=len(CLAIMS)),
  )
