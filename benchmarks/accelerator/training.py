"""Workloads of the evidence queue at the scale gpu, small data sets first.

The runs are those that `python -m experiments.queue --scale=gpu` makes, kept in
DIR/runs: copy them to experiments/runs/gpu, where the queue and the tables find
them. Each training runs in its own process; one that the time limit cuts off is
lost. A finished training is a line in DIR/runs, prints a line with its score,
and counts in the summary, even before its study is complete.
"""

import pathlib
import shutil
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.accelerator.measures import Clock
from experiments import fronts, queue
from experiments.framework import best_rate, gates, study, workloads
from experiments.framework.result_store import ResultStore, folder_of

RUNS = 'runs'  # In the folder of the results.
SMALL = ('shakespeare', 'fashion')  # Data sets of 1 and 30 MB; CIFAR-10: 170.


def jobs(scale: str) -> Iterator[queue.Job]:
  """The gates of all workloads, then every strategy with all seeds."""
  names = (
    ('fashion',)
    if scale == 'quick'
    else sorted(
      (name for name, w in workloads.WORKLOADS.items() if 'gpu' in w.sizes),
      key=lambda name: (*SMALL, name).index(name),
    )
  )
  for name in names:
    yield queue.Job('gate', (name,), partial(gates.of_all_reduce, name, scale))
  if scale == 'quick':
    return
  for workload in names:
    for cell in fronts.studies(scale):
      if cell[0] == workload and cell[1] not in fronts.FURTHER:
        yield queue.Job(
          'all strategies',
          cell,
          partial(fronts.method, *cell, scale, best_rate.SEEDS),
        )


def with_data(
  found: Iterator[queue.Job], kept: ResultStore, scale: str
) -> Iterator[queue.Job]:
  """Leaves out workloads whose gate made no run, as their data are missing.

  Otherwise each of many studies would start a process that finds no data.
  """
  for job in found:
    gate = gates.of_all_reduce(job.cell[0], scale)
    if job.claim == 'gate' or study.replay(gate, kept).made:
      yield job


class PrintingStore(ResultStore):
  """ResultStore results, each of which is printed as soon as it is kept."""

  def add(self, kind: str, key: Any, result: Any, *made: Any) -> None:
    """See `ResultStore`."""
    super().add(kind, key, result, *made)
    config = key['config']
    print(
      f'training {kind} {config["strategy"]["name"]} '
      f'{of_run(kind, config, result)}',
      flush=True,
    )


def of_run(workload: str, config: dict[str, Any], result: Any) -> str:
  """Formats a run's score, with its rate, its seed and its held-out set."""
  spec = workloads.WORKLOADS[workload]
  scored = spec.score(result)
  end = 'diverged' if scored is None else f'{abs(scored):.4g}'
  # A key leaves out empty values.
  holdout = config.get('split', {}).get('holdout', 'test')
  return (
    f'{end} (rate {config["optimizer"]["learning_rate"]:g}, seed '
    f'{config.get("seed", 0)}, {holdout})'
  )


def make_missing(
  folder: pathlib.Path, small: bool, clock: Clock
) -> Iterator[str]:
  """Makes the missing trainings; yields a line about them."""
  scale, kept = 'quick' if small else 'gpu', PrintingStore(folder / RUNS)
  if not small:
    _begin(kept.folder)
  available = with_data(jobs(scale), kept, scale)
  made, given_up = queue.work(available, kept, clock.left() / 60)
  yield f'training: {made} runs made, {given_up} studies given up'


def _begin(runs: pathlib.Path) -> None:
  """Copies the runs that are kept in the repository, to not repeat them."""
  runs.mkdir(parents=True, exist_ok=True)
  for path in folder_of('gpu').glob('*.jsonl'):
    if not (runs / path.name).exists():
      shutil.copy(path, runs)


def lines(folder: pathlib.Path) -> list[dict[str, Any]]:
  """All finished trainings, of any workload."""
  kept = ResultStore(folder / RUNS)
  names = sorted(path.stem for path in kept.folder.glob('*.jsonl'))
  return [line for name in names for line in kept.lines(name).values()]


def rows(folder: pathlib.Path, small: bool) -> list[dict[str, Any]]:
  """A row for each study that has begun: its score with all seeds."""
  kept, found = ResultStore(folder / RUNS), []
  for job in jobs('quick' if small else 'gpu'):
    progress = study.replay(job.begin(), kept)
    if not progress.made:
      continue
    tuned = progress.found
    workload = workloads.WORKLOADS[job.cell[0]]
    scores = [workload.score(run) for run in tuned.runs] if tuned else []
    by_seed = ', '.join(
      'diverged' if score is None else f'{abs(score):.4g}' for score in scores
    )
    request = progress.made[-1]
    line = study.line_of(request, kept)
    so_far = of_run(request.workload, line['key']['config'], line['result'])
    found.append(
      {
        'workload': job.cell[0],
        'strategy': job.cell[1] if len(job.cell) > 1 else 'all_reduce (gate)',
        'metric': workload.metric,
        'gate': workload.gate_at('quick' if small else 'gpu'),
        'by seed': by_seed or f'so far {so_far}',
        'rate': tuned.rate if tuned else '',
        'rate inside': tuned.inside if tuned else '',
        'runs': len(progress.made),
      }
    )
  return found
