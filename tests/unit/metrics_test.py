"""Scores of a task: means, sums, functions of all examples, directions."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import gossipjax as gj
from gossipjax.comparison import compare, scores, virtual_time
from gossipjax.comparison.variant import check
from gossipjax.config import defaults
from gossipjax.config.variants import variants
from gossipjax.errors import UserError
from gossipjax.results import analysis
from gossipjax.simulation import simulate
from gossipjax.training import evaluate
from gossipjax.tuning import tune

pytestmark = pytest.mark.usefixtures('compile_quickly')

ME = __name__
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((145, 5), np.float32)
Y = X @ np.arange(5, dtype=np.float32)


def r2(guess, y):
  """The coefficient of determination."""
  assert isinstance(guess, np.ndarray) and len(guess) in (10, 45)
  return 1 - ((guess - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()


def line() -> gj.Task:
  """A regression that is judged by three scores, none of them an accuracy."""

  def score(params, batch):
    error = batch[0] @ params - batch[1]
    return {
      'mae': jnp.abs(error).mean(),
      'far': gj.total(jnp.sum(jnp.abs(error) > 1)),
      'r2': gj.whole_set(r2, batch[0] @ params, batch[1]),
    }

  return gj.Task(
    init=lambda key: jnp.zeros(5),
    loss=lambda params, batch, key: jnp.mean(
      (batch[0] @ params - batch[1]) ** 2
    ),
    score=score,
    train=(X[:100], Y[:100]),
    test=(X[100:], Y[100:]),
    higher_is_better=('r2',),
  )


def config(task='line'):
  found = defaults.get_config()
  found.task = defaults.task(f'{ME}:{task}')
  found.optimizer = defaults.optimizer('sgd', 0.1)
  found.update(workers=2, steps=8, log_every=2, eval_every=4, executor='vmap')
  found.variants = defaults.variants(all_reduce='all_reduce', gtopk='local_sgd')
  return found


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  folder = tmp_path_factory.mktemp('metrics') / 'run'
  return folder, compare.compare(config(), folder)


@pytest.mark.exhaustive
def test_scores_of_all_examples_equal_those_by_hand(done):
  params, x, y = jnp.ones(5), X[100:], Y[100:]
  run = check('one', next(iter(variants(config())))[1]).run
  found = evaluate.held_out_scorer(run.task, 2, run.executor)(params, ())
  error = x @ np.ones(5, np.float32) - y
  assert found['far'] == (abs(error) > 1).sum()
  np.testing.assert_allclose(found['mae'], abs(error).mean(), rtol=1e-6)
  by_hand = 1 - (error**2).sum() / ((y - y.mean()) ** 2).sum()
  np.testing.assert_allclose(found['r2'], by_hand, rtol=1e-5)


@pytest.mark.exhaustive
def test_scores_are_in_records_tables_figures_and_the_report(done):
  folder, summary = done
  frame = analysis.load(folder)
  last = analysis.final(frame).iloc[0]
  assert last['test_r2'] == summary['runs'][0]['test_r2'] > 0
  assert np.isnan(frame['test_r2'].iloc[0])  # Not evaluated at step 2.
  assert 'worker0_mae' in frame
  table = (folder / 'comparison.md').read_text()
  assert 'held-out r2 (higher is better)' in table
  assert 'held-out mae (lower is better)' in table
  assert 'accuracy' not in table
  assert {p.stem for p in folder.glob('*.png')} == {
    'train_loss',
    'test_mae',
    'test_far',
    'test_r2',
  }
  page = (folder / 'report.html').read_text()
  assert 'held-out r2' in page and 'held-out accuracy' not in page


@pytest.mark.exhaustive
def test_a_target_respects_whether_higher_scores_are_better(done):
  frame = analysis.load(done[0])
  assert analysis.higher_is_better('test_r2', frame)
  assert not analysis.higher_is_better('test_mae', frame)
  best = frame['test_r2'].max()
  found = analysis.to_target(frame, 'test_r2', best)
  assert found['reached'].sum() == 1
  with pytest.raises(UserError, match='the best is'):
    analysis.to_target(frame, 'test_r2', 1.01)
  assert analysis.to_target(frame, 'test_mae', 10)['reached'].all()


@pytest.mark.exhaustive
def test_tuning_chooses_by_a_given_score_of_the_task(tmp_path):
  rates = {'optimizer.learning_rate': (1e-6, 0.1)}
  one = config()
  one.variants = {}
  found = tune.best(one, rates, 1, tmp_path / 'a', metric='validation_r2')
  assert found.chosen['all_reduce'] == {'optimizer.learning_rate': 0.1}
  with pytest.raises(UserError, match='validation_accuracy is unknown'):
    tune.best(one, rates, 1, tmp_path / 'b', metric='validation_accuracy')


@pytest.mark.exhaustive
def test_tuning_chooses_by_the_target_score(tmp_path, capsys):
  one, metrics = config(), set()
  one.update(variants={}, target_score='r2')
  show = lambda row, metric: metrics.add(metric)
  rates = {'optimizer.learning_rate': (1e-6, 0.1)}
  found = tune.best(one, rates, 1, tmp_path / 'a', show=show)
  assert found.chosen['all_reduce'] == {'optimizer.learning_rate': 0.1}
  assert metrics == {'validation_r2'}
  stderr = capsys.readouterr().err
  assert 'validation_r2 chooses the best points' in stderr
  assert f'\n4 trials, {4 * one.steps} steps in all.\n' in stderr


@pytest.mark.parametrize(
  ('names', 'target', 'column'),
  [
    (('auc', 'loss', 'accuracy'), '', 'test_accuracy'),
    (('auc', 'loss'), '', 'test_loss'),
    (('auc', 'loss', 'accuracy'), 'auc', 'test_auc'),
    (('auc', 'brier'), '', 'test_auc'),
  ],
)
def test_the_score_to_judge_by_is_the_target_score_or_a_default(
  names, target, column
):
  score = lambda params, batch: dict.fromkeys(names, params.sum())
  task = line()._replace(score=score, higher_is_better=())
  found, higher = scores.of_task({'target_score': target}, task)
  assert (found, higher) == (column, 'accuracy' in column)


def spoilt(**changes):
  """The task `line` with other attributes."""
  own = {'higher_is_better': ()} if 'score' in changes else {}
  return line()._replace(**own | changes)


def no_scalar():
  return spoilt(loss=lambda params, batch, key: batch[0] @ params)


def no_names():
  return spoilt(score=lambda params, batch: params.sum())


def no_number():
  return spoilt(score=lambda params, batch: {'each': batch[1]})


def appearing():
  score = lambda params, batch: (
    {'a': params.sum()} | ({'b': params.sum()} if len(batch[1]) > 1 else {})
  )
  return spoilt(score=score)


def changing():
  score = lambda params, batch: {
    'a': params.sum() if len(batch[1]) > 1 else jnp.int32(1)
  }
  return spoilt(score=score)


def nothing_known():
  return spoilt(score=lambda params, batch: {'a': 0 / params.sum()})


def bad_name():
  return spoilt(score=lambda params, batch: {'top-5': params.sum()})


def no_state():
  return spoilt(stateful=True, init=lambda key: jnp.zeros(5))


def another_state():
  return spoilt(
    stateful=True,
    init=lambda key: (jnp.zeros(5), jnp.zeros(3)),
    loss=lambda params, state, batch, key: (params.sum(), state[:2]),
  )


def no_array():
  return spoilt(loss=lambda params, batch, key: 1.0)


def with_auxiliary():
  return spoilt(loss=lambda params, batch, key: (params.sum(), {}))


def wrong_arguments():
  return spoilt(loss=lambda params, batch: params.sum())


def wrong_shapes():
  return spoilt(test=(X[:, :4], Y))


def no_key():
  return spoilt(init=lambda: jnp.zeros(5))


def whole_numbers():
  return spoilt(init=lambda key: jnp.zeros(5, int))


def no_parameters():
  return spoilt(init=lambda key: None)


def words():
  return spoilt(test=(np.array(['a', 'b']), Y[:2]))


def root():
  score = lambda params, batch: {
    'rmse': jnp.sqrt(jnp.mean((batch[0] @ params - batch[1]) ** 2))
  }
  return spoilt(score=score)


def counted():
  score = lambda params, batch: {'many': jnp.sum(batch[1] < 0)}
  return spoilt(score=score)


def of_batches(function, *arrays):
  score = lambda params, batch: {
    'a': gj.whole_set(function, *(x(batch[1]) for x in arrays))
  }
  return spoilt(score=score)


def whole_of_a_mean():
  return of_batches(np.mean, jnp.mean)


def whole_array():
  return of_batches(lambda y: y, jnp.abs)


def whole_of_another():
  return of_batches(lambda y: 0.0, jnp.abs, jnp.abs)


def no_direction():
  return spoilt(higher_is_better=('r3',))


def a_direction():
  return spoilt(higher_is_better='r2')


@pytest.mark.parametrize(
  'task, words',
  [
    ('no_array', r'task\.loss returns float;'),
    ('with_auxiliary', r'task\.loss returns a tuple of float32\[\]'),
    ('wrong_arguments', r'task\.loss raises TypeError.*2 positional'),
    ('wrong_shapes', r'task\.score raises TypeError.*\(4,\) and \(5,\)'),
    ('no_key', r'task\.init raises TypeError.*0 positional'),
    ('whole_numbers', r'task\.init returns int32\[5\]'),
    ('no_parameters', r'task\.init returns nothing'),
    ('words', 'numbers, not of <U1'),
    ('root', "'rmse' of two examples is not the mean.*whole_set"),
    ('counted', r"'many' of two examples is not the mean.*total"),
    ('whole_of_a_mean', r"'a' is made of float32\[\] for 1"),
    ('whole_array', "function of 'a' raises TypeError"),
    ('whole_of_another', "function of 'a' raises TypeError.*2 were given"),
    ('no_direction', "no score 'r3'; there are far, mae, r2"),
    ('a_direction', r"as \('r2',\)"),
    ('no_scalar', r'task\.loss returns float32\[16\]'),
    ('no_names', 'scores by name'),
    ('no_number', "'each'"),
    ('appearing', "'b' is missing for one example"),
    ('changing', "'a'.*int32.*float32"),
    ('nothing_known', "'a' is NaN.*no NaN or Inf: look at the score itself"),
    ('bad_name', 'top-5'),
    ('no_state', r'task\.init'),
    ('another_state', 'state of the shapes'),
  ],
)
def test_a_wrong_task_is_refused_before_anything_is_written(
  task, words, tmp_path
):
  with pytest.raises(UserError, match=words):
    compare.compare(config(task), tmp_path / 'run')
  assert not (tmp_path / 'run').exists()


def test_a_target_accuracy_needs_a_task_with_accuracy():
  found = config()
  found.variants = {}
  found.cluster = defaults.cluster(asynchronous=False, target_accuracy=0.5)
  with pytest.raises(UserError, match='target_accuracy'):
    check('one', found)


@pytest.mark.parametrize(
  'of_config, of_cluster, conflict',
  [
    ({'target': 0.9}, {'target_score': 'r2', 'target': 0.5}, True),
    ({'target_score': 'mae'}, {'target_score': 'r2', 'target': 0.5}, True),
    (
      {'target_score': 'r2', 'target': 0.5},
      {'target_score': 'r2', 'target': 0.5},
      False,
    ),
    ({'target': 0.5}, {'target_score': 'r2', 'target': 0.5}, False),
    ({'target_score': 'r2'}, {'target_score': 'r2', 'target': 0.5}, False),
  ],
)
def test_targets_of_a_config_and_its_cluster_must_agree(
  of_config, of_cluster, conflict
):
  found = config()
  found.variants = {}
  found.cluster = defaults.cluster(asynchronous=False, **of_cluster)
  for key, value in of_config.items():
    found[key] = value
  if not conflict:
    check('one', found)
    assert scores.goal(found) == ('r2', 0.5)
    return
  with pytest.raises(UserError, match=r'r2 0\.5 and .*; leave one out'):
    check('one', found)


@pytest.mark.parametrize(
  'given, words',
  [
    (
      {'target_score': 'r3', 'target': 0.5},
      'target_score.*named r3; there are far, mae, r2',
    ),
    ({'target': 0.5}, 'cluster.target=0.5 needs'),
    ({'target_score': 'r2', 'target_accuracy': 0.5}, 'both end the run'),
  ],
)
def test_an_invalid_target_of_a_cluster_is_refused(given, words):
  found = config()
  found.variants = {}
  found.cluster = defaults.cluster(asynchronous=False, **given)
  with pytest.raises(UserError, match=words):
    check('one', found)


@pytest.mark.exhaustive
@pytest.mark.parametrize('score, value', [('mae', 0.5), ('r2', 0.5)])
def test_a_run_in_virtual_time_ends_at_a_score_of_the_task(score, value):
  found = config()
  found.variants = {}
  found.update(steps=400, log_every=10, eval_every=10)
  found.cluster = defaults.cluster(
    asynchronous=False, target_score=score, target=value
  )
  variant = check('one', found)
  *before, last = simulate.simulate(variant.run)
  good = lambda record: (
    record.scores[f'test_{score}'] >= value
    if score == 'r2'
    else record.scores[f'test_{score}'] <= value
  )
  assert last.step < 400 and good(last) and not any(map(good, before))
  summary = virtual_time.summarise(variant.run, last)
  assert summary['ended'].startswith(f'reached {score} of 0.5 by its eval')
  assert summary['target_s'] == last.virtual_s


def test_config_json_names_the_scores_of_which_higher_is_better(done):
  saved = json.loads((done[0] / 'config.json').read_text())
  assert saved['higher_is_better'] == ['r2']


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16'])
def test_the_consensus_distance_is_taken_in_float32(dtype):
  params = {'w': jnp.asarray([[-300.0] * 10, [300.0] * 10], dtype)}
  mean, distance = evaluate.mean_and_distance(params)
  assert distance.dtype == jnp.float32 and mean['w'].dtype == dtype
  assert distance == pytest.approx(300 * 10**0.5)
