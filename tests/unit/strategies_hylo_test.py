"""Hylo is equal to a reference in NumPy for each kind of layer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import executors
from gossipjax.errors import UserError
from gossipjax.strategies import hylo

SHAPES = {'bias': (16,), 'conv': (3, 3, 5, 16), 'dense': (30, 11)}
N = 3


def random_trees(seed):
  rng = np.random.default_rng(seed)
  return {
    name: rng.normal(size=(N, *shape)).astype('f4')
    for name, shape in SHAPES.items()
  }


def play(strategy, trees):
  update = executors.on_one_device(
    lambda g, s, step: strategy.gradients.update(g, s, step)
  )
  state = executors.on_one_device(strategy.gradients.init)(trees[0])
  answers = []
  for step, tree in enumerate(trees):
    tree = jax.tree.map(jnp.asarray, tree)
    answer, state, sent = update(tree, state, step=jnp.int32(step))
    answers.append(jax.device_get(answer))
  return answers, jax.device_get(state.residual), sent


def filters(x, rate):
  """`x` with only its most important output filters left."""
  score = np.abs(x).mean(axis=(0, 1, 2))
  kept = np.argsort(-score, kind='stable')[: int(np.ceil(rate * len(score)))]
  return x * np.isin(np.arange(len(score)), kept)


def ternary(x, level, factor=1.0):
  t = factor * np.abs(x).mean()
  scale = t if level == 'threshold' else np.abs(x)[np.abs(x) >= t].mean()
  return scale * np.sign(x) * (np.abs(x) >= t)


@pytest.mark.exhaustive
@pytest.mark.parametrize('level', ['threshold', 'mean'])
def test_each_kind_of_layer_is_compressed_in_its_own_way(level):
  strategy = hylo.strategy(
    min_size=200, level=level, factor=1.2, max_rate=0.5, exponent=1.0
  )
  trees = [random_trees(seed) for seed in range(3)]
  answers, residual, _ = play(strategy, trees)
  codecs = {
    'conv': lambda x: filters(x, 0.5 * 200 / 720),
    'dense': lambda x: ternary(x, level, 1.2),
    'bias': lambda x: x,
  }
  for name, codec in codecs.items():
    withheld = np.zeros_like(trees[0][name])
    for tree, answer in zip(trees, answers, strict=True):
      wanted = tree[name] + withheld
      sent = np.stack([codec(x) for x in wanted])
      withheld = wanted - sent
      for worker in range(N):
        np.testing.assert_allclose(
          answer[name][worker], sent.mean(axis=0), atol=1e-6
        )
    np.testing.assert_allclose(residual[name], withheld, atol=1e-5)


def test_slices_are_whole_kernels_and_equally_many_from_each_server():
  strategy = hylo.strategy(
    min_size=200, unit='slice', max_rate=0.25, min_rate=0.25
  )
  (answer,), residual, _ = play(strategy, [random_trees(0)])
  withheld = (residual['conv'] != 0).reshape(N, 9, 80)
  assert (withheld == withheld[:, :1]).all()
  # Three servers have 27 kernels each; the last of the 81 is padding.
  assert ((~withheld[:, 0, :27]).sum(axis=1) == 7).all()
  np.testing.assert_allclose(
    residual['conv'].sum(axis=0) + N * answer['conv'][0],
    random_trees(0)['conv'].sum(axis=0),
    atol=1e-5,
  )


def test_the_bill_is_a_compressed_push_and_a_dense_pull():
  # Shares of three servers: 15 of 45 entries of 16 filters, of which 8 travel
  # with a bitmap; 110 of 330 entries. The bias of 16 goes round in a ring.
  strategy = hylo.strategy(min_size=200, max_rate=0.5, exponent=0.0)
  *_, sent = play(strategy, [random_trees(0)])
  push = (8 * 15 * 4 + 2) + (28 + 4)
  pull = (15 * 16 + 110) * 4
  ring = -(-4 * 16 * 4 // 3)
  assert set(np.asarray(sent.bytes)) == {2 * (push + pull) + ring}


@pytest.mark.exhaustive
@pytest.mark.parametrize('unit', ['filter', 'slice'])
@pytest.mark.parametrize('level', ['threshold', 'mean'])
def test_a_compressed_pull_loses_nothing_and_sends_less(unit, level):
  settings = dict(min_size=200, unit=unit, level=level)
  trees = [random_trees(seed) for seed in range(3)]
  answers, residual, sent = play(
    hylo.strategy(**settings, pull='compressed'), trees
  )
  for name in SHAPES:
    assert (np.ptp(np.stack([a[name] for a in answers]), axis=1) == 0).all()
    np.testing.assert_allclose(
      N * sum(a[name][0] for a in answers) + residual[name].sum(axis=0),
      sum(tree[name] for tree in trees).sum(axis=0),
      atol=1e-4,
    )
  *_, dense = play(hylo.strategy(**settings), trees[:1])
  assert (np.asarray(sent.bytes) < 0.5 * np.asarray(dense.bytes)).all()


def test_a_min_size_that_excludes_all_layers_is_refused():
  tree = {name: jnp.zeros(shape) for name, shape in SHAPES.items()}
  with pytest.raises(UserError, match=r'min_size=721 .* 720'):
    hylo.strategy(min_size=721).gradients.init(tree)


@pytest.mark.exhaustive
def test_larger_convolutions_send_a_smaller_part_within_bounds():
  kept = {}  # Numbers of filters without residual.
  for exponent in (0.0, 0.5, 8.0):
    strategy = hylo.strategy(
      min_size=90, max_rate=0.75, min_rate=0.125, exponent=exponent
    )
    _, residual, _ = play(strategy, [random_trees(0)])
    kept[exponent] = (residual['conv'][0] == 0).all(axis=(0, 1, 2)).sum()
  # 0.75 * sqrt(90 / 720) = 0.265 of 16 filters.
  assert kept == {0.0: 12, 0.5: 5, 8.0: 2}


@pytest.mark.parametrize(
  'arguments',
  [
    {'unit': 'filters'},
    {'level': 'max'},
    {'factor': 0.0},
    {'exponent': -1.0},
    {'min_rate': 0.6},
    {'max_rate': 2.0},
    {'min_rate': 0.0},
    {'pull': 'dens'},
  ],
)
def test_impossible_settings_are_refused(arguments):
  with pytest.raises(UserError):
    hylo.strategy(**arguments)


def test_servers_answer_in_the_dtype_of_the_gradients():
  """With float32 answers a GPU compiler would send half of the billed bytes."""
  strategy, trees = hylo.strategy(min_size=200), [random_trees(0)]
  half = [jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), trees[0])]
  answers, _, sent = play(strategy, half)
  assert {x.dtype for x in jax.tree.leaves(answers)} == {jnp.dtype('bfloat16')}
  _, _, whole = play(strategy, trees)
  # The bytes of the pull and of the bias are halved.
  dense = sum(np.prod(shape) for shape in SHAPES.values())
  saved = int(whole.bytes[0]) - int(sent.bytes[0])
  assert saved >= 0.9 * dense * 2 * (N - 1) / N
