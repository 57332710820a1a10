"""Makes known_runs.csv of the package: the kept runs that `advise` knows.

Its sources are experiments/runs and the trusted comparisons (BELIEVED) under
experiments/results. It has each strategy and setting at its best learning rate.
"""

import csv
import io
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from experiments.framework import finding_files, workloads
from experiments.framework.result_store import ResultStore, once_per_seed
from gossipjax.advice import known_file, known_runs
from gossipjax.advice.known_runs import DENSE, Known
from gossipjax.comparison import targets
from gossipjax.config import given_arguments
from gossipjax.results import crossing, workdir
from gossipjax.tasks.task import is_higher

# Comparisons that `advise` trusts, with their models, as summaries name neither
# model nor optimizer. Not quickstart: 3 of its 297 held-out digits are a point.
BELIEVED = {'async_fashion_mnist': 'mlp', 'fashion_mnist': 'cnn'}
OPTIMIZER = 'sgd'
Line = Mapping[str, Any]


def text(kept: ResultStore | None = None) -> str:
  """Returns the file's text; `kept` defaults to all committed runs."""
  found = io.StringIO()
  writer = csv.DictWriter(found, known_file.columns(), lineterminator='\n')
  writer.writeheader()
  kept = kept or ResultStore()
  for name in BELIEVED:
    writer.writerows(_of_comparison(name))
  for kind in kept.kinds():
    writer.writerows(_of_kept(kind, kept.lines(kind).values()))
  return found.getvalue()


def _row(by_share: Iterable[Known]) -> dict[str, Any]:
  """Returns the CSV row of a run, with the columns of each of SHARES."""
  return {
    known_file.column(field, share): value
    for share, known in zip(known_file.SHARES, by_share, strict=True)
    for field, value in known._asdict().items()
  }


def _of_comparison(name: str) -> Iterator[dict[str, Any]]:
  """Yields the rows of a comparison; its summary has only final scores."""
  summary = workdir.summary(finding_files.RESULTS / name)
  scores = {run['name']: run['test_accuracy'] for run in summary['runs']}
  dense = scores.pop(DENSE)
  config = {'optimizer': {'name': OPTIMIZER}, **summary['config']}
  identity = known_runs.identity(config)._replace(model=BELIEVED[name])
  for run in sorted(scores):
    known = Known(
      name,
      *identity,
      run,
      'test_accuracy',
      scores[run],
      dense,
      missed=math.nan,
      relative_steps=math.nan,
      seeds=1,
    )
    yield _row([known] * len(known_file.SHARES))


def _of_kept(kind: str, lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
  """Yields rows of the strategies that a file's runs compare to all-reduce."""
  workload = workloads.WORKLOADS.get(kind)
  metric = workload.metric if workload else 'test_accuracy'
  groups: dict[str, dict[str, dict[float, list[Line]]]] = {}
  for line in once_per_seed(lines):
    config = line['key'].get('config', {})
    if not _is_comparable(config, line, metric):
      continue
    group = _setting(config)
    strategy = json.dumps(config['strategy'])
    rates = groups.setdefault(group, {}).setdefault(strategy, {})
    rate = config['optimizer']['learning_rate']
    rates.setdefault(rate, []).append(line)
  for settings in groups.values():
    best = [_best(rates, metric) for rates in settings.values()]
    dense = [r for r in best if _name(r) == DENSE and _bests(r, metric)]
    if dense:
      yield from _compared(kind, metric, dense[0], best)


def _is_comparable(config: Mapping[str, Any], line: Line, metric: str) -> bool:
  """Whether a kept result is a lock-step training scored on test data; one that
  diverged counts without a score."""
  result = line['result']
  return (
    'strategy' in config
    and not config.get('cluster')
    and config.get('split', {}).get('holdout') != 'validation'
    and (result.get('diverged') or _curve(line, metric))
  )


def _setting(config: Mapping[str, Any]) -> str:
  """Returns, as JSON, the settings that runs of one comparison share."""
  keys = ('task', 'split', 'workers', 'steps', 'batch_size')
  shared = [config.get(key) for key in keys]
  return json.dumps([*shared, config['optimizer']['name']], sort_keys=True)


def _curve(line: Line, metric: str) -> list[tuple[float, float]]:
  """Returns pairs of step and score; [] if the run diverged."""
  result = line['result']
  return [
    (record['step'], record[metric])
    for record in result.get('records', ())
    if record.get(metric) is not None and not result.get('diverged')
  ]


def _bests(runs: Iterable[Line], metric: str) -> list[float]:
  """Returns the best score of each seed that has scores."""
  pick = targets.pick(is_higher(metric))
  curves = filter(None, (_curve(run, metric) for run in runs))
  return [pick(score for _, score in curve) for curve in curves]


def _score(runs: Iterable[Line], metric: str) -> float:
  """Returns the mean over seeds of the best score; NaN if all diverged."""
  bests = _bests(runs, metric)
  return statistics.fmean(bests) if bests else math.nan


def _best(rates: Mapping[float, list[Line]], metric: str) -> list[Line]:
  """Returns the runs at the best rate: by most seeds, then by fewest seeds that
  diverged, then by mean score."""
  sign = 1 if is_higher(metric) else -1

  def merit(runs: list[Line]) -> tuple[int, int, float]:
    bests = _bests(runs, metric)
    return len(runs), len(bests), sign * statistics.fmean(bests or [0.0])

  return max(rates.values(), key=merit)


def _name(runs: list[Line]) -> str:
  return runs[0]['key']['config']['strategy']['name']


def _compared(
  kind: str, metric: str, dense: list[Line], best: list[list[Line]]
) -> Iterator[dict[str, Any]]:
  for runs in best:
    if runs is not dense:
      base = _paired(dense, runs, metric)
      known = Known(
        kind,
        *known_runs.identity(runs[0]['key']['config']),
        _name(runs),
        metric,
        _score(runs, metric),
        _score(base, metric),
        missed=math.nan,
        relative_steps=math.nan,
        seeds=len(runs),
        arguments=given_arguments.as_text(runs[0]['key']['config']['strategy']),
      )
      yield _row(_reached(known, runs, base, s) for s in known_file.SHARES)


def _reached(
  known: Known, runs: list[Line], base: list[Line], share: float
) -> Known:
  """Adds the share of seeds that miss the target, and the relative steps."""
  metric = known.score
  target = targets.target_of(_bests(base, metric), is_higher(metric), share)
  base_steps, arrived = (_steps(each, target, metric) for each in (base, runs))
  mean = statistics.fmean
  ratio = mean(arrived) / mean(base_steps) if arrived else math.inf
  missed = 1 - len(arrived) / len(runs)
  return known._replace(missed=missed, relative_steps=ratio)


def _paired(dense: list[Line], runs: list[Line], metric: str) -> list[Line]:
  """Returns all-reduce's runs with the seeds of `runs`; all if none scored."""
  seed = lambda run: run['key']['config'].get('seed', 0)
  same = [run for run in dense if seed(run) in {*map(seed, runs)}]
  return same if _bests(same, metric) else dense


def _steps(runs: list[Line], target: float, metric: str) -> list[float]:
  """Returns the steps to a target, of the runs that reach it."""
  reached = lambda run: crossing.crossing(
    _curve(run, metric), target, is_higher(metric)
  )
  return [step for step in map(reached, runs) if step is not None]
