"""Successive halving: who trains longer, and what is forecast of whom."""

import math

import numpy as np
import pytest
from ml_collections import ConfigDict

from gossipjax.advice import (
  choice,
  known_runs,
  pilot_config,
  pilot_plan,
  recommendation,
  risk,
  untrained,
)
from gossipjax.advice.halving import Pilot, Round, halving
from gossipjax.advice.ranking import DENSE, WORSE, Candidate, Curve, ranked
from gossipjax.config import defaults

# A step takes so long, and so much of what all-reduce learns in it is learnt.
SPEED = {DENSE: (10.0, 1.0), 'fast': (1.0, 0.8), 'bad': (0.5, 0.1)}


def curve(pilot: Pilot) -> Curve:
  """Learns at a constant pace, best at rate 0.1; diverges above 1."""
  name, rate = pilot.candidate
  step_s, pace = SPEED[name]
  if rate > 1:
    return Curve([], [])
  pace *= 1 - abs(math.log10(rate / 0.1)) / 4
  steps = [pilot.steps * i / 10 for i in range(1, 11)]
  wobble = 0.001 * pilot.seed
  return Curve(
    [1 - math.exp(-pace * s / 50) + wobble for s in steps],
    [step_s * s for s in steps],
  )


def play(rounds, rates=(0.1, 0.03, 10.0), higher=True):
  """The ranks of the last round, and the pilots of each."""
  every = [Candidate(name, rate) for name in SPEED for rate in rates]
  asking, asked = halving(every, rounds, 1000, higher), []
  pilots = next(asking)
  while True:
    asked.append(pilots)
    try:
      pilots = asking.send([curve(pilot) for pilot in pilots])
    except StopIteration as end:
      return end.value, asked


def test_the_better_half_trains_longer_each_at_its_best_rate():
  ranks, asked = play([Round(20, 1), Round(200, 1), Round(400, 2)])
  assert [len(pilots) for pilots in asked] == [9, 2, 4]
  assert {p.candidate for p in asked[1]} >= {Candidate(DENSE, 0.1)}
  assert {p.seed for p in asked[2]} == {0, 1}
  assert {r.candidate.rate for r in ranks} == {0.1}


def test_a_forecast_is_the_time_to_the_target_at_full_length():
  every = [Candidate(name, 0.1) for name in SPEED]
  curves = {c: [curve(Pilot(c, 400, s)) for s in (0, 1)] for c in every}
  first, dense, bad = ranked(curves, 400, 1000, True)
  assert [r.candidate.name for r in (first, dense, bad)] == [
    'fast',
    DENSE,
    'bad',
  ]
  # All-reduce reaches 1 - w after -50 ln w steps of 10 s; 400 of 1000 are made.
  steps = [-50 * math.log(w) for w in WORSE]
  assert dense.seconds == pytest.approx(25 * np.mean(steps), rel=0.1)
  assert first.low < first.seconds < first.high < dense.low
  # It reaches no goal: all its steps of 0.5 s, then all-reduce's to the first.
  assert bad.seconds == pytest.approx(2.5 * (200 + 10 * steps[0]), rel=0.1)
  assert bad.high == math.inf
  assert choice.chosen([first, dense, bad]) == 'fast'
  said = recommendation.tried([first, dense, bad], 1000, 'again')
  assert said.startswith('Use fast at learning rate 0.1: ')
  assert 'pilots of 400 of 1000 steps' in said


@pytest.mark.parametrize('share, use', [(0.5, 'fast'), (0.99, DENSE)])
def test_the_least_mean_is_recommended_where_intervals_overlap(share, use):
  every = [Candidate(DENSE, 0.1), Candidate('fast', 0.1)]
  dense = curve(Pilot(every[0], 400, 0))
  late = Curve(dense.scores, [2 * s for s in dense.seconds])
  curves = {every[0]: [dense, late]}
  curves[every[1]] = [
    Curve(c.scores, [share * s for s in c.seconds]) for c in (dense, late)
  ]
  ranks = ranked(curves, 400, 1000, True)
  first, other = ranks
  assert first.candidate.name == 'fast' and first.high > other.low
  assert choice.chosen(ranks) == use
  said = recommendation.tried(ranks, 1000, 'run --A')
  assert said.endswith('Longer pilots tell more: run --A')
  if use == 'fast':
    assert said.startswith('Use fast at') and 'overlap' in said
  else:
    assert said.startswith('Use all-reduce: fast') and 'less than 5 %' in said


def test_pilots_that_end_before_all_reduce_has_learnt_say_nothing():
  every = [Candidate(DENSE, 0.1), Candidate('fast', 0.1)]
  curves = {
    c: [curve(Pilot(c, 400, s))._replace(learnt=0.4 + 0.1 * s) for s in (0, 1)]
    for c in every
  }
  ranks = ranked(curves, 400, 1000, True)
  assert choice.chosen(ranks) == DENSE
  said = recommendation.tried(ranks, 1000, 'run --A')
  assert said.startswith('Use all-reduce: its pilots of 400 of 1000 steps lost')
  assert '45 % of the loss' in said and 'fast at learning rate 0.1,' in said
  assert said.endswith('Longer pilots tell more: run --A')
  enough = [rank._replace(learnt=0.5) for rank in ranks]
  assert choice.chosen(enough) == 'fast'


@pytest.mark.parametrize(
  'before, now, share', [(2.0, 1.5, 0.25), (2.0, 3.0, -0.5), (-1.0, -2.0, 1.0)]
)
def test_which_share_of_a_loss_is_gone(before, now, share):
  assert untrained.share_lost(before, now) == share


def known(steps, table='tiny'):
  names = table, 'text', 'transformer', 8, 'fast', 'test_accuracy'
  return known_runs.Known(*names, 0.3, 0.4, steps, 3)


MISSED, ARRIVED = known(math.inf), known(2.0)


def ranks_with(given, learnt=1.0):
  every = [Candidate(name, 0.1) for name in SPEED]
  curves = {
    c: [curve(Pilot(c, 400, s))._replace(learnt=learnt) for s in (0, 1)]
    for c in every
  }
  return ranked(curves, 400, 1000, True, {'fast': given})


def test_what_a_training_of_the_same_model_speaks_against_comes_late():
  never, slower = (risk.of([run], [run]) for run in (MISSED, ARRIVED))
  assert choice.chosen(ranks_with(slower)) == 'fast'
  ranks = ranks_with(never)
  assert choice.chosen(ranks) == DENSE == ranks[0].candidate.name
  said = recommendation.tried(ranks, 1000, 'again', {'fast': never})
  assert said.startswith('Use all-reduce: nothing else is expected before')
  assert 'fast at learning rate 0.1 is forecast ' in said
  assert 'but in tiny (transformer on text, P = 8) it never got' in said


def test_a_risk_is_that_of_whole_trainings_for_what_pilots_have_not_seen():
  nan = known(math.nan)
  found = risk.of([MISSED, MISSED, ARRIVED, nan], [nan])
  assert (found.missed, found.of, found.near) == (2, 3, None)
  assert found.after(0.0) == pytest.approx(3 / 5)
  assert found.after(0.75) == pytest.approx(3 / 20)
  assert found.after(1.0) == 0 and found.after(-1.0) == found.after(0.0)
  assert risk.Risk().after(0.0) == 0.5


def test_who_is_expected_late_is_not_used_and_both_are_told():
  found = risk.Risk(missed=8, of=8)
  ranks = ranks_with(found, learnt=0.6)
  fast = next(r for r in ranks if r.candidate.name == 'fast')
  dense = choice.dense_of(ranks)
  share = 0.4 * 9 / 10
  in_vain = dense.seconds * (1 + fast.whole / dense.whole)
  assert fast.expected == pytest.approx(
    (1 - share) * fast.seconds + share * in_vain
  )
  assert fast.whole == pytest.approx(dense.whole / 10)  # Steps of 1 and 10 s.
  assert dense.expected == dense.seconds
  said = recommendation.tried(ranks, 1000, 'again', {'fast': found})
  assert said.startswith('Use fast at learning rate 0.1: ')
  assert 'in 8 of 8 whole trainings that are kept it never got there' in said
  table = recommendation.rows(ranks, 'test_accuracy', {'fast': found})
  assert [row['never got there'] for row in table] == ['8 of 8', '', '']


def test_what_diverges_has_no_rank_and_a_loss_falls():
  falls = Curve([3.0, 2.0, 1.0], [1.0, 2.0, 3.0])
  curves = {
    Candidate(DENSE, 1.0): [falls],
    Candidate('wild', 1.0): [Curve([], [])],
    Candidate('late', 1.0): [Curve([3.0, 2.5, 1.5], [1.0, 2.0, 3.0])],
  }
  dense, late = ranked(curves, 10, 20, higher=False)
  assert dense.seconds == pytest.approx(2 * (3 - np.mean(WORSE)))
  assert late.seconds == pytest.approx(2 * (3 + 3 - WORSE[0]))
  assert late.high == math.inf and late.score == 1.5


def test_nothing_is_ranked_where_all_reduce_diverges():
  ranks, asked = play([Round(20, 1), Round(200, 1)], rates=(10.0,))
  assert ranks == [] and len(asked) == 1


def test_a_pilot_is_short_on_validation_data_with_the_whole_schedule():
  config = defaults.get_config()
  config.optimizer.update(warmup_steps=30, boundaries=(100, 200))
  found = pilot_config.config_of(config, Pilot(Candidate('x', 0.3), 60, 7))
  assert (found.steps, found.seed, found.eval_every) == (60, 7, 6)
  assert found.split.holdout == 'validation'
  assert found.optimizer.learning_rate == 0.3
  assert found.optimizer.warmup_steps == 6
  assert tuple(found.optimizer.boundaries) == (20, 40)
  assert config.steps == 300 and config.split.holdout == 'test'


def test_a_plan_fits_into_the_time_and_drops_strategies_first():
  names = [DENSE, *'abcdefghijklmno']
  plan = pilot_plan.planned(names, 300, 600.0, 0.01, 2.0)
  assert plan.names == names[: pilot_plan.MOST] and len(plan.rates) == 3
  assert [r.seeds for r in plan.rounds] == [1, 1, 2]
  assert plan.rounds[-1].steps <= 300
  fewer = pilot_plan.planned(names, 300, 60.0, 0.01, 2.0)
  assert 2 <= len(fewer.names) < len(plan.names)
  assert pilot_plan.planned(names, 300, 5.0, 0.01, 2.0) is None
  needed = pilot_plan.needed_s(300, 0.01, 2.0)
  assert pilot_plan.planned(names, 300, needed, 0.01, 2.0)


def test_the_longest_period_is_that_of_any_argument():
  strategy = ConfigDict({'name': 'x', 'period': 8, 'slow_period': 50})
  assert pilot_plan.longest_period(strategy) == 50
  assert pilot_plan.longest_period({'name': 'all_reduce'}) == 1
