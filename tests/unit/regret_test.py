"""Regret of a rule over the best strategy in hindsight, and its errors."""

import pytest

from experiments.framework import advice_trainings, regret
from experiments.framework.regret import AdviceCase
from gossipjax.advice.ranking import Curve
from gossipjax.results.standard_error import standard_error


def case(unsure=(), **seconds):
  return AdviceCase({}, seconds, {'rule': 'mine'}, unsure)


def test_the_mean_regret_of_a_rule_may_leave_out_a_seed():
  cases = [
    case(mine=[2.0, 4.0], other=[1.0, 3.0]),
    case(mine=[1.0, 1.0], other=[2.0, 2.0]),
  ]
  assert regret.mean(cases)['rule'] == pytest.approx((0.5 + 0.0) / 2)
  assert regret.mean(cases, 0)['rule'] == pytest.approx((1 / 3 + 0.0) / 2)
  assert regret.mean([]) == {}


def test_the_fastest_pick_is_undecided_if_some_rival_seeds_are_faster():
  """Two of three seeds of another strategy are faster: undecided."""
  mine = [19.3, 19.0, 20.0]
  assert regret.is_below(0.1, case(mine=mine, far=[82, 70, 76]), 'rule')
  found = case(mine=mine, far=[82, 70, 76], close=[92.4, 13.0, 13.0])
  assert regret.mean([found])['rule'] == 0
  assert regret.is_below(0.1, found, 'rule') is None


def test_one_rival_that_is_surely_faster_refutes_a_low_regret():
  seconds = dict(mine=[1.9, 1.87, 1.97], far=[4.1, 1.0, 0.9])
  ahead = case(**seconds, ahead=[1.32, 1.21, 1.29])
  assert regret.is_below(0.1, ahead, 'rule') is False


def test_among_many_rivals_one_has_to_be_faster_by_more():
  """Five tests, each at the level of one, would err in a fifth of the cases."""
  mine, ahead = [1.0, 1.05, 1.0], [0.86, 0.86, 0.87]
  alone = case(mine=mine, ahead=ahead)
  others = {f'as_good_{i}': [0.91, 0.95, 0.91] for i in range(4)}
  assert regret.is_below(0.1, alone, 'rule') is False
  found = case(mine=mine, ahead=ahead, **others)
  assert regret.is_below(0.1, found, 'rule') is None


def test_each_group_of_three_seeds_has_its_own_target():
  """A bad seed lowers the target of its own group only."""
  good, bad = Curve([0.5, 0.9], [1.0, 2.0]), Curve([0.5, 0.5], [1.0, 2.0])
  dense, late = [good] * 5 + [bad], Curve([0.4, 0.6, 0.9], [1.0, 2.0, 3.0])
  found = advice_trainings.to_target(
    {'all_reduce': dense, 'late': [late] * 6}, higher=True
  )
  first, second = found['late'][:3], found['late'][3:]
  assert first == pytest.approx([2 + 0.291 / 0.3] * 3)  # To 0.891.
  assert second == pytest.approx([1 + 0.095 / 0.2] * 3)  # To 0.495.
  assert len(found['all_reduce']) == 6


def test_a_learning_rate_at_the_edge_of_those_tried_decides_nothing():
  seconds = dict(mine=[1.0, 1.1, 1.2], far=[4.0, 4.1, 4.2])
  assert regret.is_below(0.1, case(**seconds), 'rule')
  for name in seconds:
    assert regret.is_below(0.1, case([name], **seconds), 'rule') is None


def test_a_jackknife_of_a_mean_is_its_standard_error():
  values = [1.0, 2.0, 4.0, 8.0]

  def without(seed):
    left = values[:seed] + values[seed + 1 :]
    return sum(left) / len(left)

  assert regret.jackknife(without, 4) == pytest.approx(standard_error(values))
