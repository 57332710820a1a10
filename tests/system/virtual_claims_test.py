"""Verdicts of the claims about virtual time follow from their rows."""

import pytest

from experiments import adaptive_time, async_crossover, stragglers
from experiments.framework import seed_statistics, virtual_time
from experiments.framework.best_rate import Tuned

MET = [
  {
    'workload': 'fashion',
    'scale': 'cpu',
    'gate met': True,
    'studies finished': 1,
  }
]
ERROR = f'{async_crossover.PART}{seed_statistics.ERROR}'


def row(workers, method, seconds, waiting, error):
  """A row of `async_crossover`; `waiting` is the seconds of all-reduce."""
  return {
    'workers': workers,
    'method': method,
    'seeds': 3,
    async_crossover.TIME: seconds,
    async_crossover.PART: seconds and seconds / waiting,
    ERROR: error,
    async_crossover.SPEED: None,
    seed_statistics.INSIDE: True,
  }


def crossover(free, waiting, error=0.01):
  """Rows of all methods. Functions of the number of workers give seconds of
  asynchronous methods (`free`) and of all-reduce (`waiting`)."""
  return [
    row(
      workers,
      name,
      (waiting if name == 'all-reduce' else free)(workers),
      waiting(workers),
      error,
    )
    for workers in async_crossover.WORKERS
    for name in async_crossover.METHODS
  ]


@pytest.mark.parametrize(
  'free, met, undecided',
  [
    (lambda p: 1.0 if p <= 32 else 3.0, 4, 0),
    (lambda p: 1.0, 0, 0),  # The lead never ends.
    (lambda p: 3.0, 0, 0),
    (lambda p: 1.0 if p == 4 else None, 0, 0),
    (lambda p: 1.0 if p == 64 else 3.0, 0, 0),  # No lead with fewer workers.
  ],
)
def test_a_verdict_on_the_crossover_follows_from_the_rows(free, met, undecided):
  verdict = async_crossover.verdict(crossover(free, lambda p: 2.0), MET)
  assert (verdict.met, verdict.of, verdict.open) == (met, 4, undecided)


def test_a_crossover_is_decided_once_missing_rows_cannot_change_it():
  found = async_crossover.ends_near_32
  assert found({8: False}) is False  # It has no lead with few workers.
  assert found({8: True, 32: False, 16: False}) is False
  assert found({8: True, 32: None, 16: True, 128: True}) is False
  assert found({8: True, 32: False, 16: True, 4: True}) is None
  all_known = {4: True, 8: True, 16: True, 32: False, 64: False, 128: False}
  assert found(all_known) is True


def test_a_crossover_within_the_errors_or_with_few_rows_is_undecided():
  rows = crossover(lambda p: 1.7, lambda p: 2.0, error=0.5)
  assert async_crossover.verdict(rows, MET).word.startswith('undecided')
  some = [
    r for r in crossover(lambda p: 1.0, lambda p: 2.0) if r['workers'] < 9
  ]
  assert async_crossover.verdict(some, MET).word.startswith('undecided')


def test_a_target_missed_at_the_lowest_or_highest_rate_is_undecided():
  rows = crossover(lambda p: None, lambda p: 2.0)
  at_an_end = [{**r, seed_statistics.INSIDE: False} for r in rows]
  assert async_crossover.verdict(rows, MET).open == 0
  assert async_crossover.verdict(at_an_end, MET).open == 4


@pytest.mark.parametrize(
  'part, error, times, met, of',
  [
    (0.5, 0.01, 100, 2, 2),
    (0.8, 0.01, 100, 0, 2),
    (0.8, 0.01, 99, 0, 0),  # Too few exchanges to tell.
    (0.5, 0.2, 100, 0, 0),
    (None, None, 100, 0, 0),
  ],
)
def test_a_verdict_on_saved_time_follows_from_the_rows(
  part, error, times, met, of
):
  rows = [
    {
      'relative transfer time': 1.0,
      'method': name,
      'seeds': 3,
      'traffic saved': 0.9,
      adaptive_time.TIMES: times,
      adaptive_time.PART: part,
      f'{adaptive_time.PART}{seed_statistics.ERROR}': error,
    }
    for name in adaptive_time.METHODS
  ]
  verdict = adaptive_time.verdict(rows, MET)
  assert (verdict.met, verdict.of) == (met, of)
  some = [row for row in rows if row['method'] != adaptive_time.ADAPTIVE[1]]
  assert adaptive_time.verdict(some, MET).missing == 1


@pytest.mark.parametrize(
  'free, error, met, of',
  [(1.0, 0.01, 8, 8), (1.6, 0.01, 0, 8), (1.0, 0.2, 0, 0), (1.0, None, 0, 0)],
)
def test_a_verdict_on_stragglers_follows_from_the_rows(free, error, met, of):
  rows = []
  for name, (_, how, _) in stragglers.METHODS.items():
    waits = how == stragglers.SYNCHRONOUS
    rows.append(
      {
        'method': name,
        'seeds': 3,
        stragglers.SLOW: 1.5 if waits else free,
        f'{stragglers.SLOW}{seed_statistics.ERROR}': error,
        stragglers.SLOW_TARGET: 1.4,
        stragglers.STOPPED: 60.0 if waits else None,
      }
    )
  verdict = stragglers.verdict(rows, MET)
  assert (verdict.met, verdict.of) == (met, of)
  assert verdict.sentence.startswith('One worker of 16')
  some = [row for row in rows if row['method'] != 'local SGD, 8']
  assert len(some) == len(rows) - 1
  assert stragglers.verdict(some, MET).of == 0  # A waiting method is missing.


def virtual(*points, diverged=''):
  """A run with evaluations at these (virtual seconds, accuracy)."""
  records = [{'virtual_s': s, 'test_accuracy': a} for s, a in points]
  return {'records': records, 'diverged': diverged}


def test_seconds_to_a_target_are_interpolated_between_evaluations():
  run = virtual((10, 0.7), (20, 0.8), (30, 0.9))
  assert virtual_time.to_target(run, 0.85) == pytest.approx(25)
  assert virtual_time.to_target(run, 0.95) is None
  assert virtual_time.time_score(run) == pytest.approx(-28)


def test_a_run_that_misses_the_target_scores_below_any_that_reaches_it():
  late, never = virtual((1e6, 0.9)), virtual((10, 0.8))
  worse, bad = virtual((10, 0.3)), virtual((1, 0.1), diverged='NaN')
  scores = [virtual_time.time_score(run) for run in (late, never, worse)]
  assert scores == sorted(scores, reverse=True)
  assert virtual_time.time_score(bad) is None


def test_there_is_no_mean_time_if_a_seed_misses_the_target():
  runs = [virtual((10, 0.9)), virtual((30, 0.9))]
  tuned = Tuned({}, 0.1, runs, True)
  scale = virtual_time.TARGET / 0.9
  assert virtual_time.mean_seconds(tuned) == pytest.approx(20 * scale)
  assert virtual_time.error(tuned) == pytest.approx(10 * scale)
  tuned = Tuned({}, 0.1, [*runs, virtual((9, 0.1))], True)
  assert virtual_time.mean_seconds(tuned) is None


def test_time_ratios_compare_each_seed_with_the_same_seed_of_the_base():
  tuned = lambda *ends, inside=True: Tuned(
    {}, 0.1, [virtual((end, 0.9)) for end in ends], inside
  )
  base = tuned(10, 20, 30)
  ratio, error = virtual_time.time_ratio(tuned(8, 16, 24), base)
  assert ratio == pytest.approx(0.8)
  assert error == pytest.approx(0, abs=1e-9)
  ratio, error = virtual_time.time_ratio(tuned(9, 16, 23), base)
  assert ratio == pytest.approx(0.8)
  assert error == pytest.approx(3**-0.5 / 20)  # Residuals 1, 0, -1; mean 20.
  assert (
    virtual_time.time_ratio(tuned(9, 16, 23, inside=False), base)[1] is None
  )
  assert virtual_time.time_ratio(base, None) == (None, None)
