"""Asynchronous methods: real processes against virtual time's prediction.

    python -m experiments.async_measured

Four workers train in their own processes on this machine (config.engine='ray').
Gradients take the seconds of a trace measured here. Worker 0 sleeps Uniform(0,
300 ms) after each of its gradients: Jin et al., 2016 (arXiv:1611.04581).

It takes some 40 minutes on an idle machine. After a stop the same command
resumes, since rows are kept in runs/claims.
"""

import functools
import itertools
import pathlib
import statistics
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import (
  claim,
  notes,
  other_load,
  real_time,
  result_store,
  single_run,
)
from experiments.framework.intervals import is_near
from experiments.framework.other_load import OTHERS, OVERRUN
from experiments.framework.seed_statistics import ratio
from gossipjax.results.crossing import crossing
from gossipjax.training.record import Record

CLAIM = claim.Claim(
  'async_measured',
  'Asynchronous methods: measured, and in virtual time',
  'Virtual time predicts within 15 % the seconds to a target of four real '
  'asynchronous processes, one of them slow',
  'no prediction; the sleeping straggler is that of arXiv:1611.04581',
)
KEPT = pathlib.Path('runs/claims')
WORKERS, SEEDS, TARGET, STEPS = 4, 3, 0.8, 400
SLOWER = 8  # A trace's seconds over those measured, so that cores suffice.
METHODS = {
  'server': ('parameter_server', 0.0125),
  'EASGD': ('elastic', 0.05),
  'AD-PSGD': ('pairwise_gossip', 0.05),
  'pull-gossip': ('pull_gossip', 0.05),
}
SECONDS, STALE = f'seconds to {TARGET} held out', 'mean staleness'
KEYS, NEAR = (SECONDS, STALE), 0.15


def config(method: str, seed: int, quick: bool) -> ConfigDict:
  """The config of a run, without its cluster."""
  strategy, rate = METHODS[method]
  steps = 8 if quick else STEPS
  return real_time.config(strategy, WORKERS, steps, 20, seed, quick, rate)


def trace(of: ConfigDict, path: pathlib.Path) -> float:
  """Writes seconds of gradients, more than steps, and returns their mean.

  Each worker's column has its own order, since workers that finish at the same
  moment are served as one.
  """
  times = real_time.gradients_s(of, of.strategy.name, of.steps)
  seconds = SLOWER * np.resize(np.array(times), 4 * of.steps)
  rng = np.random.default_rng(of.seed)
  columns = [rng.permutation(seconds) for _ in range(WORKERS)]
  np.savetxt(path, np.stack(columns, 1), '%.6f')
  return float(seconds.mean())


def machines(path: pathlib.Path, **link: Any) -> ConfigDict:
  """The cluster of real and modelled runs: a trace and one slow worker."""
  return real_time.machines(path, **link, sleep_s=0.3, stragglers=(0,))


def found_in(records: list[Record]) -> dict[str, float | None]:
  """Seconds to the target, and the mean staleness of all gradients."""
  curve = real_time.curve(records)
  steps = np.diff([0, *(r.step for r in records)])
  return {
    SECONDS: crossing([(0.0, 0.0), *curve], TARGET),
    STALE: float(np.average([r.staleness for r in records], weights=steps)),
  }


def row(method: str, seed: int, quick: bool, folder: pathlib.Path):
  """Measures and predicts one method with one seed."""
  settings, path = config(method, seed, quick), folder / 'trace.txt'
  mean_s = trace(settings, path)
  calm = settings.copy_and_resolve_references()
  calm.steps = min(40, settings.steps)
  (took_s, overrun), busy = other_load.beside(
    lambda: real_time.timed_exchange(calm, path, mean_s)
  )
  rounds = 2 if method in ('server', 'EASGD') else 1
  link = {'latency_s': took_s / rounds, 'bytes_per_s': float('inf')}
  train = lambda: found_in(
    real_time.train_asynchronous(settings, machines(path))
  )
  measured, others = other_load.beside(train)
  predicted = found_in(real_time.predicted(settings, machines(path, **link)))
  return {
    'method': method,
    'seed': seed,
    **{f'{key}, measured': measured[key] for key in KEYS},
    **{f'{key}, predicted': predicted[key] for key in KEYS},
    'ms of an exchange': 1000 * took_s,
    OVERRUN: overrun,
    OTHERS: max(busy, others),
  }


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Measures all methods and seeds in turn, keeping each when it is done."""
  methods, seeds = list(METHODS)[: 1 if quick else None], 1 if quick else SEEDS
  store = result_store.ResultStore(folder if quick else KEPT)
  rows = []
  for method, seed in itertools.product(methods, range(seeds)):
    key = single_run.key_of(config(method, seed, quick)) | {'slower': SLOWER}
    take = functools.partial(row, method, seed, quick, folder)
    rows.append(store.get_or_compute(CLAIM.name, key, take))
  (folder / 'trace.txt').unlink(missing_ok=True)
  return claim.Finding(
    verdict(rows),
    rows,
    NOTES,
    'CNN (220,234 parameters) on Fashion-MNIST, 4 processes of one thread',
    f'{STEPS} steps of {real_time.BATCH} images',
    seeds,
  )


NOTES = notes.of(
  'async_measured',
  slower=SLOWER,
  overrun=OVERRUN,
  others=OTHERS,
  most_overrun=other_load.MOST_OVERRUN,
  most_others=other_load.MOST_OTHERS,
  staleness=WORKERS - 1,
)


def pairs(rows: claim.Rows, key: str) -> list[list[tuple]]:
  """(measured, predicted) of each seed, for each method; not for methods with
  zeros alone: a method that only reads never uses a stale gradient."""
  found: dict[str, list[tuple]] = {}
  for row in rows:
    pair = row[f'{key}, measured'], row[f'{key}, predicted']
    found.setdefault(row['method'], []).append(pair)
  return [each for each in found.values() if {*each} != {(0, 0)}]


def _ratio(seeds: list[tuple]) -> tuple[float | None, float | None]:
  """Measured over predicted, means over seeds, and its standard error."""
  return ratio(*zip(*seeds, strict=True))


def _is_near(seeds: list[tuple]) -> bool | None:
  """Whether a prediction is near; None if its seeds cannot tell."""
  if None in itertools.chain(*seeds):  # A target that was not reached.
    return None
  return is_near(NEAR, *_ratio(seeds), len(seeds))


def verdict(rows: claim.Rows) -> claim.Verdict:
  """Judges the prediction for each method."""
  if not rows:
    return claim.make_verdict(
      [], '', 'Nothing.', 'not measured on an idle machine'
    )
  cases = [_is_near(seeds) for seeds in pairs(rows, SECONDS)]

  def span(key: str) -> str:
    ratios = [{'ratio': _ratio(seeds)[0]} for seeds in pairs(rows, key)]
    return claim.span(ratios, 'ratio')

  overrun = statistics.fmean(r[OVERRUN] for r in rows)
  ours = f'measured over predicted seconds: {span(SECONDS)}'
  return claim.make_verdict(
    cases,
    ours,
    f'Of {len(cases)} predictions {cases.count(True)} are near, '
    f'{cases.count(None)} undecided: {ours}; of the mean staleness, which is '
    f'not judged: {span(STALE)}. Processes computed {overrun:.2f} times as '
    'long as asked.',
    other_load.doubt(rows),
  )


def figure(rows: claim.Rows) -> Figure:
  """Measured against predicted seconds and staleness."""
  found = Figure(figsize=(8, 3.8), layout='constrained')
  for axes, key in zip(found.subplots(1, 2), KEYS, strict=True):
    for i, method in enumerate(dict.fromkeys(r['method'] for r in rows)):
      group: list[dict[str, Any]] = [r for r in rows if r['method'] == method]
      x, y = (
        [r[f'{key}, {what}'] for r in group]
        for what in ('predicted', 'measured')
      )
      axes.plot(x, y, 'o', color=f'C{i}', label=method)
    axes.axline((0, 0), slope=1, color='0.7', linewidth=1)
    axes.set(xlabel=f'{key}, predicted', ylabel='measured')
  found.legend(*axes.get_legend_handles_labels(), loc='outside right upper')
  return found


if __name__ == '__main__':
  claim.run(CLAIM, measure, figure)
