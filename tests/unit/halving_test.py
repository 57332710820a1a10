"""Successive halving: which strategies train longer, and their forecasts."""

import json
import math

import numpy as np
import optax
import pytest
from ml_collections import ConfigDict

from gossipjax.advice import (
  choice,
  known_runs,
  periods,
  pilot_config,
  pilot_plan,
  pilots,
  recommendation,
  risk,
)
from gossipjax.advice.forecast import Forecast
from gossipjax.advice.halving import Pilot, Round, halving
from gossipjax.advice.ranking import DENSE, WORSE, Candidate, Curve, ranked
from gossipjax.advice.step_traffic import StepTraffic
from gossipjax.comparison import unlearned
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.network import Link
from gossipjax.traffic import Traffic
from gossipjax.training import optimizer, run
from gossipjax.training.loop import Interrupted
from gossipjax.tuning import trials
from tests.support import workdirs

# Seconds of a step, and its progress as a fraction of that of all-reduce.
SPEED = {DENSE: (10.0, 1.0), 'fast': (1.0, 0.8), 'bad': (0.5, 0.1)}
MANY = {**SPEED, 'good': (1.0, 0.7), 'worse': (0.5, 0.05)}


def curve(pilot: Pilot) -> Curve:
  """Nears a score of 1 exponentially, best at rate 0.1; diverges above 1."""
  name, rate = pilot.candidate
  if rate > 1:
    return Curve([], [])
  step_s, speed = MANY[name]
  speed *= 1 - abs(math.log10(rate / 0.1)) / 4
  steps = [pilot.steps * i / 10 for i in range(1, 11)]
  wobble = 0.001 * pilot.seed
  return Curve(
    [1 - math.exp(-speed * s / 50) + wobble for s in steps],
    [step_s * s for s in steps],
  )


def play(rounds, rates=(0.1, 0.03, 10.0), higher=True, names=tuple(MANY)):
  """Returns the ranks of the last round, and the pilots of each round."""
  every = [Candidate(name, rate) for name in names for rate in rates]
  search, by_round = halving(every, rounds, 1000, higher), []
  pilots = next(search)
  while True:
    by_round.append(pilots)
    try:
      pilots = search.send([curve(pilot) for pilot in pilots])
    except StopIteration as end:
      return end.value, by_round


def test_the_better_half_trains_longer_each_at_its_best_rate():
  lengths = [Round(20, 1), Round(200, 1), Round(400, 2)]
  ranks, by_round = play(lengths)
  assert [len(pilots) for pilots in by_round] == [15, 3, 6]
  assert {p.candidate for p in by_round[1]} >= {Candidate(DENSE, 0.1)}
  assert {p.seed for p in by_round[2]} == {0, 1}
  assert {r.candidate.rate for r in ranks} == {0.1}
  few = {DENSE, 'fast', 'bad'}  # Two besides all-reduce: both are kept.
  ranks, by_round = play(lengths, names=few)
  assert [len(pilots) for pilots in by_round] == [9, 3, 6]
  assert {r.candidate.name for r in ranks} == few


def test_a_message_names_dropped_diverged_and_untried_strategies():
  rounds = []
  names = [*MANY, 'wild']
  every = [Candidate(n, 10.0 if n == 'wild' else 0.1) for n in names]
  risks = {name: risk.Risk() for name in MANY}
  lengths = [Round(20, 1), Round(400, 1)]
  search = halving(every, lengths, 1000, True, 0, rounds.append, risks)
  requested = next(search)
  with pytest.raises(StopIteration):
    while True:
      requested = search.send([curve(pilot) for pilot in requested])
  reasons = {'Not tried: no time': ['late', 'later'], 'Too slow': []}
  message = recommendation.left_out(rounds, names, reasons)
  assert (
    'reliable pilots: bad (20 steps, ' in message
    and 'worse (20 steps, ' in message
  )
  assert ' Diverged: wild. ' in message
  assert message.endswith(' Not tried: no time: late, later.')
  assert 'Too slow' not in message and 'fast' not in message
  fewer = [rank for rank in rounds[1] if rank.candidate.name != 'fast']
  later = recommendation.left_out([rounds[0], fewer], names, {})
  assert later.endswith(' Diverged: wild, fast.')
  whole = [Candidate(DENSE, 0.1), Candidate('fast', 0.1)]
  (ranks,) = [ranked({c: [curve(Pilot(c, 400, 0))] for c in whole}, 9, 9, True)]
  assert recommendation.left_out([ranks], [DENSE, 'fast'], {}) == ''


def test_a_pilot_that_starts_at_the_best_score_does_not_miss():
  """All-reduce and fast both begin with a score of 1, fast 100 times sooner."""
  curves = {
    Candidate(name, 0.1): [Curve([best, best], [s, 2 * s])]
    for name, best, s in ((DENSE, 1.0, 100), ('fast', 1.0, 1), ('bad', 0.9, 1))
  }
  always = risk.Risk((risk.Group('in', 0.0, 50, 1.0),) * 3)
  ranks = ranked(curves, 20, 400, True, {'fast': always, 'bad': always})
  assert [r.candidate.name for r in ranks] == ['fast', DENSE, 'bad']
  assert ranks[0].expected < 0.1 * ranks[1].expected
  assert choice.chosen(ranks) == 'fast'


def test_a_forecast_is_the_time_to_the_target_at_full_length():
  every = [Candidate(name, 0.1) for name in SPEED]
  curves = {c: [curve(Pilot(c, 400, s)) for s in (0, 1)] for c in every}
  first, dense, bad = ranked(curves, 400, 1000, True)
  assert [r.candidate.name for r in (first, dense, bad)] == [
    'fast',
    DENSE,
    'bad',
  ]
  # All-reduce reaches 1 - w after -50 ln w steps of 10 s; 400 of 1000 are run.
  steps = [-50 * math.log(w) for w in WORSE]
  assert dense.seconds == pytest.approx(25 * np.mean(steps), rel=0.1)
  assert first.low < first.seconds < first.high < dense.low
  # bad reaches no goal: its steps of 0.5 s, then all-reduce's to the hardest.
  assert bad.seconds == pytest.approx(2.5 * (200 + 10 * steps[0]), rel=0.1)
  assert bad.high == math.inf
  assert choice.chosen([first, dense, bad]) == 'fast'
  message = recommendation.tried([first, dense, bad], 1000, 'run --A')
  assert message.startswith('Use fast at learning rate 0.1. Expected time')
  assert 'pilots of 400 of 1000 steps' in message
  assert message.endswith('at full length, begin with: run --A')


@pytest.mark.parametrize('share, expected', [(0.5, 'fast'), (0.99, DENSE)])
def test_all_reduce_is_kept_if_the_gain_is_below_5_percent(share, expected):
  every = [Candidate(DENSE, 0.1), Candidate('fast', 0.1)]
  dense = curve(Pilot(every[0], 400, 0))
  late = Curve(dense.scores, [2 * s for s in dense.seconds])
  curves = {every[0]: [dense, late]}
  curves[every[1]] = [
    Curve(c.scores, [share * s for s in c.seconds]) for c in (dense, late)
  ]
  ranks = ranked(curves, 400, 1000, True)
  assert ranks[0].candidate.name == 'fast'
  assert choice.chosen(ranks) == expected
  message = recommendation.tried(ranks, 1000, 'run --A')
  if expected == 'fast':
    assert message.startswith('Use fast at learning rate 0.1. ')
  else:
    assert message.startswith('Use all-reduce at learning rate 0.1. fast')
    assert 'less than 5 %' in message


def test_the_mean_over_seeds_ends_with_the_shortest_seed():
  candidate = Candidate(DENSE, 0.1)
  whole = curve(Pilot(candidate, 400, 0))
  early = Curve(whole.scores[:3], whole.seconds[:3])
  (rank,) = ranked({candidate: [whole, early]}, 400, 1000, True)
  assert rank.score == pytest.approx(max(early.scores))
  assert rank.whole == pytest.approx(2.5 * early.seconds[-1])


CONFIG = {
  'task': {'name': 'text', 'model': 'transformer'},
  'optimizer': {'name': 'adam'},
  'workers': 8,
}


def known(missed, steps, table='tiny', model='transformer', optimizer='adam'):
  """A run with three seeds of a strategy called fast."""
  names = table, 'text', model, optimizer, 8, 'iid', 'fast', 'test_accuracy'
  return known_runs.Known(*names, 0.3, 0.4, missed, steps, 3)


def ranks_with(risk_of_fast):
  every = [Candidate(name, 0.1) for name in SPEED]
  curves = {c: [curve(Pilot(c, 400, s)) for s in (0, 1)] for c in every}
  return ranked(curves, 400, 1000, True, {'fast': risk_of_fast})


def test_more_similar_trainings_correct_the_risk():
  other = known(0.0, 1.2, table='a', model='mlp')
  half = [known(1.0, math.inf, 'b', 'lstm'), known(0.0, 1.4, 'b', 'lstm')]
  alike = known(1.0, math.inf, table='c', optimizer='sgd')
  unknown = known(math.nan, math.nan, table='d')
  assert risk.of([unknown], CONFIG).share == risk.Risk().share == 0.5
  wide = risk.of([other, *half], CONFIG)
  assert wide.share == pytest.approx((0.5 + 1) / (2 + 2))  # Two comparisons.
  assert wide.relative_steps == pytest.approx(1.3)
  kind = risk.of([other, *half, alike], CONFIG)
  of_all = (1.5 + 1) / (3 + 2)
  assert kind.share == pytest.approx((1 + 2 * of_all) / (1 + 2))
  assert kind.relative_steps == pytest.approx(1.3)  # No transformer reached it.
  near = risk.of([other, *half, alike, known(1 / 3, 2.0, 'e')], CONFIG)
  of_all = (1.5 + 1 / 3 + 1) / (4 + 2)
  of_kind = (1 + 1 / 3 + 2 * of_all) / (2 + 2)
  assert near.share == pytest.approx((1 + 2 * of_kind) / (3 + 2))  # 3 seeds.
  assert near.relative_steps == 2.0


def test_one_comparison_with_many_steps_does_not_set_those_of_a_group():
  steps = {'a': 1.2, 'b': 1.4, 'c': 9.0}
  others = [known(0.0, s, t, model='mlp') for t, s in steps.items()]
  assert risk.of(others, CONFIG).relative_steps == 1.4


def test_a_strategy_that_misses_the_target_is_not_recommended():
  """Although its steps take a tenth of the time of all-reduce's."""
  hopeless = risk.of([known(1.0, math.inf, t) for t in 'abcd'], CONFIG)
  ranks = ranks_with(hopeless)
  assert choice.chosen(ranks) == DENSE == ranks[0].candidate.name
  message = recommendation.tried(ranks, 1000, '')
  assert message.startswith(
    'Use all-reduce at learning rate 0.1: of the strateg'
  )
  assert ' fast at learning rate 0.1: ' in message
  assert 'that missed the target: 100 % in 4 comparisons, 100 % in 4' in message
  assert message.endswith(
    'Pilots do not show which strategies reach the target.'
  )


def test_the_expected_time_weights_both_outcomes_by_the_risk():
  always = risk.of([known(0.0, 2.0, t) for t in 'abcd'], CONFIG)
  ranks = ranks_with(always)
  fast = next(r for r in ranks if r.candidate.name == 'fast')
  dense = choice.dense_of(ranks)
  assert fast.whole == pytest.approx(dense.whole / 10)  # Steps of 1 and 10 s.
  assert fast.low == pytest.approx(min(dense.seconds / 5, fast.whole))
  assert fast.high == pytest.approx(dense.seconds + fast.whole)
  assert fast.expected == pytest.approx(
    (1 - always.share) * fast.low + always.share * fast.high
  )
  assert choice.chosen(ranks) == 'fast'
  message = recommendation.tried(ranks, 1000, 'again')
  assert (
    ', 0 % of transformer on text with adam. Those that reach it need 2 '
    in message
  )
  table = recommendation.rows(ranks, 'test_accuracy')
  shares = {row['strategy']: row['misses the target'] for row in table}
  assert shares == {'fast': f'{100 * always.share:.0f} %', DENSE: '', 'bad': ''}


def test_without_known_trainings_pilots_estimate_the_time():
  ranks = ranks_with(risk.Risk())
  fast = next(r for r in ranks if r.candidate.name == 'fast')
  # A step takes a tenth of the time of all-reduce's and learns 0.8 as much.
  seconds = choice.dense_of(ranks).seconds / 10 / 0.8
  assert fast.low == pytest.approx(seconds, rel=0.1)
  assert fast.expected == pytest.approx((fast.low + fast.high) / 2)
  message = recommendation.tried(ranks, 1000, 'again')
  assert ' No known training is like it; the probability' in message
  table = recommendation.rows(ranks, 'test_accuracy')
  assert '50 % (assumed)' in [row['misses the target'] for row in table]


def test_a_pilot_that_leads_and_falls_back_is_judged_by_the_median_lead():
  dense, mine = Candidate(DENSE, 0.1), Candidate('fast', 0.1)
  scores = [0.5, 0.6, 0.7, 0.8, 0.9]
  curves = {
    dense: [Curve(scores, [10.0, 20.0, 30.0, 40.0, 50.0])],
    mine: [Curve(scores, [5.0, 10.0, 15.0, 60.0, 100.0])],
  }
  ranks = ranked(curves, 400, 1000, True, {'fast': risk.Risk()})
  fast = next(r for r in ranks if r.candidate == mine)
  assert fast.low == pytest.approx(0.5 * choice.dense_of(ranks).seconds)


def test_full_length_pilots_replace_known_trainings():
  hopeless = {
    'fast': risk.of([known(1.0, math.inf, t) for t in 'abcd'], CONFIG)
  }
  every = [Candidate(name, 0.1) for name in SPEED]
  curves = {c: [curve(Pilot(c, 400, s)) for s in (0, 1)] for c in every}
  ranks = ranked(curves, 400, 400, True, hopeless)
  assert ranks == ranked(curves, 400, 400, True)
  assert choice.chosen(ranks) == 'fast'
  message = recommendation.tried(ranks, 400, 'run --A')
  assert ' Its pilots took ' in message and 'do not show' not in message
  lower = ranked(curves, 400, 400, True, hopeless, 0.9)
  assert all(b.seconds < a.seconds for a, b in zip(ranks, lower, strict=True))
  message = recommendation.tried(lower, 400, '', 0.9)
  assert 'The target is 10 % worse than the best score of all-red' in message
  table = recommendation.rows(ranks, 'test_accuracy')
  assert all(row['from'] and row['to'] for row in table)


def test_the_time_to_the_target_is_at_most_a_whole_training():
  slow = risk.of([known(0.0, 99.0, t) for t in 'abcd'], CONFIG)
  fast = next(r for r in ranks_with(slow) if r.candidate.name == 'fast')
  assert fast.low == fast.whole


def test_a_pilot_no_better_than_the_first_score_is_not_chosen():
  always = risk.of([known(0.0, 1.0, t) for t in 'abcd'], CONFIG)
  every = [Candidate(DENSE, 0.1), Candidate('fast', 0.1)]
  curves = {c: [curve(Pilot(c, 400, 0))] for c in every}
  first = curves[every[0]][0].scores[0]  # All-reduce's first score.
  seconds = curves[every[1]][0].seconds
  for best, expected in ((first, DENSE), (1.01 * first, 'fast')):
    curves[every[1]] = [Curve([best] * len(seconds), seconds)]
    ranks = ranked(curves, 400, 1000, True, {'fast': always})
    assert choice.chosen(ranks) == expected


def test_a_pilot_at_the_target_may_be_below_the_first_score():
  """All-reduce begins at 0.95, above the target, 99 % of its best score."""
  always = risk.of([known(0.0, 1.0, t) for t in 'abcd'], CONFIG)
  dense, near = Candidate(DENSE, 0.1), Candidate('fast', 0.1)
  times = [10.0, 20.0, 30.0]
  for first, best, misses in (
    ((0.95, 0.952, 0.953), 0.9495, False),
    ((0.95, 0.949, 0.948), 0.9499, False),  # The first is the best.
    ((0.95, 0.952, 0.953), 0.943, True),
  ):
    curves = {
      dense: [Curve(first, times)],
      near: [Curve([0.94, 0.94, best], [s / 10 for s in times])],
    }
    ranks = ranked(curves, 30, 60, True, {'fast': always})
    (rank,) = (r for r in ranks if r.candidate == near)
    assert rank.misses == misses == (rank.low == rank.high)
    assert choice.chosen(ranks) == (DENSE if misses else 'fast')
    (row,) = (
      row
      for row in recommendation.rows(ranks, 'test_accuracy')
      if row['strategy'] == 'fast'
    )
    cells = row['time if the target is reached'], row['misses the target']
    assert (cells == ('', 'its pilots do')) == misses
    message = recommendation.tried(ranks, 60, '')
    assert ('taken to miss the target' in message) == misses


def test_full_length_pilots_measure_the_time_to_the_target():
  mine, dense = Candidate('fast', 0.1), Candidate(DENSE, 0.1)
  curves = {
    dense: [Curve([0.5, 0.9, 1.0], [1.0, 2.0, 3.0])],
    mine: [Curve([0.5, 0.9, 1.0], [0.5, 1.0, 1.5])],
  }
  first, other = ranked(curves, 10, 10, True)
  assert first.expected == first.low == first.high == pytest.approx(1.45)
  assert other.expected == pytest.approx(2.9)
  assert 'mean of those' not in recommendation.tried([first, other], 10, '')


def test_diverged_pilots_have_no_rank_and_low_losses_are_better():
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


def test_nothing_is_ranked_if_all_reduce_diverges():
  ranks, by_round = play([Round(20, 1), Round(200, 1)], rates=(10.0,))
  assert ranks == [] and len(by_round) == 1


def test_a_pilot_uses_validation_data_and_the_whole_schedule():
  config = defaults.get_config()
  config.optimizer.update(
    schedule='piecewise', warmup_steps=30, boundaries=(100, 200)
  )
  found = pilot_config.config_of(config, Pilot(Candidate('x', 0.3), 60, 7))
  assert (found.steps, found.seed, found.eval_every) == (60, 7, 6)
  assert found.split.holdout == 'validation'
  assert found.optimizer.learning_rate == 0.3
  assert found.optimizer.warmup_steps == 6
  assert tuple(found.optimizer.boundaries) == (20, 40)
  assert config.steps == 300 and config.split.holdout == 'test'


@pytest.mark.parametrize(
  'schedule',
  [
    {'name': 'warmup_cosine_decay_schedule', 'warmup_steps': 200},
    {'name': 'exponential_decay', 'transition_steps': 1, 'decay_rate': 0.999},
    {
      'name': 'piecewise_constant_schedule',
      'boundaries_and_scales': {2000: 0.1, 3000: 0.1},
    },
    'tests.unit.halving_test:steep',
  ],
  ids=str,
)
@pytest.mark.parametrize('warmup_steps', [0, 400])
def test_a_pilot_runs_all_of_a_schedule_with_arguments(schedule, warmup_steps):
  config = defaults.get_config()
  config.steps, config.optimizer.warmup_steps = 4000, warmup_steps
  with config.ignore_type():
    config.optimizer.schedule = schedule
  config.optimizer.lock()  # As in a config of the command line.
  found = pilot_config.config_of(config, Pilot(Candidate('x', 0.1), 200, 0))
  whole = optimizer.rate(config.optimizer, 4000)(np.arange(0, 4000, 20))
  pilot = optimizer.rate(found.optimizer, 200)(np.arange(200))
  np.testing.assert_allclose(pilot, whole, rtol=1e-5)
  optimizer.make(found.optimizer, 200)
  assert optimizer.unreached(found.optimizer, 200) == ''


def steep(learning_rate, steps):
  """A schedule with a fixed number of steps."""
  del steps
  return optax.linear_schedule(learning_rate, 0, 1000)


def test_a_pilot_shortens_the_stages_of_a_strategy():
  warm = {'name': 'dgc', 'steps': 50}
  inner = {'name': 'dgc', 'density': 0.01, 'warmup': warm}
  outer = {'name': 'post_local_sgd', 'switch': 200, 'period': 4}
  trigger = {'name': 'norm_slope', 'warmup': 30}
  stages = {
    'post_local_sgd': {'switch': 1000, 'period': 16},
    'dgc': {'warmup': warm},
    'hierarchical': {'inner': inner, 'outer': outer, 'period': 1},
    'adaptive_gossip': {'trigger': trigger},
  }
  config = defaults.get_config()
  config.steps, found = 2000, {}
  for name, given in stages.items():
    config.strategy = resolve.strategy_config(name, **given)
    pilot = Pilot(Candidate(name, 0.1), 100, 0)
    found[name] = pilot_config.config_of(config, pilot).strategy
    resolve.strategy(found[name])
  assert found['post_local_sgd'].switch == 50
  assert found['post_local_sgd'].period == 16
  assert found['dgc'].warmup.steps == 2 and found['dgc'].warmup.name == 'dgc'
  assert found['hierarchical'].inner.warmup.steps == 2
  assert found['hierarchical'].outer.switch == 10
  assert found['hierarchical'].outer.period == 4
  assert found['adaptive_gossip'].trigger.warmup == 2
  config.strategy = resolve.strategy_config('post_local_sgd', switch=0)
  none = pilot_config.config_of(config, Pilot(Candidate('x', 0.1), 100, 0))
  assert none.strategy.switch == 0  # Local SGD from the first step on.


def test_a_plan_for_less_time_has_fewer_strategies():
  names = [DENSE, *'abcdefghijklmno']
  plan = pilot_plan.planned(names, 300, 600.0, 0.01, 2.0)
  assert (
    plan.names == names[: pilot_plan.MAX_STRATEGIES] and len(plan.rates) == 3
  )
  assert [r.seeds for r in plan.rounds] == [1, 1, 2]
  assert plan.rounds[-1].steps <= 300
  fewer = pilot_plan.planned(names, 300, 60.0, 0.01, 2.0)
  assert 2 <= len(fewer.names) < len(plan.names)
  assert pilot_plan.planned(names, 300, 5.0, 0.01, 2.0) is None
  needed = pilot_plan.needed_s(300, 0.01, 2.0)
  assert pilot_plan.planned(names, 300, needed, 0.01, 2.0)


@pytest.mark.parametrize('full', [20, 40, 60, 79, 80, 300])
def test_pilots_have_at_least_the_minimum_and_at_most_all_steps(full):
  plan = pilot_plan.planned([DENSE, 'a'], full, 1e6, 0.01, 2.0)
  steps = [r.steps for r in plan.rounds]
  assert pilot_plan.least_steps(full) <= steps[0]
  assert steps == sorted(steps) and steps[-1] <= full


def test_a_scaled_schedule_does_not_round_its_boundaries():
  config = defaults.optimizer('sgd', learning_rate=1.0, schedule='piecewise')
  config.boundaries, config.schedule_steps = (250, 450, 500), 1000
  at = optimizer.rate(config, 60)
  exact = [
    0.1 ** sum(step * 1000 // 60 >= b for b in (250, 450, 500))
    for step in range(60)
  ]
  np.testing.assert_allclose(
    [float(at(s)) for s in range(60)], exact, rtol=1e-5
  )


@pytest.mark.parametrize('schedule', ['piecewise', {'name': 'piecewise'}])
def test_a_pilot_runs_the_whole_schedule_of_another_step_count(schedule):
  config = defaults.get_config()
  config.steps = 600
  with config.ignore_type():
    config.optimizer.schedule = schedule
  with config.optimizer.unlocked():
    config.optimizer.update(
      boundaries=(500,), warmup_steps=100, schedule_steps=1000
    )
  pilot = pilot_config.config_of(config, Pilot(Candidate('x', 1.0), 60, 0))
  at = optimizer.rate(pilot.optimizer, 60)
  assert [float(at(step)) for step in (3, 29, 30)] == pytest.approx(
    [0.5, 1.0, 0.1]
  )


def test_steps_with_different_work_have_different_phases():
  reused = resolve.strategy_config('topk')
  reused.selection = ConfigDict({'name': 'reused', 'period': 8})
  found = periods.phases(reused, np.arange(17)).tolist()
  assert {step for step in range(17) if found[step] == found[0]} == {0, 8, 16}
  warm = resolve.strategy_config('topk')
  warm.warmup = ConfigDict({'name': 'stages', 'densities': (0.5, 0.1)})
  warm.warmup.steps = 3
  found = periods.phases(warm, np.arange(9)).tolist()
  assert [found.index(x) for x in found] == [0, 0, 0, 3, 3, 3, 6, 6, 6]


def test_the_longest_period_includes_all_arguments_and_levels():
  strategy = ConfigDict({'name': 'x', 'period': 8, 'slow_period': 50})
  assert periods.longest(strategy) == 50
  assert periods.longest({'name': 'all_reduce'}) == 1
  outer = {'name': 'local_sgd', 'period': 4}
  levels = resolve.strategy_config('hierarchical', period=8, outer=outer)
  assert periods.longest(levels) == 32


def bench(folder, say=lambda sentence: None):
  """Trains pilots of all-reduce alone, with two workers."""
  config = defaults.get_config()
  config.update(workers=2, steps=20, executor='vmap')
  return pilots.Bench(
    {DENSE: config}, {DENSE: 0.1}, {}, '1gbe', folder, say, lambda: False
  )


@pytest.mark.exhaustive
def test_diverging_all_reduce_raises_an_error_and_sets_the_metric(tmp_path):
  mine = bench(tmp_path)
  for _ in range(2):  # The second call finds the finished pilot.
    with pytest.raises(UserError, match=r'set a lower optimizer.learning_rate'):
      mine.timed(Pilot(Candidate(DENSE, 1e30), 20, 0))
  assert (mine.metric, mine.higher) == ('test_accuracy', True)


def test_a_pilot_of_a_call_that_was_stopped_is_timed_again(
  tmp_path, monkeypatch
):
  """A finished one would show the seconds of reading a file."""
  mine = bench(tmp_path)
  pilot = Pilot(Candidate(DENSE, 0.1), 20, 0)
  place = mine._place(pilot)
  place.mkdir(parents=True)
  (place / 'summary.json').write_text('{}')
  found = []

  def train(self, pilot):
    found.append(place.exists())
    raise Interrupted(0)

  monkeypatch.setattr(pilots.Bench, '__call__', train)
  with pytest.raises(Interrupted):
    mine.timed(pilot)
  assert found == [False]


@pytest.mark.parametrize('last, expected', [(0.6, [0.5, 0.6]), (math.nan, [])])
def test_a_nan_score_counts_as_diverged(last, expected, tmp_path, monkeypatch):
  def finish(trial, interrupted, tasks):
    del interrupted
    tasks[''] = run.task(trial.config)
    trial.folder.mkdir(parents=True)
    records = [
      workdirs.record(step, test_accuracy=score)
      for step, score in ((1, 0.5), (2, last))
    ]
    lines = ''.join(json.dumps(record) + '\n' for record in records)
    (trial.folder / 'records.jsonl').write_text(lines)
    return {}

  monkeypatch.setattr(trials, 'finish', finish)
  found = bench(tmp_path)(Pilot(Candidate(DENSE, 0.1), 20, 0))
  assert found.scores == expected and len(found.seconds) == len(expected)


@pytest.mark.parametrize('last, named', [(0.11, True), (0.2, False)])
def test_pilots_of_which_no_seed_learned_anything_are_known(
  last, named, tmp_path
):
  mine = bench(tmp_path)
  mine.metric, mine.higher = 'test_accuracy', True
  candidate = Candidate(DENSE, 0.1)
  for seed, score in enumerate((0.1, last)):
    place = mine._place(Pilot(candidate, 20, seed))
    place.parent.mkdir(parents=True, exist_ok=True)
    records = [workdirs.record(1, test_accuracy=score)]
    share = {unlearned.KEY: 0.11}
    workdirs.run(place.parent, place.name, records, **share)
  scored = {candidate: [Curve([0.1, last], [1.0, 2.0])] * 2}
  (rank,) = ranked(scored, 20, 20, True)
  assert ('most frequent label' in mine.learned_nothing(rank)) is named


def test_goals_come_from_the_best_rate_of_all_reduce():
  best, poor = Candidate(DENSE, 0.1), Candidate(DENSE, 0.3)
  curves = {
    poor: [Curve([0.25, 0.5], [1.0, 2.0])],
    best: [Curve([0.5, 1.0], [1.0, 2.0])],
    Candidate('bad', 0.1): [Curve([0.2, 0.4], [0.1, 0.2])],
  }
  bad, dense = ranked(curves, 10, 20, True)
  if bad.candidate.name == DENSE:
    bad, dense = dense, bad
  assert dense.candidate == best
  assert dense.seconds == pytest.approx(2 * (1 + (0.5 - np.mean(WORSE)) / 0.5))
  # Its own pilot's seconds, then those of all-reduce at its best rate.
  assert bad.seconds == pytest.approx(2 * (0.2 + 1.98))


def test_pilots_begin_with_the_seed_of_the_config():
  every = [Candidate(DENSE, 0.1)]
  requested = next(halving(every, [Round(20, 2)], 1000, True, seed=7))
  assert [pilot.seed for pilot in requested] == [7, 8]


@pytest.mark.parametrize('workers, near', [(4, True), (16, True), (2, False)])
def test_a_training_with_half_or_twice_the_workers_is_near(workers, near):
  run = known(0.0, 1.0)._replace(workers=workers)
  assert known_runs.is_near(run, CONFIG) is near


@pytest.mark.parametrize('seconds', [60.0, 600.0])
def test_all_pilots_of_a_plan_fit_the_time_limit(seconds):
  names, step_s, begin_s = [DENSE, *'abcdefghijklmno'], 0.01, 2.0
  plan = pilot_plan.planned(names, 300, seconds, step_s, begin_s)
  every = [Candidate(n, rate) for n in plan.names for rate in plan.rates]
  search, took = halving(every, plan.rounds, 300, True), 0.0
  requested = next(search)
  with pytest.raises(StopIteration):
    while True:
      # Steps of other strategies take half as long again.
      took += sum(begin_s + 1.5 * step_s * p.steps for p in requested)
      requested = search.send(
        [Curve([0.5, 1.0], [1.0, 2.0]) for _ in requested]
      )
  assert took <= seconds


def test_a_model_of_the_same_kind_is_nearer_than_any_other():
  config = {**CONFIG, 'task': {'name': 'other', 'model': 'transformer_large'}}
  alike, unlike = known(0.0, 1.0), known(0.0, 1.0, model='mlp')
  assert known_runs.distance(alike, config) == (4, 0)
  assert known_runs.distance(unlike, config) == (known_runs.UNLIKE, 0)


def test_step_seconds_are_weighted_by_share_of_the_training():
  sent = Traffic.of([[1000, 0]], [[1, 0]])
  traffic = StepTraffic(sent, True, np.array([0.1, 0.9]))
  one = Forecast('x', 1.0, 0.0, traffic)
  assert one.comm_s(Link(0.1, 1e4)) == pytest.approx(0.1 * 0.2)
