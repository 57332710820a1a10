"""Layers, buckets and shards of a tree are exchanged separately."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossipjax import executors
from gossipjax.config import resolve
from gossipjax.errors import UserError
from gossipjax.strategies import compressed, random_k, topk
from gossipjax.transforms.granularity import bucket, buckets, layer, shards
from gossipjax.transforms.shards import cut, joined
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')

SHAPES = {'a': (40, 5), 'b': (30,), 'c': (60,), 'd': (300,)}


def trees(workers=3):
  rng = np.random.default_rng(0)
  return {
    name: rng.standard_normal((workers, *shape), np.float32)
    for name, shape in SHAPES.items()
  }


def exchange(name, tree, **arguments):
  """Mean and traffic of the second step, with a residual from the first one."""
  mean = resolve.strategy(resolve.strategy_config(name, **arguments)).gradients
  state = executors.on_one_device(mean.init)(tree)
  update = executors.on_one_device(lambda x, s, step: mean.update(x, s, step))
  for step in range(2):
    output, state, sent = update(tree, state, step=jnp.int32(step))
  return jax.device_get((output, sent))


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 120))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_buckets_are_filled_greedily_and_keep_all_tensors_in_order(
  sizes, limit
):
  found = buckets(sizes, bucket(limit))
  assert [i for members in found for i in members] == list(range(len(sizes)))
  full = [sum(sizes[i] for i in members) for members in found]
  assert all(
    len(b) == 1 or f <= limit for b, f in zip(found, full, strict=True)
  )
  assert all(
    f + sizes[b[0]] > limit for f, b in zip(full[:-1], found[1:], strict=True)
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name, arguments, messages',
  [
    ('topk', {'density': 0.1}, 2),
    ('compressed', {}, 2),
    exhaustive('gtopk', {'density': 0.1}, 2),
    exhaustive('double_squeeze', {}, 4),
    exhaustive('exact_global_topk', {'density': 0.1}, 2),
    exhaustive('dgc', {'density': 0.1}, 2),
    exhaustive('ok_topk', {'density': 0.1}, 8),
    exhaustive('union_topk', {'density': 0.1}, 8),
  ],
)
def test_each_layer_is_exchanged_separately_with_its_own_messages(
  name, arguments, messages
):
  tree = {k: x for k, x in trees().items() if k in 'ab'}
  output, sent = exchange(name, tree, granularity='layer', **arguments)
  alone = [exchange(name, {k: x}, **arguments) for k, x in tree.items()]
  for k, (expected, _) in zip(tree, alone, strict=True):
    np.testing.assert_array_equal(output[k], expected[k])
  for field in ('bytes', 'messages', 'rounds'):
    assert getattr(sent, field)[0] == sum(
      getattr(traffic, field)[0] for _, traffic in alone
    )
  assert sent.messages[0] == len(tree) * messages


@pytest.mark.exhaustive
@pytest.mark.parametrize('granularity', ['layer', {'name': 'bucket'}])
def test_a_tensor_without_entries_does_not_change_the_exchange(granularity):
  tree = {k: x for k, x in trees().items() if k in 'ab'}
  empty = {**tree, 'aa': np.zeros((len(tree['a']), 0, 3), 'f4')}
  plain, less = exchange('topk', tree, granularity=granularity, density=0.1)
  output, sent = exchange('topk', empty, granularity=granularity, density=0.1)
  assert output.pop('aa').shape == empty['aa'].shape
  for name, expected in plain.items():
    np.testing.assert_array_equal(output[name], expected)
  assert sent.bytes[0] == less.bytes[0]


@pytest.mark.exhaustive
def test_dgc_clips_by_the_norm_of_the_whole_model_with_layers_too():
  tree = trees()
  norm = sum((x.reshape(3, -1) ** 2).sum(axis=1) for x in tree.values()) ** 0.5
  clipped = {k: (x.T * 5 / 3**0.5 / norm).T for k, x in tree.items()}
  cut = {'density': 0.1, 'granularity': 'layer'}
  expected, _ = exchange('dgc', clipped, **cut)
  for k, output in exchange('dgc', tree, clip=5.0, **cut)[0].items():
    np.testing.assert_allclose(output, expected[k], atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'granularity, count',
  [
    ('model', 1),
    ('layer', 4),
    ({'name': 'bucket', 'bytes': 920}, 3),
    ({'name': 'bucket', 'bytes': 1000}, 3),
    ('bucket', 1),
  ],
)
def test_messages_are_those_of_one_exchange_times_the_buckets(
  granularity, count
):
  _, sent = exchange('random_k', trees(), density=0.1, granularity=granularity)
  assert sent.messages[0] == 2 * 2 * count


def test_one_bucket_of_all_tensors_equals_granularity_model():
  for a, b in zip(
    *(
      jax.tree.leaves(exchange('qsgd', trees(), granularity=g))
      for g in ('model', {'name': 'bucket', 'bytes': 10**6})
    ),
    strict=True,
  ):
    np.testing.assert_array_equal(a, b)


def test_buckets_draw_different_random_numbers():
  tree = {k: np.ones((3, 1000), np.float32) for k in 'ab'}
  output, _ = exchange('random_k', tree, density=0.1, granularity='layer')
  assert (output['a'] != output['b']).any()
  alone = lambda k, seed: exchange(
    'random_k', {k: tree[k]}, density=0.1, seed=seed
  )[0][k]
  np.testing.assert_array_equal(output['a'], alone('a', 0))
  # The second bucket does not draw the numbers of the next seed either.
  assert (output['b'] != alone('b', 1)).any()


@pytest.mark.parametrize(
  'granularity, remedy',
  [
    ('layr', "'layer'"),
    ({'name': 'bucket', 'bytes': 0}, 'at least 1 byte'),
    ({'bytes': 920}, 'needs strategy.granularity.name'),
    (920, 'granularity.name takes bucket, layer, model'),
  ],
)
def test_an_unknown_granularity_is_refused(granularity, remedy):
  with pytest.raises(UserError, match=remedy):
    exchange('topk', trees(), granularity=granularity)


def test_strategies_document_granularity_as_an_optional_argument():
  for strategy in (topk.strategy, compressed.strategy, random_k.strategy):
    parameter = inspect.signature(strategy).parameters['granularity']
    assert parameter.default is not parameter.empty
    assert '\ngranularity: ' in inspect.getdoc(strategy)
  strategy = topk.strategy(0.5, granularity=layer())
  state = strategy.gradients.init({'a': np.ones(4), 'b': np.ones(6)})
  assert [part.residual.size for part in state] == [4, 6]


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['topk', 'qsgd'])
def test_each_shard_is_exchanged_separately(name):
  tree = trees()
  output, sent = exchange(name, tree, granularity=shards(2))
  # Halves of the longest axes, which have 40, 30, 60 and 300 entries.
  half = lambda i: {
    key: np.split(x, 2, axis=1)[i].copy() for key, x in tree.items()
  }
  (first, sent_0), (second, sent_1) = (
    exchange(name, half(i)) for i in range(2)
  )
  for key, x in output.items():
    both = np.concatenate([first[key], second[key]], axis=1)
    np.testing.assert_allclose(x, both, rtol=1e-6, atol=1e-6)
  for field in ('bytes', 'messages', 'path_bytes'):
    both = [np.asarray(getattr(s, field)) for s in (sent_0, sent_1)]
    np.testing.assert_array_equal(getattr(sent, field), sum(both))
  np.testing.assert_array_equal(sent.rounds, sent_0.rounds)  # In parallel.


@pytest.mark.exhaustive
@given(st.lists(st.integers(0, 7), max_size=3), st.integers(1, 5))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_joined_shards_restore_the_tensor(shape, number):
  x = jnp.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
  pieces = cut({'x': x}, number)
  assert pieces['x'].shape[0] == number
  np.testing.assert_array_equal(joined(pieces, {'x': x})['x'], x)


@pytest.mark.parametrize('number', [0, 4096])
def test_no_shards_and_too_many_are_refused(number):
  with pytest.raises(UserError, match=r'granularity\.number'):
    shards(number)
