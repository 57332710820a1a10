"""The answer of a comparison: who is first, how sure that is, what it costs."""

import numpy as np
import pytest

from gossipjax.comparison import (
  answer,
  answer_basis,
  answer_table,
  answer_text,
  certainty,
  next_comparison,
  report_files,
  scores,
  several,
  table,
  units,
  unlearned,
)
from gossipjax.errors import UserError
from gossipjax.results import crossing, reader, total_time
from gossipjax.tasks.task import Task
from tests.support import workdirs
from tests.support.workdirs import record

TWO = {'dense': {}, 'sparse': {'strategy': {'name': 'topk'}}}
ONE = {'dense': {}}
COMMAND = 'python run.py --config=a.py --config.steps=4'


def curve(accuracies, seconds=1.0, **given):
  """A record per accuracy; communication on 1gbe takes `seconds` per step."""
  return [
    record(
      s,
      test_accuracy=score,
      comm_s={'1gbe': seconds * s, 'wan': 0.0},
      train_s=0.2 * s,
      **{k: v(s) for k, v in given.items()},
    )
    for s, score in enumerate(accuracies, 1)
  ]


def answer_of(folder, runs, config=None, claimed=None, ended=None, **entries):
  """The answer of a comparison that is finished with these records."""
  config = workdirs.config(**TWO) | (config or {})
  claimed = {'command': COMMAND, **(claimed or {})}
  workdirs.claim(folder, config, **claimed)
  for name, records in runs.items():
    seed = int(name.partition('-seed')[2] or 0)
    workdirs.run(folder, name, records, seed=seed, **(ended or {}))
  return answer.of(workdirs.finish(folder, **entries), reader.read(folder))


SCORES = (0.5, 0.9, 1.0)


def test_total_seconds_are_computing_of_one_worker_plus_communication(tmp_path):
  result = answer_of(
    tmp_path / 'a',
    {'dense': curve(SCORES), 'sparse': curve((0.5, 0.99), 0.1)},
  )
  assert (result.target, result.dense, result.clock) == (
    0.99,
    'dense',
    'modelled',
  )
  first, dense = result.rows
  # Two workers share this machine, so each computes for half of the 0.2 s.
  assert first.name == 'sparse' and result.sharing == (2, 2)
  assert first.total.mean == pytest.approx(2 * (0.1 + 0.1))
  assert dense.total.mean == pytest.approx(2.9 * (0.1 + 1.0))
  assert first.computing_s == pytest.approx(0.2)
  assert first.bytes_sent == 40
  assert result.undecided == result.missed == ()
  text = ' '.join(answer_text.sentences(result))
  assert 'First to held-out accuracy 99.00 % on 1gbe: sparse, in 0.4 s' in text
  assert 'dense takes 3.19 s, 7.97 times as long' in text
  assert 'or more and divided by the 2 devices' in text


def test_an_answer_undecided_with_one_seed_names_the_next_command(tmp_path):
  runs = {'dense': curve(SCORES), 'sparse': curve(SCORES, 0.9)}
  result = answer_of(tmp_path / 'a', runs)
  assert [row.name for row in result.undecided] == ['dense']
  text = answer_text.paragraphs(result)
  assert 'One seed cannot tell sparse from dense' in text[0]
  assert text[1] == f"    {COMMAND} --config.seeds='(0, 1, 2)'"


def test_seeds_that_only_one_variant_has_decide_nothing(tmp_path):
  """As in an unfinished comparison: dense has two slow seeds that sparse lacks,
  and sparse is slower with the seed that both have."""
  runs = {
    'dense-seed0': curve(SCORES, 0.5),
    'dense-seed1': curve(SCORES, 5.0),
    'dense-seed2': curve(SCORES, 9.0),
    'sparse-seed0': curve(SCORES, 0.6),
  }
  result = answer_of(tmp_path / 'a', runs, {'seeds': (0, 1, 2)})
  first, dense = result.rows
  assert first.name == 'sparse' and dense.total.mean > 7 * first.total.mean
  assert result.undecided == (dense,)
  text = answer_text.paragraphs(result)[0]
  assert 'One seed cannot tell sparse from dense' in text
  assert '0.857 times as long' in text  # With seed 0: 0.6 s and 0.7 s a step.
  (row,) = [r for r in answer_table.rows(result) if r['run'] == 'sparse']
  assert row['speed-up over dense'] == '0.857 x'


def test_a_run_shorter_than_its_period_is_advised_to_last_4_periods(tmp_path):
  silent = curve((0.5, 0.6, 0.7), 0.1, bytes_sent=lambda s: [0, 0])
  runs = {'dense': curve(SCORES), 'rare': silent}
  for name, period, never in (('a', 4, True), ('b', 3, False)):
    rare = {'strategy': {'name': 'local_sgd', 'period': period}}
    config = workdirs.config(dense={}, rare=rare) | {'steps': 3}
    result = answer_of(tmp_path / name, runs, config)
    text = answer_text.paragraphs(result)
    message = (
      'rare never exchanged in this run: its period of 4 steps is longer than '
      'the 3 steps, so give it a shorter one or at least 16 steps'
    )
    assert (message in text[0]) == never
    assert ('rare sent nothing, so its workers' in text[0]) == (not never)
    assert ('too few to tell when rare' in text[0]) == (not never)
    steps = 16 if never else 6
    assert text[1] == f'    python run.py --config=a.py --config.steps={steps}'
  # A run that has sent bytes has exchanged, whatever its period is.
  rare['strategy']['period'] = 4
  runs['rare'] = curve((0.5, 0.6, 0.7))
  result = answer_of(
    tmp_path / 'c', runs, config | {'variants': {'dense': {}, 'rare': rare}}
  )
  assert 'never exchanged' not in ' '.join(answer_text.sentences(result))


def test_runs_that_learned_nothing_are_named_first(tmp_path):
  bad, good = curve((0.09, 0.11, 0.119)), curve((0.09, 0.11, 0.13))
  share = {unlearned.KEY: 0.11}
  for name, dense, sparse, named in (
    ('a', bad, good, 'dense learned little or nothing'),
    ('b', bad, bad, 'dense, sparse learned little or nothing'),
    ('c', good, good, ''),
  ):
    runs = {'dense': dense, 'sparse': sparse}
    result = answer_of(tmp_path / name, runs, ended=share)
    text = answer_text.sentences(result)
    assert ('learned little or nothing' in text[1]) == bool(named)
    assert text[1].startswith(named)
    hint = 'has an accuracy of 11.00 %; try a lower learning rate'
    assert (hint in text[1]) == bool(named)
    # More seeds of a target that means nothing are of no use.
    assert (next_comparison.command(result) == '') == bool(named)
  # A given target does mean something, and without the share nothing is known.
  runs = {'dense': bad, 'sparse': good}
  given = {'target_score': 'accuracy', 'target': 0.1}
  assert next_comparison.command(
    answer_of(tmp_path / 'd', runs, given, ended=share)
  )
  unknown = answer_text.sentences(answer_of(tmp_path / 'e', runs))
  assert 'learned little or nothing' not in ' '.join(unknown)


def test_a_training_loss_that_rises_is_named_unless_the_score_is_better(
  tmp_path,
):
  rising = {'train_loss': lambda s: 2.0 + s}
  for name, scores_, given, named in (
    ('a', (0.5, 0.4, 0.3), rising, True),
    ('b', (0.5, 0.4, 0.6), rising, False),
    ('c', (0.5, 0.4, 0.3), {}, False),  # Overfitting: the loss falls.
    ('d', (0.5, 0.4, 0.3), {'train_loss': lambda s: 2 + s / 20}, False),
  ):
    runs = {'dense': curve(SCORES), 'sparse': curve(scores_, **given)}
    text = ' '.join(answer_text.sentences(answer_of(tmp_path / name, runs)))
    message = 'nothing: the training loss rose from 3.0000 to 5.0'
    assert (message in text) == named == ('sparse learned little' in text)


def test_the_most_frequent_label_is_that_of_held_out_examples():
  task = Task(None, None, None, None, (np.ones((4, 2)), np.array([0, 2, 2, 1])))
  assert unlearned.most_frequent_label(task) == 0.5
  for others in (np.ones((4, 2)), np.ones(4), np.ones((4, 3), np.int32)):
    without = task._replace(test=(np.ones(4), others))
    assert unlearned.most_frequent_label(without) is None
  # One array of numbers has no labels: they may be tokens.
  tokens = task._replace(test=np.ones(4, np.int32))
  assert unlearned.most_frequent_label(tokens) is None


def test_a_run_that_stopped_because_a_worker_was_lost_is_reported(tmp_path):
  """Its last score is its best, but it could not have trained any further."""
  lost = lambda end: {'lost_worker': lambda s: 1 if s == end else None}
  runs = {'dense': curve(SCORES, **lost(3)), 'sparse': curve((0.5, 0.9))}
  result = answer_of(tmp_path / 'a', runs, {'steps': 9})
  assert 'the best of dense, which stopped after 3 of 9 steps, as a worker' in (
    ' '.join(answer_text.sentences(result))
  )
  runs = {'dense': curve((1.0, 1.0)), 'sparse': curve((0.5, 0.9), **lost(2))}
  result = answer_of(tmp_path / 'b', runs, {'steps': 9})
  assert result.improving == ()
  text = ' '.join(answer_text.sentences(result))
  assert 'sparse (at best 90.00 %, which stopped after 2 of 9 steps' in text


def test_a_run_stopped_before_its_first_step_sets_no_target(tmp_path):
  """Its only score is that of the initial model."""
  at_start = record(1, test_accuracy=0.1, lost_worker=1) | {'step': 0}
  runs = {'dense': [at_start], 'sparse': curve((0.5, 0.9))}
  cluster = {'asynchronous': False}
  result = answer_of(tmp_path / 'a', runs, {'steps': 9, 'cluster': cluster})
  assert result.dense == 'sparse' and result.target == pytest.approx(0.99 * 0.9)
  assert [row.name for row in result.missed] == ['dense']
  text = ' '.join(answer_text.sentences(result))
  assert 'dense (no score of its training, which stopped after 0 of 9' in text
  assert result.rows[1].score is None


def test_the_answer_says_if_only_some_seeds_reach_the_target(tmp_path):
  runs = {f'dense-seed{s}': curve(SCORES) for s in range(2)}
  runs |= {f'sparse-seed{s}': curve((0.5, 0.8, 1 - s / 2)) for s in range(2)}
  text = answer_text.paragraphs(
    answer_of(tmp_path / 'a', runs, {'seeds': [0, 1]})
  )
  assert 'no other run gets there with all its seeds' in text[0]


def test_the_advised_seeds_replace_the_seed_in_the_command(tmp_path):
  runs = {'dense': curve(SCORES), 'sparse': curve(SCORES, 0.9)}
  given = {'command': f'{COMMAND} --config.seed=3'}
  result = answer_of(tmp_path / 'a', runs, {'seed': 3}, given)
  more = next_comparison.command(result)
  assert more == f"{COMMAND} --config.seeds='(3, 4, 5)'"


def test_a_flat_curve_leaves_one_seed_undecided(tmp_path):
  # At 98.01 % the two are equally fast, at 99 % sparse is by far faster.
  flat = (0.5, 0.985, 0.986, 0.987, 0.988, 0.989, 1.0)
  result = answer_of(
    tmp_path / 'a', {'dense': curve(flat), 'sparse': curve((0.5, 0.99))}
  )
  first, dense = result.rows
  assert dense.total.mean > 3 * first.total.mean and result.undecided == (
    dense,
  )


def test_one_seed_cannot_rule_out_a_run_that_narrowly_misses(tmp_path):
  runs = {'dense': curve(SCORES), 'sparse': curve((0.5, 0.985), 0.1)}
  result = answer_of(tmp_path / 'a', runs)
  assert result.first.name == 'dense'
  assert [row.name for row in result.undecided] == ['sparse']
  text = answer_text.paragraphs(result)[0]
  assert 'cannot tell dense from sparse (at best 98.50 %)' in text


@pytest.mark.parametrize(
  # With a spread of 0.05 the gap is 3.5 times its standard error.
  ('spread', 'decided'),
  [(0.01, True), (0.035, True), (0.05, False), (0.06, False), (0.5, False)],
)
def test_three_seeds_decide_if_the_gap_is_over_4_standard_errors(
  tmp_path, spread, decided
):
  runs = {
    f'{name}-seed{s}': curve(SCORES, seconds + (s - 1) * sign * spread)
    for name, seconds, sign in (('dense', 1.0, 1), ('sparse', 0.8, -1))
    for s in range(3)
  }
  command = f"{COMMAND} '--config.seeds=(0, 1, 2)'"
  result = answer_of(
    tmp_path / 'a', runs, {'seeds': [0, 1, 2]}, {'command': command}
  )
  assert result.first.name == 'sparse' and result.first.total.sd > 0
  assert (result.undecided == ()) == decided
  if not decided:
    assert '3 seeds cannot tell' in answer_text.paragraphs(result)[0]
    assert next_comparison.command(result) == (
      f"{COMMAND} --config.seeds='(0, 1, 2, 3, 4, 5)'"
    )


def test_runs_that_miss_the_target_or_diverged_come_last(tmp_path):
  variants = {**TWO, 'wild': {}}
  result = answer_of(
    tmp_path / 'a',
    {
      'wild': curve((0.1,)),
      'sparse': curve((0.5, 0.8)),
      'dense': curve(SCORES),
    },
    {'variants': variants},
    wild={'diverged': 'The loss is NaN.'},
  )
  assert [row.name for row in result.rows] == ['dense', 'sparse', 'wild']
  text = ' '.join(answer_text.sentences(result))
  assert (
    'Did not reach the target: sparse (at best 80.00 %), wild (diverged).'
    in text
  )
  assert [row['seconds to the target'] for row in answer_table.rows(result)][
    1:
  ] == ['never'] * 2


def test_a_run_that_still_improves_at_its_end_needs_more_steps(
  tmp_path,
):
  message = '4 steps are too few to tell when sparse gets there (the last'
  for name, sparse, expected in (
    ('rising', (0.5, 0.7, 0.8), True),
    ('flat', (0.5, 0.8, 0.8), False),
    ('single', (0.5,), False),
    ('there', SCORES, False),
  ):
    runs = {'dense': curve(SCORES), 'sparse': curve(sparse, 0.1)}
    result = answer_of(tmp_path / name, runs)
    text = ' '.join(answer_text.paragraphs(result))
    assert (message in text) == ('First so far to' in text) == expected, (
      name,
      text,
    )
    more = next_comparison.command(result).endswith(' --config.steps=8')
    assert more == expected, (name, text)
  runs = {'dense': curve(SCORES), 'sparse': curve((0.5, 0.7))}
  unreached = answer_of(tmp_path / 'nobody', runs, {'target': 1.5})
  text = ' '.join(answer_text.sentences(unreached))
  assert '4 steps are too few to tell when dense, sparse get there' in text
  by_loss = {'target_score': 'loss', 'target': 0.1}  # The loss is 1 / step.
  text = ' '.join(
    answer_text.sentences(answer_of(tmp_path / 'loss', runs, by_loss))
  )
  assert 'steps are too few' in text


def test_more_steps_are_not_advised_for_a_run_that_cannot_win(tmp_path):
  runs = {'dense': curve(SCORES), 'sparse': curve((0.5, 0.7, 0.8))}
  # Sparse has spent 3.3 s, dense took 3.19 s.
  result = answer_of(tmp_path / 'a', runs)
  assert [row.name for row in result.improving] == ['sparse']
  assert result.may_overtake == () and next_comparison.command(result) == ''
  (text,) = answer_text.paragraphs(result)
  assert 'First to' in text and 'To decide' not in text
  assert '4 steps are too few to tell when sparse gets there' in text


def test_a_variant_with_its_own_steps_is_advised_to_raise_them(tmp_path):
  own = {'variants': {**TWO, 'short': {'steps': 3}}}
  runs = {'dense': curve(SCORES), 'sparse': curve((0.5, 0.8, 0.8))}
  runs['short'] = curve((0.5, 0.7, 0.8))
  result = answer_of(tmp_path / 'a', runs, own)
  text = answer_text.paragraphs(result)
  assert (
    '3 steps are too few to tell when short gets there (the last score is the '
    'best); raise the steps of that variant.'
  ) in text[0]
  assert len(text) == 1 and 'run:' not in text[0]
  runs['sparse'] = curve((0.5, 0.7, 0.8), 0.1)
  both = answer_of(tmp_path / 'b', runs, own)
  text = answer_text.paragraphs(both)
  assert '4 steps are too few to tell when sparse gets there' in text[0]
  assert '3 steps are too few to tell when short gets there' in text[0]
  assert text[1] == '    python run.py --config=a.py --config.steps=8'


def test_a_target_reached_at_the_first_evaluation_bounds_the_costs(tmp_path):
  early = {'target': 0.5}
  runs = {'dense': curve(SCORES, 1.0), 'sparse': curve(SCORES, 0.1)}
  both = answer_of(tmp_path / 'a', runs, early)
  assert [row.name for row in both.undecided] == ['dense']
  text = answer_text.paragraphs(both)
  assert len(text) == 1 and 'One seed' not in text[0]
  assert (
    'on 1gbe: sparse, in at most 0.2 s; dense takes at most 1.1 s. ' in text[0]
  )
  assert (
    'sparse, dense reached the target at the first evaluation or before; '
    'evaluate more often (eval_every) to tell who is first.'
  ) in text[0]
  assert 'sparse sends at most 20 B per worker until then' in text[0]
  shown = answer_table.rows(both)
  assert [row['seconds to the target'] for row in shown] == [
    'at most 0.2 s',
    'at most 1.1 s',
  ]
  assert all(row['sent to the target'] == 'at most 20 B' for row in shown)
  assert [row['speed-up over dense'] for row in shown] == ['', '']
  runs['dense'] = curve((0.1, *SCORES))
  one = answer_of(tmp_path / 'b', runs, early)
  assert one.undecided == ()
  assert ', at least 11 times as long' in answer_text.paragraphs(one)[0]
  assert answer_table.rows(one)[0]['speed-up over dense'] == 'at least 11 x'
  assert (
    'sparse reached the target at the first evaluation or before; '
    'evaluate more often (eval_every) to tell when.'
  ) in answer_text.paragraphs(one)[0]
  # Three seeds do not decide it either.
  seeds = {f'{n}-seed{s}': r for s in range(3) for n, r in runs.items()}
  seeds |= {f'dense-seed{s}': curve(SCORES, 1 + 0.1 * s) for s in range(3)}
  all_three = answer_of(tmp_path / 'c', seeds, early | {'seeds': [0, 1, 2]})
  assert [row.name for row in all_three.undecided] == ['dense']
  seeds['dense-seed2'] = curve((0.1, 0.2))
  misses = answer_of(tmp_path / 'd', seeds, early | {'seeds': [0, 1, 2]})
  assert misses.undecided == () and misses.missed[0].name == 'dense'


def test_more_steps_are_not_advised_if_a_seed_diverged(tmp_path):
  runs = {
    f'{name}-seed{s}': curve(scores)
    for name, scores in (('dense', SCORES), ('sparse', (0.5, 0.7, 0.8)))
    for s in range(3)
  }
  seeds = {'seeds': [0, 1, 2]}
  rising = answer_of(tmp_path / 'a', runs, seeds)
  assert [row.name for row in rising.improving] == ['sparse']
  diverged = {'sparse-seed1': {'diverged': 'The loss is NaN.'}}
  result = answer_of(tmp_path / 'b', runs, seeds, **diverged)
  assert [row.name for row in result.missed] == [
    'sparse'
  ] and result.improving == ()
  assert next_comparison.command(result) == ''


@pytest.mark.parametrize(
  'computing, transfers, wire, alike',
  [
    (1.01, 0.0, None, True),
    (1.2, 0.0, None, False),
    (1.0, 0.02, None, True),
    (1.0, 0.2, None, False),
    (0.1, 0.93, None, True),  # The noise is that of dense.
    (1.01, 0.0, [9], True),  # Computing and communication measured together.
    (1.2, 0.0, [9], False),
  ],
)
def test_measured_seconds_within_their_noise_count_as_equal(
  tmp_path, computing, transfers, wire, alike
):
  """Dense computes for 0.1 s a step and sends in no time; the 3 seeds agree."""
  seeds = range(3)
  runs = {
    f'{name}-seed{s}': [
      record | {'train_s': record['train_s'] * factor * (1 + s / 1000)}
      for record in curve(SCORES, comm_s, wire_bytes=lambda _: wire)
    ]
    for name, factor, comm_s in (
      ('dense', 1.0, 0.0),
      ('sparse', computing, transfers * 0.1),
    )
    for s in seeds
  }
  result = answer_of(tmp_path / 'a', runs, {'seeds': [*seeds]})
  assert result.undecided == ()
  assert [row.name for row in result.within_noise] == ['sparse'] * alike
  text = ' '.join(answer_text.paragraphs(result))
  assert ('sparse is as fast as dense' in text) == alike
  assert next_comparison.command(result) == ''


def test_diverged_seeds_are_reported_beside_the_score_of_the_others(tmp_path):
  runs = {
    f'{name}-seed{s}': curve(scores)
    for name, scores in (('dense', SCORES), ('sparse', (0.5, 0.7)))
    for s in range(3)
  }
  lost = {f'{v}-seed1': {'diverged': 'NaN.'} for v in ('dense', 'sparse')}
  result = answer_of(tmp_path / 'a', runs, {'seeds': [0, 1, 2]}, **lost)
  text = ' '.join(answer_text.sentences(result))
  few = '1 of 3 seeds diverged, {} of 3 seeds missed it'
  for name, missed in (('dense', 1), ('sparse', 3)):
    (why,) = (w for w in text.split('), ') if f'{name} (at best' in w)
    assert few.format(missed) in why
  assert 'the best of dense, of its worst seed that did not diverge;' in text


@pytest.mark.parametrize(
  'seeds, more',
  [
    ((0,), (0, 1, 2)),
    ((3,), (3, 4, 5)),
    ((3, 7), (3, 7, 4, 5)),
    ((0, 1, 2), (0, 1, 2, 3, 4, 5)),
  ],
)
def test_the_advised_seeds_include_those_that_were_trained(
  seeds, more, tmp_path
):
  name = '{}-seed{}' if len(seeds) > 1 else '{}'
  runs = {
    name.format(v, s): curve(SCORES) for v in ('dense', 'sparse') for s in seeds
  }
  several = {'seeds': [*seeds]} if len(seeds) > 1 else {}
  result = answer_of(tmp_path / 'a', runs, several)._replace(seeds=seeds)
  assert next_comparison.command(result).endswith(f"--config.seeds='{more}'")


def test_the_config_can_set_the_target_its_score_and_its_share(tmp_path):
  runs = {'dense': curve(SCORES), 'sparse': curve(SCORES, 0.1)}
  chosen = {'target': 0.4, 'target_score': 'loss'}  # The loss is 1 / step.
  result = answer_of(tmp_path / 'a', runs, chosen)
  assert (result.metric, result.higher, result.share) == ('test_loss', False, 0)
  assert result.easier == pytest.approx(0.404)
  assert result.reference.total.mean == pytest.approx(1.1 * 2.6)
  text = ' '.join(answer_text.sentences(result))
  assert 'held-out loss 0.4000' in text and 'The target was given.' in text
  none = answer_of(tmp_path / 'b', runs, {'target': 1.5})
  assert none.first is None
  assert answer_text.sentences(none)[0].startswith('No run reached held-out')
  best = answer_of(tmp_path / 'c', runs, {'target_score': 'loss'})
  assert best.target == pytest.approx(1.01 / 3)
  worse = 'The target is 1 % worse than the best of dense; '
  assert worse in answer_basis.basis(best)
  less = answer_of(
    tmp_path / 'e', runs, {'target_score': 'loss', 'target_share': 0.9}
  )
  assert less.target == pytest.approx(1.1 / 3)
  assert less.reference.total.mean < best.reference.total.mean
  assert 'The target is 10 % worse than the best' in answer_basis.basis(less)
  below = {'dense': curve((-3.0, -2.0))}  # As accuracies: higher is better.
  negative = answer_of(tmp_path / 'd', below, {'variants': ONE})
  assert negative.target == pytest.approx(-2.02)
  assert worse in answer_basis.basis(negative)


def test_measured_and_virtual_seconds_are_labelled_as_such(tmp_path):
  wire = answer_of(
    tmp_path / 'a',
    {name: curve(SCORES, wire_bytes=lambda s: [s]) for name in TWO},
  )
  assert wire.clock == total_time.MEASURED
  assert wire.reference.total.mean == pytest.approx(0.2 * 2.9)
  assert 'computing' not in answer_table.rows(wire)[0]
  virtual = answer_of(
    tmp_path / 'b',
    {
      name: curve(
        SCORES, virtual_s=lambda s: 7.0 * s, compute_s=lambda s: [2.0 * s, s]
      )
      for name in TWO
    },
  )
  assert virtual.clock == total_time.VIRTUAL
  assert virtual.reference.total.mean == pytest.approx(7 * 2.9)
  assert virtual.reference.computing_s == pytest.approx(2 * 2.9)
  assert 'in virtual time' in answer_text.sentences(virtual)[0]
  clock = {'virtual_s': lambda s: 7.0 * s}
  real = answer_of(
    tmp_path / 'd', {'dense': curve(SCORES, **clock)}, {'engine': 'ray'}
  )
  assert real.clock == total_time.MEASURED
  assert real.reference.total.mean == pytest.approx(7 * 2.9)
  several = answer_of(
    tmp_path / 'c', {'dense': curve(SCORES)}, claimed={'processes': 2}
  )
  assert several.clock == total_time.MEASURED


def test_computing_takes_no_longer_than_the_run(tmp_path):
  seconds = {'virtual_s': lambda s: 7.0 * s, 'compute_s': lambda s: [s, 50.0]}
  row = answer_of(tmp_path / 'a', {'dense': curve(SCORES, **seconds)}).reference
  assert row.computing_s == pytest.approx(7 * 2.9)
  assert row.communication_s == 0


def test_zero_seconds_give_no_speed_up(tmp_path):
  result = answer_of(
    tmp_path / 'a',
    {
      'dense': curve(SCORES, virtual_s=lambda s: 1.0 * (s > 2)),
      'sparse': curve(SCORES, virtual_s=lambda s: 0.0),
    },
    {'target': 0.6},
  )
  assert [row.total.mean for row in result.rows] == [0, 0]
  text = ' '.join(answer_text.sentences(result))
  assert 'First' in text and 'times as long' not in text
  assert not any(
    row['speed-up over dense'] for row in answer_table.rows(result)
  )
  assert not certainty.slower(result.rows[1], result.rows[0])


def test_without_a_held_out_score_there_is_no_answer(tmp_path):
  nothing = [record(1, test_accuracy=None, test_loss=None)]
  assert answer_of(tmp_path / 'a', {'dense': nothing}) is None


def test_there_is_no_answer_if_all_finished_runs_diverged(tmp_path):
  # Sparse still trains; dense was evaluated before it diverged.
  diverged = {'dense': {'diverged': 'The loss is NaN.'}}
  assert answer_of(tmp_path / 'a', {'dense': curve(SCORES)}, **diverged) is None


def test_comparison_md_opens_with_the_answer(tmp_path):
  config = workdirs.config(**TWO) | {'steps': 3}
  folder = workdirs.claim(tmp_path / 'a', config)
  for name in TWO:
    workdirs.run(
      folder,
      name,
      curve(SCORES),
      bytes_sent=20,
      steps=3,
      seed=0,
      train_loss=0.1,
      consensus_distance=0.0,
      comm_s={'1gbe': 1.0},
      examples_per_s=1.0,
    )
  report_files.write_table(folder)
  text = (folder / 'comparison.md').read_text()
  assert text.index('First to held-out') < text.index('## All figures')
  assert "the same command with --config.seeds='(0, 1, 2)'" in text
  assert '2 workers, 3 steps of 16 examples each' in text


def test_comparison_md_gives_the_range_of_the_steps_of_variants():
  config = workdirs.config(a={'steps': 4}, b={'steps': 50}) | {'steps': 9}
  runs = [{'name': name, 'diverged': 'NaN'} for name in 'ab']
  summary = {'config': config, 'commit': 'x', 'runs': runs}
  text = table.markdown(summary, None)
  assert '2 workers, 4 to 50 steps of 16 examples each' in text


def test_joined_comparisons_keep_the_settings_of_their_variants(tmp_path):
  variants = {'dense': {}, 'wide': {'batch_size': 50, 'workers': 4, 'seed': 1}}
  config = workdirs.config(**variants) | {'steps': 3}
  folder = workdirs.claim(tmp_path / 'a', config, command='gossipjax.compare')
  for name, seed in (('dense', 0), ('wide', 1)):
    records = curve(SCORES)
    last = {
      k: max(v) if isinstance(v, list) else v for k, v in records[-1].items()
    }
    last['steps'] = last['step']
    workdirs.run(folder, name, records, seed=seed, **last)
  summary, runs = several.joined([folder], {'target': 0.9})
  found = answer.of(summary, runs)
  text = table.markdown(summary, found)
  assert '2 to 4 workers, 3 steps of 16 to 50 examples each' in text
  doubt = answer_text.paragraphs(found)[0]
  assert 'Without a common seed one cannot tell' in doubt
  assert 'set config.seeds and no seed of a variant' in doubt
  assert found.own_seeds and 'To decide' not in doubt


def test_a_target_that_no_accuracy_has_is_refused(tmp_path):
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(**ONE), command='')
  workdirs.run(folder, 'dense', curve(SCORES), seed=0)
  with pytest.raises(UserError, match=r'accuracy of 92; .*, such as 0\.92'):
    several.write([folder], tmp_path / 'out.html', {'target': 92.0})
  assert not (tmp_path / 'out.html').exists()


def test_folders_whose_variants_end_at_other_targets_are_not_joined(tmp_path):
  folders = []
  for name, target in (('a', 0.5), ('b', 0.7)):
    ends = {'cluster': {'target': target, 'target_score': 'accuracy'}}
    config = workdirs.config(dense=ends) | {'cluster': {}}
    folders.append(workdirs.claim(tmp_path / name, config, command=COMMAND))
    workdirs.run(folders[-1], 'dense', curve((0.2, 0.8)), seed=0)
  with pytest.raises(UserError, match=r'b and in .*a ended at different'):
    several.joined(folders)


def test_runs_that_variants_end_at_a_target_are_judged_by_it(tmp_path):
  ends = {'target': 0.5, 'target_score': 'accuracy'}
  variants = {k: {'cluster': ends, **v} for k, v in TWO.items()}
  config = workdirs.config(**variants) | {'cluster': {}}
  folder = workdirs.claim(tmp_path / 'a', config, command=COMMAND)
  for name in TWO:
    workdirs.run(folder, name, curve((0.2, 0.6)), seed=0)
  found = answer.of(*several.joined([folder]))
  assert (found.target, found.share) == (0.5, 0)
  with pytest.raises(UserError, match=r'a ended at the target of config\.clus'):
    several.joined([folder], {'target': 0.3})


def test_several_workdirs_are_joined_into_one_comparison(tmp_path):
  folders = []
  for name, seconds in (('a', 1.0), ('b', 0.1)):
    config = workdirs.config(**TWO) | {'seed': len(folders)}
    changed = {
      'command': f'{COMMAND} --config.seed={config["seed"]}',
      'processor': name,
      'versions': {'jax': '0.10', 'numpy': name},
      'devices': ['cpu:0', f'cpu:{name}'],
    }
    folders.append(workdirs.claim(tmp_path / name, config, **changed))
    for run in TWO:
      records = curve(SCORES, seconds)
      workdirs.run(folders[-1], run, records, seed=config['seed'])
  summary, runs = several.joined(folders)
  result = answer.of(summary, runs)
  assert [row.name for row in result.rows][:2] == ['b/dense', 'b/sparse']
  assert 'One seed cannot tell b/dense from' in ' '.join(
    answer_text.sentences(result)
  )
  assert table.seeds(summary) == 'seeds 0, 1'
  assert result.command == ''  # No command of one workdir repeats both.
  assert summary['versions'] == {'jax': '0.10', 'numpy': 'several'}
  assert summary['processor'] == 'several'
  assert summary['devices'] == ['cpu:0', 'cpu:a', 'cpu:b']
  assert summary['python'] == reader.summary(folders[0])['python']
  other = workdirs.claim(tmp_path / 'c', workdirs.config() | {'workers': 4})
  workdirs.run(other, 'all_reduce', curve(SCORES), seed=0)
  with pytest.raises(UserError, match=r'c has another config\.workers'):
    several.joined([folders[0], other])


def test_a_finished_comparison_can_be_answered_for_another_target(tmp_path):
  config = workdirs.config(**TWO)
  folder = workdirs.claim(tmp_path / 'a', config, command=COMMAND)
  for run, seconds in zip(TWO, (1.0, 0.5), strict=True):
    workdirs.run(folder, run, curve(SCORES, seconds), seed=0)
  best = answer.of(*several.joined([folder]))
  assert [row.name for row in best.rows] == ['sparse', 'dense']
  for goal, target in (
    ({'target': 0.3}, 0.3),
    ({'target': 0.0, 'target_share': 0.5}, best.target / 0.99 / 2),
  ):
    result = answer.of(*several.joined([folder], goal))
    assert result.target == pytest.approx(target)
    flags = ' '.join(f'--config.{k}={v}' for k, v in goal.items())
    assert result.command == f'{COMMAND} {flags}'
    assert result.reference.total.mean < best.reference.total.mean
  ends = {'cluster': {'target': 0.5, 'target_score': 'accuracy'}}
  ended = workdirs.claim(tmp_path / 'b', config | ends)
  workdirs.run(ended, 'dense', curve(SCORES), seed=0)
  with pytest.raises(UserError, match=r'b ended at the target of config\.clus'):
    several.joined([ended], {'target': 0.3})


def test_a_report_of_several_workdirs_overwrites_only_a_report(tmp_path):
  config = workdirs.config(**ONE) | {'steps': 3}
  folder = workdirs.claim(tmp_path / 'a', config, command='')
  records = curve(SCORES)
  last = {
    k: max(v) if isinstance(v, list) else v for k, v in records[-1].items()
  }
  last['steps'] = last['step']
  workdirs.run(folder, 'dense', records, seed=0, **last)
  out = tmp_path / 'both.html'
  for _ in range(2):
    several.write([folder], out)
  out.write_text('mine')
  with pytest.raises(UserError, match=r'both\.html was not written'):
    several.write([folder], out)
  assert out.read_text() == 'mine'


def test_measured_and_modelled_workdirs_cannot_be_joined(tmp_path):
  folders = []
  for name, processes in (('a', 1), ('b', 2)):
    config = workdirs.config(**TWO)
    folders.append(workdirs.claim(tmp_path / name, config, processes=processes))
    workdirs.run(folders[-1], 'dense', curve(SCORES), seed=0)
  message = 'those of .*b are measured, those of .*a are modelled'
  with pytest.raises(UserError, match=message):
    several.joined(folders)


def test_workdirs_of_different_machines_cannot_be_joined(tmp_path):
  folders = []
  for name, cores in (('a', 2), ('b', 16)):
    config = workdirs.config(**TWO)
    machine = {'device_kind': 'cpu', 'cores': cores}
    folders.append(workdirs.claim(tmp_path / name, config, **machine))
    workdirs.run(folders[-1], 'dense', curve(SCORES), seed=0)
  with pytest.raises(UserError, match=r'b are of cpu and 16 cores, .*a are'):
    several.joined(folders)


def test_joined_workdirs_of_several_seeds_count_the_seeds_per_row(tmp_path):
  folders = []
  for name, last in (('a', (1.0, 1.0, 1.0)), ('b', (1.0, 0.8, 1.0))):
    config = workdirs.config(**TWO) | {'seeds': [4, 5, 6]}
    folders.append(workdirs.claim(tmp_path / name, config, command=COMMAND))
    for run in TWO:
      for seed, score in zip((4, 5, 6), last, strict=True):
        records = curve((0.5, 0.9, score), 1 + 0.01 * seed)
        workdirs.run(folders[-1], f'{run}-seed{seed}', records, seed=seed)
  result = answer.of(*several.joined(folders))
  assert [len(row.each) for row in result.rows] == [3] * 4
  assert [row.name for row in result.missed] == ['b/dense', 'b/sparse']
  assert [row.name for row in result.undecided] == ['a/sparse']
  text = ' '.join(answer_text.paragraphs(result))
  assert '3 seeds cannot tell a/dense from a/sparse' in text
  assert 'b/sparse (at best 96.67 ± 5.8 %, 1 of 3 seeds missed it)' in text
  assert 'as long (' not in text and 'of its worst seed' in text
  assert "--config.seeds='(4, 5, 6, 7, 8, 9)'" in text


@pytest.mark.parametrize(
  'seeds, decided', [((0, 1, 2), True), ((2, 1, 0), True), ((3, 4, 5), False)]
)
def test_seconds_are_paired_by_seed_and_not_by_position(
  tmp_path, seeds, decided
):
  folders = []
  for name, order, later in (('a', (0, 1, 2), 0.0), ('b', seeds, 0.1)):
    config = workdirs.config(**TWO) | {'seeds': [*order]}
    folders.append(workdirs.claim(tmp_path / name, config, command=COMMAND))
    for seed in order:
      records = curve(SCORES, 1.0 + seed % 3 + later)
      workdirs.run(folders[-1], f'dense-seed{seed}', records, seed=seed)
  result = answer.of(*several.joined(folders))
  assert result.first.name == 'a/dense'
  assert [row.name for row in result.undecided] == ['b/dense'] * (not decided)
  text = ' '.join(answer_text.paragraphs(result))
  assert ('Without a common seed one cannot tell' in text) is not decided


def test_large_deviations_are_rounded_to_whole_numbers(tmp_path):
  runs = {f'dense-seed{s}': curve(SCORES, 600.0 + 100 * s) for s in range(3)}
  result = answer_of(
    tmp_path / 'a', runs, {'seeds': [0, 1, 2], 'variants': ONE}
  )
  assert answer_text.seconds(result.rows[0]) == '2,030 ± 290 s'
  assert scores.as_text('test_perplexity', 1234.0, 123.4) == '1234 ± 123'
  assert scores.as_text('test_perplexity', 12.0, 1.26) == '12 ± 1.3'


@pytest.mark.parametrize(
  'value, text',
  [
    (2.30259, '2.3026'),
    (0.0312345, '0.03123'),
    (2.6e-5, '2.6e-05'),
    (-2.6e-5, '-2.6e-05'),
    (0.0, '0.0000'),
    (float('nan'), 'nan'),
  ],
)
def test_a_small_loss_has_as_many_digits_as_a_large_one(value, text):
  assert scores.as_text('test_loss', value) == text
  assert scores.as_text('test_loss', value, 1e-6) == f'{text} ± 1e-06'
  assert (units.loss(value) or 'nan') == text


def test_hidden_communication_is_free_and_that_within_a_worker_is_not(
  tmp_path,
):
  parts = {
    'hidden_s': lambda s: {'1gbe': 0.25 * s, 'wan': 0.0},
    'inner_s': lambda s: 0.5 * s,
  }
  runs = {'dense': curve(SCORES, **parts)}
  (row,) = answer_of(tmp_path / 'a', runs, {'variants': ONE}).rows
  assert row.communication_s == pytest.approx(2.9 * (1.0 - 0.25 + 0.5))
  assert row.total.mean == pytest.approx(2.9 * (0.1 + 1.25))


@pytest.mark.parametrize('score, target', [('', 0.891), ('loss', 0.505)])
def test_the_worst_seed_of_all_reduce_sets_the_target(score, target, tmp_path):
  runs = {
    f'dense-seed{s}': curve(
      (0.5, 0.8, best), test_loss=lambda t, b=best: 1.4 - b
    )
    for s, best in enumerate((1.0, 0.9))
  }
  given = {'variants': ONE, 'seeds': [0, 1], 'target_score': score}
  result = answer_of(tmp_path / 'a', runs, given)
  assert result.target == pytest.approx(target)
  assert result.missed == ()


@pytest.mark.parametrize(
  'longer, decided', [((0.2, 0.2), True), ((0.2, 5.0), False)]
)
def test_two_seeds_decide_only_if_they_agree(longer, decided, tmp_path):
  """A fifth longer with each seed is enough, 3.6 times in the mean is not."""
  runs = {}
  for seed, more in enumerate(longer):
    runs[f'sparse-seed{seed}'] = curve(SCORES, 0.9)
    runs[f'dense-seed{seed}'] = curve(SCORES, 0.9 + more)
  result = answer_of(tmp_path / 'a', runs, {'seeds': [0, 1]})
  assert result.first.name == 'sparse' and (result.undecided == ()) is decided


@pytest.mark.parametrize('times, decided', [(1.4, False), (1.6, True)])
def test_one_seed_decides_if_a_run_takes_1_5_times_as_long(
  times, decided, tmp_path
):
  runs = {'sparse': curve(SCORES, 0.9), 'dense': curve(SCORES, times - 0.1)}
  result = answer_of(tmp_path / 'a', runs)
  assert result.first.name == 'sparse' and (result.undecided == ()) is decided


def test_one_seed_at_target_at_its_first_evaluation_bounds_the_mean(tmp_path):
  runs = {f'dense-seed{s}': curve((0.1, *SCORES)) for s in (0, 1)}
  runs |= {'sparse-seed0': curve(SCORES), 'sparse-seed1': curve((0.1, *SCORES))}
  result = answer_of(tmp_path / 'a', runs, {'seeds': [0, 1], 'target': 0.5})
  assert {r.name: r.at_once for r in result.rows} == {
    'sparse': True,
    'dense': False,
  }


def test_a_row_shows_its_earliest_stop_and_the_best_loss_comes_first(
  tmp_path,
):
  lost = lambda end: {'lost_worker': lambda s: 1 if s == end else None}
  runs = {
    'dense-seed0': curve((0.5, 0.9), **lost(2)),
    'dense-seed1': curve(SCORES, **lost(3)),
    'sparse-seed0': curve(SCORES),
    'sparse-seed1': curve(SCORES),
  }
  given = {'seeds': [0, 1], 'target': 0.01, 'target_score': 'loss'}
  result = answer_of(tmp_path / 'a', runs, given)
  assert [row.name for row in result.rows] == ['sparse', 'dense']
  assert [row.stopped for row in result.rows] == [None, 2]


def test_a_score_equal_to_the_target_reaches_it_from_either_side():
  assert crossing.place([0.2, 0.5], 0.5) == 1
  assert crossing.place([2.0, 0.5], 0.5, higher=False) == 1


@pytest.mark.parametrize(
  'second', [(0.5, 0.8, 0.8), (0.5, 0.8, 0.6, 0.7)], ids=['flat', 'was_better']
)
def test_more_steps_are_advised_only_if_every_seed_ends_at_its_best(
  second, tmp_path
):
  runs = {f'dense-seed{s}': curve(SCORES) for s in (0, 1)}
  runs |= {
    'sparse-seed0': curve((0.5, 0.7, 0.8)),
    'sparse-seed1': curve(second),
  }
  result = answer_of(tmp_path / 'a', runs, {'seeds': [0, 1]})
  assert [row.name for row in result.missed] == [
    'sparse'
  ] and result.improving == ()


def test_the_measured_seconds_are_those_of_the_fastest_run(tmp_path):
  runs = {'dense': curve(SCORES), 'sparse': curve(SCORES[:2])}
  assert answer_of(tmp_path / 'a', runs).measured_s == pytest.approx(0.4)
