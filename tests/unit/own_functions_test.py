"""Functions of the user, which a config names as 'module:function'."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gossipjax as gj
from gossipjax import compressors
from gossipjax.aggregator import Strategy, identity
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.strategies import all_reduce
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train

ME = __name__
X = np.random.default_rng(0).standard_normal((96, 5), np.float32)
Y = X @ np.arange(5, dtype=np.float32)


def line(width: int = 5, examples: int = 64) -> gj.Task:
  """A linear regression; the true slopes are 0 to 4."""
  loss = lambda params, batch: jnp.mean((batch[0] @ params - batch[1]) ** 2)
  return gj.Task(
    init=lambda key: jax.random.normal(key, (width,)),
    loss=lambda params, batch, key: loss(params, batch),
    score=lambda params, batch: {'loss': loss(params, batch)},
    train=(X[:examples], Y[:examples]),
    test=(X[64:], Y[64:]),
  )


def nothing(learning_rate, gain: float = 0.0):
  return optax.scale(gain)


def falling(learning_rate, steps):
  return optax.linear_schedule(learning_rate, 0, steps)


def dense() -> Strategy:
  return Strategy(all_reduce.exact_mean(), identity())


def config(**task):
  found = defaults.get_config()
  found.task = defaults.task(f'{ME}:line', **task)
  found.update(workers=4, steps=3, log_every=3, eval_every=0, executor='vmap')
  return found


def test_a_users_task_is_split_among_workers_and_for_validation():
  found = resolve_run(config(examples=32)).task
  x, y = found.train
  assert x.shape == (4, 8, 5) and y.shape == (4, 8)
  assert {*x.reshape(-1, 5)[:, 0]} == {*X[:32, 0]}
  tuned = config()
  tuned.split = defaults.split(holdout='validation', validation=0.25)
  np.testing.assert_array_equal(resolve_run(tuned).task.test[0], X[48:64])


def test_a_split_by_labels_needs_labels():
  found = config()
  found.split.name = 'label'
  with pytest.raises(UserError, match='need a label'):
    resolve_run(found)


@pytest.mark.exhaustive
def test_strategy_optimizer_and_schedule_may_be_user_functions():
  ours, theirs = config(), config()
  ours.strategy = {'name': f'{ME}:dense'}
  for one, schedule in ((ours, f'{ME}:falling'), (theirs, 'constant')):
    one.optimizer = defaults.optimizer('sgd', 0.1, schedule=schedule)
  (a,), (b,) = (train(resolve_run(c)) for c in (ours, theirs))
  assert a.bytes_sent == b.bytes_sent
  assert 0 < b.train_loss < a.train_loss  # A rate that falls learns less.
  ours.optimizer = defaults.optimizer(f'{ME}:nothing', 0.1)
  ours.optimizer.gain = 0.0
  ours.steps = 1
  run = resolve_run(ours)
  ones = jnp.ones(2)
  updates, _ = run.optimizer.update(ones, run.optimizer.init(ones), ones)
  np.testing.assert_array_equal(updates, [0.0, 0.0])


def wrong():
  return 3


def failing():
  raise KeyError('labels')


@pytest.mark.parametrize(
  'name, message',
  [
    ('no_such_module:make', r'no_such_module.*does not import'),
    (f'{ME}:lin', r"did you mean 'line'"),
    (f'{ME}:wrong', r'returned int.*Task'),
    (
      f'{ME}:failing',
      r"task: failing raises KeyError: 'labels'; run with --debug",
    ),
    (f'{ME}:line:x', r'has no function'),
  ],
)
def test_an_unusable_task_function_ends_with_an_error_message(name, message):
  found = config()
  found.task = {'name': name}
  with pytest.raises(UserError, match=message):
    resolve_run(found)


def stepping(learning_rate, steps):
  return lambda step: learning_rate if step < 3 else 0.0


def of_all_steps(learning_rate, steps):
  return lambda step: jnp.linspace(learning_rate, 0, steps)


@pytest.mark.parametrize(
  'name, message',
  [
    ('stepping', ' of a step raises TracerBoolConversionError'),
    ('of_all_steps', ' returns no single number for a step'),
    ('wrong_rate', ' returns float; it has to return a function of the step'),
  ],
)
def test_a_faulty_schedule_is_named_instead_of_the_optimizer(name, message):
  found = config()
  found.optimizer = defaults.optimizer('sgd', 0.1, schedule=f'{ME}:{name}')
  with pytest.raises(
    UserError, match=f'optimizer.schedule={ME}:{name}{message}'
  ):
    resolve_run(found)


def wrong_rate(learning_rate, steps):
  return learning_rate


def test_wrong_task_arguments_end_with_an_error_message():
  found = config()
  for key, value, words in (
    ('widht', 3, "did you mean 'width'"),
    ('width', 'wide', 'wrong type'),
  ):
    found.task = {'name': f'{ME}:line', key: value}
    with pytest.raises(UserError, match=words):
      resolve_run(found)


def test_a_config_file_cannot_set_an_argument_that_a_task_lacks():
  with pytest.raises(UserError, match=r"no argument 'widht'.*'width'"):
    defaults.task(f'{ME}:line', widht=3)


def test_arrays_of_different_lengths_or_no_arrays_are_refused():
  found = config(examples=64)
  task = line()
  for train_, words in (((X[:9], Y[:8]), '8 and 9'), ((), 'no examples')):
    with pytest.raises(UserError, match=words):
      gj.tasks.shares.share_out(task._replace(train=train_), 2, found.seed)


def halves() -> compressors.Compressor:
  return compressors.topk(0.5)


def named(name: str = 'a') -> Strategy:
  return dense()


def paced(rate: float = 0.5) -> Strategy:
  assert isinstance(rate, float)
  return dense()


def test_a_part_of_a_strategy_may_be_a_user_function():
  mine = resolve.strategy_config('compressed')
  mine.compressor = {'name': f'{ME}:halves'}
  theirs = resolve.strategy_config('compressed')
  theirs.compressor = {'name': 'topk', 'density': 0.5}
  found = config()
  records = []
  for strategy in (mine, theirs):
    found.strategy = strategy
    records.append(list(train(resolve_run(found)))[-1])
  assert records[0].train_loss == records[1].train_loss
  level = resolve.strategy_config('hierarchical', period=1)
  level.outer = {'name': f'{ME}:dense'}
  assert resolve.strategy(level).gradients != identity()
  level.outer = {'name': f'{ME}:halves'}
  with pytest.raises(UserError, match=r'halves returned .* return a Strategy'):
    resolve.strategy(level)


def test_a_user_function_may_have_an_argument_rate_but_not_name():
  with pytest.raises(UserError, match='its argument `name` cannot be set'):
    resolve.strategy_config(f'{ME}:named')
  mine = resolve.strategy_config(f'{ME}:paced', rate=0.25)
  assert resolve.strategy(mine, rate=optax.constant_schedule(0.1))
