"""Delayed exchanges and streaming DiLoCo, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import compressors, executors, topology
from gossipjax.aggregator import Strategy, every, identity
from gossipjax.errors import UserError
from gossipjax.strategies import (
  all_reduce,
  delayed_all_reduce,
  delayed_averaging,
  diloco,
  gossip,
  local_sgd,
  streaming_diloco,
)
from gossipjax.transforms import outer_optimizers
from gossipjax.transforms.delayed import delayed
from gossipjax.transforms.fragments import fragments
from tests.support.quadratics import (
  close,
  gradients,
  run,
  same,
  start,
  train,
)

P, H, RATE = 4, 4, 0.1
MOMENTUM = optax.sgd(RATE, 0.9)
pytestmark = pytest.mark.usefixtures('compile_quickly')


def streaming(**given):
  """Streaming DiLoCo; by default of period H and with the exact mean."""
  given = {'period': H, 'compressor': compressors.none()} | given
  return streaming_diloco.strategy(**given)


@pytest.mark.parametrize('steps', [1, 3])
def test_delayed_averaging_matches_numpy(steps):
  def by_hand():
    x = np.stack([start()] * P)
    changes = [np.zeros_like(x)] * steps
    for t in range(12):
      x = x - RATE * gradients(x, t)
      y = x + sum(changes[t:])
      changes.append(y.mean(axis=0) - y)
      x = x + changes[t]
      yield x

  close(train(delayed_averaging.strategy(1, steps)), by_hand())


@pytest.mark.parametrize('steps', [1, 3])
def test_delayed_averaging_at_every_step_is_delayed_gradient_averaging(steps):
  # x <- x - rate g_i(t) + rate (g_i - mean g)(t - tau), as published.
  def by_hand():
    x, late = np.stack([start()] * P), [np.zeros(24)] * steps
    for t in range(12):
      g = gradients(x, t)
      late.append(g - g.mean(axis=0))
      x = x - RATE * g + RATE * late[t]
      yield x

  close(train(delayed_averaging.strategy(1, steps)), by_hand())


@pytest.mark.parametrize('steps', [1, 2, 5])
def test_delayed_exchanges_at_every_step_reach_consensus(steps):
  gossips = delayed(gossip.neighbor_mean(topology.ring), steps)
  for mix in (gossips, delayed_averaging.strategy(1, steps).parameters):
    update = executors.on_one_device(mix.update)
    x = np.random.default_rng(0).standard_normal((P, 5)).astype('f4')
    mean, state = x.mean(axis=0), executors.on_one_device(mix.init)(x)
    for t in range(20 * steps):
      x, state, _ = update(x, state, step=jnp.int32(t))
    np.testing.assert_allclose(x, [mean] * P, atol=1e-5)


@pytest.mark.parametrize('steps', [1, 2])
def test_delayed_all_reduce_matches_numpy(steps):
  def by_hand():
    x, means = np.stack([start()] * P), [np.zeros(24)] * steps
    for t in range(12):
      means.append(gradients(x, t).mean(axis=0))
      x = x - RATE * means[t]
      yield x

  close(train(delayed_all_reduce.strategy(steps)), by_hand())


def test_a_delay_of_0_changes_nothing_and_a_negative_one_is_refused():
  same(
    train(delayed_averaging.strategy(H, 0), MOMENTUM),
    train(local_sgd.strategy(H), MOMENTUM),
  )
  same(
    train(delayed_all_reduce.strategy(0), MOMENTUM),
    train(all_reduce.strategy(), MOMENTUM),
  )
  with pytest.raises(UserError, match='delay'):
    delayed(identity(), -1)


def test_changes_in_flight_are_part_of_the_state_and_sum_to_zero():
  mean = delayed(every(2, gossip.neighbor_mean(topology.ring)), 3)
  method = Strategy(identity(), mean)
  initial = np.stack([start()] * P)
  for t, (x, worker, _) in enumerate(run(method)):
    if t == 0:
      before = initial
    moved = before - RATE * gradients(before, t)
    np.testing.assert_allclose(x.mean(axis=0), moved.mean(axis=0), atol=1e-6)
    for leaf in jax.tree.leaves(worker.parameters.in_flight):
      np.testing.assert_allclose(leaf.sum(axis=0), 0, atol=1e-6)
    before = x.astype(np.float64)


def test_streaming_with_one_fragment_delay_0_and_alpha_0_is_diloco():
  # Bit by bit with XLA's default settings; with those of the tests, XLA fuses a
  # product and a sum of the outer optimizer in one of the two programs.
  close(
    train(streaming(fragments=1, delay=0, alpha=0.0), MOMENTUM),
    train(diloco.strategy(H, outer_optimizers.nesterov(0.4)), MOMENTUM),
  )


@pytest.mark.parametrize('fragments, delay', [(1, 0), (2, 1), (2, 3)])
def test_streaming_with_alpha_1_trains_as_without_communication(
  fragments, delay
):
  ours = streaming(fragments=fragments, delay=delay, alpha=1.0)
  same(train(ours, MOMENTUM), train(Strategy(identity(), identity()), MOMENTUM))


@pytest.mark.exhaustive
@pytest.mark.parametrize('alpha', [0.0, 0.5])
@pytest.mark.parametrize('delay', [0, 1, 3])
def test_streaming_diloco_matches_numpy(delay, alpha):
  ranges = {0: slice(0, 20), 1: slice(20, 24)}  # The matrix, the vector.

  def by_hand(a=0.4, m=0.9, steps=16):
    x, s = np.stack([start()] * P), start()
    v, in_flight = np.zeros(24), {}
    for t in range(1, steps + 1):
      x = x - RATE * gradients(x, t - 1)
      for f, part in ranges.items():
        since = t - f * H // 2
        if since >= H and since % H == 0:
          in_flight[f] = (s - x)[:, part].mean(axis=0)
        if since - delay >= H and (since - delay) % H == 0:
          v[part] = m * v[part] + in_flight[f]
          s[part] -= a * (in_flight[f] + m * v[part])
          x[:, part] = alpha * x[:, part] + (1 - alpha) * s[part]
      yield x

  close(train(streaming(delay=delay, alpha=alpha), steps=16), by_hand())


def test_fragments_lower_the_peak_but_not_the_sum_of_bytes():
  bytes_of = lambda method: [
    int(sent.bytes[0]) for _, _, sent in run(method, steps=3 * H)
  ][2 * H :]
  whole, parts = bytes_of(streaming(fragments=1)), bytes_of(streaming())
  assert sum(whole) == sum(parts) == max(whole) > max(parts)


def test_fragments_consist_of_whole_layers():
  leaf = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
  net = {
    f'layer{i}': {'bias': leaf(2), 'kernel': leaf(2, 10 * (i + 1))}
    for i in range(5)
  }
  cut = lambda pattern: fragments(net, 2, pattern)
  assert cut('strided') == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7]]
  assert cut('sequential') == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]
  # Layers 4, 1, 0 and 3, 2: 80 and 70 columns.
  assert cut('balanced') == [[0, 1, 2, 3, 8, 9], [4, 5, 6, 7]]
  with pytest.raises(UserError, match='5 layers'):
    fragments(net, 6)
  with pytest.raises(UserError, match='pattern'):
    fragments(net, 2, 'random')


def test_fragments_of_runs_with_adjacent_seeds_have_distinct_seeds(
  monkeypatch,
):
  seeds = []
  mean = lambda *given: seeds.append(given[-1]) or identity()
  monkeypatch.setattr(streaming_diloco, 'progress_mean', mean)
  layers = {'a': {'kernel': jnp.zeros(3)}, 'b': {'kernel': jnp.zeros(4)}}
  for seed in range(3):
    streaming(fragments=2, seed=seed).parameters.init(layers)
  assert len({*seeds}) == 6 and {0, 1, 2} < {*seeds}


@pytest.mark.parametrize('wrong', [{'delay': H}, {'delay': -1}, {'alpha': 1.1}])
def test_impossible_settings_are_refused(wrong):
  with pytest.raises(UserError, match=next(iter(wrong))):
    streaming(**wrong)
