"""Seconds to a target accuracy on real, slow links.

    python -m experiments.train_1gbit

Steps to the target come from kept trainings with eight workers, tuned and with
several seeds. The seconds of a step are measured between network namespaces at
1 Gbit/s and 100 Mbit/s, with the same model and batch size
(configs/fashion_links.py). Needs Linux, root and iproute2.
"""

import math
import pathlib
import statistics
import tempfile
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments.framework import (
  best_rate,
  claim,
  figures,
  intervals,
  notes,
  seed_statistics,
  study,
  training_claim,
)
from experiments.framework.result_store import ResultStore
from experiments.framework.seed_statistics import ERROR
from experiments.framework.single_run import Result
from experiments.testbed import link_shape, processes
from gossipjax.config import resolve
from gossipjax.errors import UserError
from gossipjax.results import analysis
from gossipjax.results.crossing import crossing
from gossipjax.results.standard_error import standard_error

CLAIM = claim.Claim(
  'train_1gbit',
  'Seconds to an accuracy on slow links',
  'A strategy that sends fewer bytes reaches an accuracy in fewer seconds: '
  'eight processes on two cores, links of 1 Gbit/s and of 100 Mbit/s',
  'nothing; the question is ours',
)
RATES = ('1gbit', '100mbit')
# TARGET is the gate; all-reduce reaches it in the schedule's second half.
WORKLOAD, WORKERS, TARGET = 'fashion', 8, 0.92
METHODS = {
  'all_reduce': {},
  'gossip': {},
  'local_sgd': {},
  'topk': {'density': 0.01},
  'gtopk': {'density': 0.01, 'conserve': True},
  'power_sgd': {},
}
STEPS, SECONDS = 'steps to the target', 'seconds to the target'
STEP_S, WIRE = 'seconds per step, measured', 'bytes on the wire per step'
SPEED = 'times as fast as all_reduce'
FASTER = 1.1  # Times as fast as all-reduce.
TIMED = ('--config.steps=60', '--config.log_every=20', '--config.eval_every=0')


def studies(scale: str) -> training_claim.Studies:
  """Returns a study for each strategy on WORKLOAD."""
  names = list(METHODS)[: 2 if scale == 'quick' else None]
  return {(WORKLOAD, name): partial(_study, name, scale) for name in names}


def _study(name: str, scale: str) -> study.Study:
  strategy = resolve.strategy_config(name, **METHODS[name])
  return best_rate.tune_strategy(WORKLOAD, WORKERS, scale, strategy)


def find(
  found: training_claim.Results, coverage: claim.Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row per strategy and rate; times links once all are trained."""
  rows = []
  if training_claim.is_complete(coverage, WORKLOAD):
    for rate in RATES:
      key = {'rate': rate, 'workers': WORKERS, 'words': TIMED}
      key |= {'methods': METHODS}
      timed = kept.get_or_compute('link_seconds', key, partial(measure, rate))
      by_name = {name: tuned for (_, name), tuned in found.items()}
      rows += [_row(rate, name, by_name, timed) for name in by_name]
  return claim.Finding(
    verdict(rows, coverage),
    rows,
    NOTES,
    *training_claim.evidence(rows, coverage),
    tables={'coverage': coverage},
  )


def measure(rate: str) -> dict[str, dict[str, float]]:
  """Measures seconds and bytes per step of each strategy in namespaces."""
  with tempfile.TemporaryDirectory() as folder:
    code = processes.train(
      WORKERS,
      link_shape.parse(rate),
      ['--config=configs/fashion_links.py', f'--workdir={folder}/run', *TIMED],
    )
    if code:
      raise UserError(f'The timed training ended with exit code {code}.')
    frame = analysis.load(pathlib.Path(folder) / 'run')
  return {name: _step(run) for name, run in frame.groupby('run')}


def _step(run: Any) -> dict[str, float]:
  """Mean step from the first record, when all is compiled, to the last."""
  first, last = run.iloc[0], run.iloc[-1]
  steps = last.step - first.step
  return {
    STEP_S: float((last.train_s - first.train_s) / steps),
    WIRE: float((last.wire_bytes - first.wire_bytes) / steps),
  }


def _row(
  rate: str,
  name: str,
  found: dict[str, best_rate.Tuned],
  timed: dict[str, dict[str, float]],
) -> dict[str, Any]:
  """A row of the table; the speed is paired by seed."""
  tuned, dense = found[name], found['all_reduce']
  steps = [steps_to(run) for run in tuned.runs]
  reached = bool(steps) and None not in steps
  mean = statistics.fmean(steps) if reached else None
  error = standard_error(steps) if reached and tuned.inside else None
  base = [steps_to(run) for run in dense.runs]
  speed, speed_error = seed_statistics.ratio(base, steps)
  known = tuned.inside and dense.inside and speed_error is not None
  step_s = timed[name][STEP_S]
  per_step = timed['all_reduce'][STEP_S] / step_s
  return {
    'workload': WORKLOAD,
    'rate': rate,
    'strategy': name,
    'seeds': len(tuned.runs),
    'learning rate': tuned.rate,
    'validation score by rate': seed_statistics.curve(tuned.curve),
    STEPS: mean,
    **timed[name],
    SECONDS: mean and mean * step_s,
    f'{SECONDS}{ERROR}': error and error * step_s,
    SPEED: speed and speed * per_step,
    f'{SPEED}{ERROR}': speed_error * per_step if known else None,
  }


def steps_to(run: Result) -> float | None:
  """Steps to the target, interpolated between evaluations; None if missed."""
  curve = [
    (float(record['step']), record['test_accuracy'])
    for record in run['records']
    if record.get('test_accuracy') is not None
  ]
  return crossing([(0.0, 0.0), *curve], TARGET)


def verdict(rows: claim.Rows, coverage: claim.Rows) -> claim.Verdict:
  """Judges each rate: a strategy that sends less must be 1.1 times as fast."""
  parts, cases = [], []
  for rate in figures.distinct(rows, 'rate'):
    at_rate = {r['strategy']: r for r in rows if r['rate'] == rate}
    dense = at_rate['all_reduce']
    fewer = [r for r in at_rate.values() if r[WIRE] < dense[WIRE] and r[SPEED]]
    cases.append(_case(fewer) if dense[SECONDS] else None)
    if not fewer:
      continue
    best = max(fewer, key=lambda row: row[SPEED])
    first = [row for row in fewer if _is_as_fast(row, best)]
    share = [{'share': row[WIRE] / dense[WIRE]} for row in first]
    parts.append(
      f'{", ".join(row["strategy"] for row in first)} '
      f'{claim.span(first, SPEED)} at {rate} '
      f'({claim.span(share, "share")} of the bytes)'
    )
  ours = f'times as fast as all_reduce: {"; ".join(parts) or "nothing yet"}'
  never = sorted({row['strategy'] for row in rows if not row[SECONDS]})
  missed = f' Not at the target: {", ".join(never)}.' if never else ''
  full = f'To {TARGET:.2f} held out, {ours}.{missed}'
  return claim.make_verdict(cases, ours, full, training_claim.doubt(coverage))


def _case(fewer: claim.Rows) -> bool | None:
  """Whether one of these rows is surely 1.1 times as fast; they share the error
  rate. None if none is, and the seeds cannot tell of one."""
  faster = [
    intervals.at_least(
      FASTER, row[SPEED], row[f'{SPEED}{ERROR}'], row['seeds'], len(fewer)
    )
    for row in fewer
  ]
  return True if True in faster else None if None in faster else False


def _is_as_fast(row: dict[str, Any], best: dict[str, Any]) -> bool:
  """Whether the seeds cannot tell a row's seconds from those of the best."""
  errors = [r[f'{SECONDS}{ERROR}'] for r in (row, best)]
  if row is best or None in errors:
    return row is best
  error = math.hypot(*errors)
  later = intervals.at_least(best[SECONDS], row[SECONDS], error, row['seeds'])
  return later is None


NOTES = notes.of('train_1gbit', workers=WORKERS, target=TARGET, faster=FASTER)


def figure(rows: claim.Rows, coverage: claim.Rows) -> Figure:
  """Seconds to the target of each strategy, a panel per rate."""
  del coverage
  rates = figures.distinct(rows, 'rate')
  found = Figure(figsize=(9, 3.5), layout='constrained')
  panels = found.subplots(1, len(rates), squeeze=False)[0]
  for axes, rate in zip(panels, rates, strict=True):
    group = [row for row in rows if row['rate'] == rate and row[SECONDS]]
    axes.bar(
      [row['strategy'] for row in group],
      [row[SECONDS] for row in group],
      yerr=[row[f'{SECONDS}{ERROR}'] or math.nan for row in group],
    )
    label = f'{SECONDS} {TARGET:.2f} held out\n(bars: standard error)'
    axes.set(title=rate, ylabel=label)
    axes.tick_params(axis='x', rotation=20)
  return found


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
