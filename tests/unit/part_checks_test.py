"""Error messages about a user's own faulty strategy or optimizer."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gossipjax as gj
from gossipjax.aggregator import Aggregator, Strategy, identity, stateless
from gossipjax.comparison import in_python
from gossipjax.comparison.variant import check
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.traffic import SILENCE

ME = __name__
X = np.random.default_rng(0).standard_normal((96, 5), np.float32)
FEW = {'workers': 4, 'steps': 1, 'executor': 'vmap'}


def line(pack=lambda x: x, unpack=lambda tree: tree) -> gj.Task:
  loss = lambda params, batch: jnp.mean(batch @ unpack(params))
  return gj.Task(
    init=lambda key: pack(jnp.zeros(5)),
    loss=lambda params, batch, key: loss(params, batch),
    score=lambda params, batch: {'loss': loss(params, batch)},
    train=X[:64],
    test=X[64:],
  )


def config():
  found = defaults.get_config()
  found.task = {'name': f'{ME}:line'}
  found.update(FEW)
  return found


def compared(strategy, optimizer, task=None):
  return gj.compare(
    task or line(), {'mine': strategy}, optimizer=optimizer, **FEW
  )


def of_gradients(update) -> Strategy:
  return Strategy(stateless(update), identity())


def scalar() -> Strategy:
  mean = lambda tree: jax.tree.map(jnp.mean, tree)
  return of_gradients(lambda tree, step, active: (mean(tree), SILENCE))


def rounding() -> Strategy:
  short = lambda tree: jax.tree.map(jnp.bfloat16, tree)
  return of_gradients(lambda tree, step, active: (short(tree), SILENCE))


def forgetful() -> Strategy:
  return of_gradients(lambda tree, step, active: ([], SILENCE))


def unbilled() -> Strategy:
  return of_gradients(lambda tree, step, active: (tree, None))


def dividing() -> Strategy:
  return of_gradients(lambda tree, step, active: 1 // 0)


def unprepared() -> Strategy:
  return Strategy(identity(), Aggregator(lambda tree: {}['m'], None))


def growing() -> Strategy:
  update = lambda tree, state, step, active=True: (tree, [state] * 2, SILENCE)
  return Strategy(identity(), Aggregator(lambda tree: [jnp.zeros(2)], update))


def incomplete() -> Strategy:
  return Strategy(identity(), None)


def eager() -> Strategy:
  return Strategy(identity(), identity(), lambda workers: identity())


def divided() -> Strategy:
  return Strategy(identity(), identity(), lambda workers: workers // 0)


@pytest.mark.parametrize(
  'name, message',
  [
    ('incomplete', 'parameters is NoneType; it takes an Aggregator, such as'),
    (
      'scalar',
      r'gradients\.update returns float32\[\] as tree, .* float32\[5\]',
    ),
    ('rounding', r'gradients\.update returns bfloat16\[5\] as tree, which was'),
    (
      'forgetful',
      r'gradients\.update returns nothing as tree, which was float',
    ),
    ('unbilled', r'gradients\.update returns NoneType where its Traffic'),
    ('dividing', r'gradients\.update raises ZeroDivisionError: .*--debug'),
    ('unprepared', r"parameters\.init raises KeyError: 'm'; run with --debug"),
    ('growing', r'parameters\.update returns .* as state\[0\]'),
  ],
)
def test_a_faulty_strategy_is_refused_before_training(name, message):
  found = config()
  found.strategy = {'name': f'{ME}:{name}'}
  with pytest.raises(UserError, match=f'strategy.name={ME}:{name}: {message}'):
    check('mine', found)
  with pytest.raises(UserError, match=f"strategy 'mine': {message}"):
    compared(globals()[name](), optax.sgd(0.1))


@pytest.mark.parametrize(
  'name, message',
  [
    ('eager', 'returns Aggregator; it has to return an AsyncExchange'),
    ('divided', 'raises ZeroDivisionError: .*--debug'),
  ],
)
def test_a_faulty_async_exchange_is_refused_before_training(name, message):
  found = config()
  found.strategy = {'name': f'{ME}:{name}'}
  found.cluster = defaults.cluster(asynchronous=True)
  whose = f'strategy.name={ME}:{name}.async_exchange'
  with pytest.raises(UserError, match=f'{whose} {message}'):
    check('mine', found)


def test_a_list_in_place_of_a_tuple_is_refused():
  task = line(lambda x: (x,), lambda tree: tree[0])
  mine = of_gradients(lambda tree, step, active: ([*tree], SILENCE))
  with pytest.raises(UserError, match='keep the structure of the tree'):
    compared(mine, optax.sgd(0.1), task)


def first_of_all(learning_rate):
  first = lambda tree: jax.tree.map(lambda x: x[0], tree)
  return optax.stateless(lambda updates, params: first(updates))


def prepared_by_name(learning_rate):
  return optax.GradientTransformation(lambda params: {}['w'], None)


def counting(learning_rate):
  return optax.GradientTransformation(
    lambda params: 0, lambda updates, state, params=None: (updates, state + 0.5)
  )


def searching(learning_rate):
  return optax.lbfgs()


@pytest.mark.parametrize(
  'name, message',
  [
    ('first_of_all', r'returns shape \[\] as updates, which was shape \[5\]'),
    ('prepared_by_name', "raises KeyError: 'w'; run with --debug"),
    ('counting', r'returns float32\[\] as state.*, which was int32\[\]'),
    ('searching', 'needs more than gradients and parameters'),
  ],
)
def test_a_faulty_optimizer_is_refused_before_training(name, message):
  found = config()
  found.optimizer = defaults.optimizer(f'{ME}:{name}', 0.1)
  del found.optimizer['weight_decay']
  with pytest.raises(UserError, match=f'optimizer.name={ME}:{name}.*{message}'):
    check('mine', found)
  with pytest.raises(UserError, match=f'the optimizer {message}'):
    compared(gj.all_reduce(), globals()[name](0.1))


def test_an_optimizer_may_refer_to_parameters_by_name(monkeypatch):
  begun = []
  monkeypatch.setattr(
    in_python.comparison, 'of_variants', lambda *given, **_: begun.append(given)
  )
  task = line(lambda x: {'slopes': x}, lambda tree: tree['slopes'])
  by_name = optax.partition({'a': optax.sgd(0.1)}, {'slopes': 'a'})
  compared(gj.all_reduce(), by_name, task)
  assert begun
