"""Rows of claims: diverged seeds, equal bytes, scales, busy machines."""

import math

import pytest

from experiments import adaptive_time, fronts, stragglers
from experiments.framework import (
  front,
  other_load,
  seed_statistics,
  step_times,
  training_claim,
)
from experiments.framework.best_rate import Tuned
from gossipjax.errors import UserError

LAST = {'step': 10, 'bytes_sent': 8e6, 'virtual_s': 2.0, 'compute_s': 1.0}
ENDED = {'records': [LAST], 'comm_s': {}, 'diverged': '', 'told': []}
LOST = {'records': [], 'comm_s': {}, 'diverged': 'NaN', 'told': []}


def test_a_seed_that_diverged_before_its_first_record_leaves_gaps():
  tuned = Tuned({0.1: -2.0}, 0.1, [ENDED, LOST], True)
  method = adaptive_time.Method(tuned, 0.1)
  row = adaptive_time._row(('fashion', 1.0, 'every step'), method, method)
  assert row['traffic saved'] == 0 and row[adaptive_time.TIME] is None
  runs = {key: [ENDED, LOST] for key in ('baseline', 'slow', 'lost')}
  row = stragglers._row('server', stragglers.ScenarioRuns(tuned, runs))
  assert row[stragglers.SLOW] is row[stragglers.STOPPED] is None


def test_a_worse_score_with_as_many_bytes_is_not_on_the_front():
  rows = [
    {
      'workload': 'fashion',
      'strategy': name,
      fronts.PATH: sent,
      seed_statistics.LOSS: 1.0,
      seed_statistics.ACCURACY: score,
    }
    for name, sent, score in (('a', 10, 90), ('b', 100, 92), ('c', 100, 91))
  ]
  found = [row['strategy'] for row in rows if front.on_the_front(row, rows)]
  assert found == ['a', 'b']


def test_cases_that_a_scale_does_not_have_are_not_awaited():
  names = ('workload', 'method')
  count = lambda scale, have: len(
    training_claim.unfinished(
      lambda scale: {(w, 'm'): None for w in ('fashion', 'fashion-dense')},
      [],
      [{'scale': scale}],
      names,
      have,
    )
  )
  assert (count('cpu', ('m',)), count('gpu', ('m',))) == (2, 1)
  assert count('cpu', ('other',)) == 0


BEGUN = {
  'workload': 'fashion',
  'network': 'MLP (2 layers), on Fashion-MNIST',
  'steps': 100,
  'examples a step': 64,
  'all-reduce reached': 91.0,
  'gate met': True,
  'studies': 2,
  'studies finished': 2,
}


@pytest.mark.parametrize(
  'changes, words',
  [
    ({}, ''),
    ({'gate met': False}, 'all-reduce has not reached the gate of fashion'),
    (
      {'gate met': False, 'all-reduce reached': math.nan},
      'all-reduce is not trained to the gate of fashion',
    ),
    ({'gate met': False, 'studies finished': 0}, 'no training is finished'),
  ],
)
def test_trainings_below_their_gate_cannot_support_a_verdict(changes, words):
  assert training_claim.doubt([BEGUN | changes]) == words


def test_evidence_is_from_whole_workloads_if_there_are_any():
  other = {'workload': 'digits', 'network': 'CNN, deep', 'steps': 2000}
  coverage = [BEGUN, BEGUN | other | {'studies finished': 1}]
  rows = [
    {'workload': name, 'seeds': seeds}
    for name, seeds in (('fashion', 3), ('digits', 1))
  ]
  both = ('MLP, CNN', '100 to 2,000 steps of 64 examples', 1, 3)
  assert training_claim.evidence(rows, coverage) == both
  whole = (BEGUN['network'], '100 steps of 64 examples', 3, 3)
  assert training_claim.evidence(rows, coverage, whole=True) == whole
  unfinished = [row | {'studies finished': 1} for row in coverage]
  assert training_claim.evidence(rows, unfinished, whole=True) == both


@pytest.mark.parametrize('share', [0.04, 0.06])
def test_seconds_of_a_busy_machine_are_not_kept(monkeypatch, share):
  quick = type('Flag', (), {'value': False})
  monkeypatch.setattr(step_times.claim, 'QUICK', quick)
  monkeypatch.setattr(
    other_load, 'meanwhile', lambda measure: (measure(), share)
  )
  measured = lambda: step_times._measured(lambda: 0.5)
  if share < other_load.MOST_OTHERS:
    assert measured()['seconds'] == [0.5] * step_times.AGAIN
    return
  with pytest.raises(UserError, match='Other programs used 6 % of the cores'):
    measured()
