"""Decentralised and local methods against NumPy, and their special cases."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import compressors, executors, topology
from gossipjax.aggregator import Strategy, every, identity, stateless
from gossipjax.compressors import cosines
from gossipjax.errors import UserError
from gossipjax.strategies import (
  all_reduce,
  d2,
  demo,
  des_loc,
  diloco,
  gossip,
  gradient_tracking,
  local_sgd,
  noloco,
  pairwise_gossip,
  post_local_sgd,
  relay_sgd,
  slowmo,
  sparta,
)
from gossipjax.topology import mixing_matrix, random_matching
from gossipjax.traffic import SILENCE
from gossipjax.transforms import moments, outer_optimizers
from tests.support.quadratics import (
  SIZE,
  close,
  gradients,
  run,
  same,
  start,
  train,
)

P, H, RATE = 4, 3, 0.1
PLAIN, MOMENTUM = optax.sgd(RATE), optax.sgd(RATE, 0.9)
ALONE = Strategy(identity(), identity())
pytestmark = pytest.mark.usefixtures('compile_quickly')


def bytes_of(method, **given):
  """Worker 0's bytes in each step."""
  return [int(sent.bytes[0]) for _, _, sent in run(method, **given)]


def ring(size):
  """Bytes that a worker sends in a ring all-reduce of `size` bytes."""
  return 2 * (P - 1) * size // P


# NoLoCo


@pytest.mark.exhaustive
def test_noloco_matches_numpy(a=0.5, b=0.7, c=0.9):
  def by_hand():
    x, s, d = np.stack([start()] * P), np.stack([start()] * P), 0.0
    for t in range(12):
      x = x - RATE * gradients(x, t)
      if t % H == H - 1:
        w = mixing_matrix(random_matching()(P)[t // H], P)
        d = a * d - b * w @ (s - x) - c * (s - w @ s)
        s = s + d
        x = s
      yield x

  close(train(noloco.strategy(H, a, b, c)), by_hand())


@pytest.mark.exhaustive
def test_noloco_in_one_group_is_diloco_with_heavy_ball_momentum():
  everyone = gossip.neighbor_mean(topology.complete)
  for pull in (0.7, 1.1):
    outer = noloco.pulled_momentum(0.5, 0.7, pull, everyone)
    close(
      train(Strategy(identity(), every(H, outer)), MOMENTUM),
      train(
        diloco.strategy(H, outer_optimizers.heavy_ball(0.7, 0.5)), MOMENTUM
      ),
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'a, c, together', [(0.5, 1.2, True), (0.9, 1.2, False)]
)
def test_noloco_replicas_stay_together_below_a_limit_of_the_pull(
  a, c, together
):
  """If c < 2 (1 - a^2), here 1.5 and 0.38; a larger c may look harmless."""
  outer = noloco.strategy(1, a, c, c).parameters
  step = executors.on_one_device(lambda x, s, t: outer.update(x, s, t)[:2])
  noise = np.random.default_rng(0).normal(size=(100, 8, 4))
  noise -= noise.mean(axis=1, keepdims=True)
  x = jnp.zeros((8, 4))
  state = executors.on_one_device(outer.init)(x)
  for t, each in enumerate(noise):
    x, state = step(x + jnp.float32(each), state, jnp.full(8, t, jnp.int32))
  spread = float(jnp.std(x - x.mean(axis=0, keepdims=True)))
  assert (spread < 10) == together


def test_noloco_without_momentum_is_pairwise_averaging():
  close(
    train(noloco.strategy(H, 0.0, 1.0, 1.0), MOMENTUM),
    train(pairwise_gossip.strategy(H), MOMENTUM),
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize('pull', [0.3, 0.9])
def test_the_mean_of_noloco_workers_does_not_depend_on_the_pull(
  pull, a=0.5, b=0.7
):
  before = np.stack([start()] * P)
  mean, v, last = start(), np.zeros(SIZE), start()
  for t, (x, *_) in enumerate(run(noloco.strategy(H, a, b, pull))):
    local = before - RATE * gradients(before, t)
    if t % H == H - 1:  # Pulls cancel in each pair.
      v = a * v - b * (last - local.mean(axis=0))
      mean = last = last + v
      np.testing.assert_allclose(x.mean(axis=0), mean, atol=1e-5)
    before = x.astype(np.float64)


@pytest.mark.exhaustive
def test_noloco_sends_one_vector_whatever_the_number_of_workers():
  for workers in (2, 4, 8):
    assert bytes_of(noloco.strategy(1), workers=workers, steps=1) == [4 * SIZE]


# SPARTA


def test_sparta_with_all_entries_averages_at_every_step():
  ours = train(sparta.strategy(1.0), MOMENTUM)
  close(ours, train(local_sgd.strategy(1), MOMENTUM))
  close(ours, train(all_reduce.strategy(), MOMENTUM))
  of_adam = train(sparta.strategy(1.0), ADAM)[-1]
  assert abs(of_adam - train(all_reduce.strategy(), ADAM)[-1]).max() > 1e-3


def test_sparta_keeps_the_mean_and_makes_the_drawn_entries_equal():
  before = np.stack([start()] * P)
  for t, (x, _, sent) in enumerate(run(sparta.strategy(0.25))):
    local = before - RATE * gradients(before, t)
    np.testing.assert_allclose(x.mean(0), local.mean(0), atol=1e-6)
    drawn = (x == x[:1]).all(axis=0)
    assert drawn.sum() == SIZE // 4
    np.testing.assert_allclose(x[:, ~drawn], local[:, ~drawn], atol=1e-6)
    assert int(sent.bytes[0]) == ring(4 * SIZE // 4)
    before = x.astype(np.float64)


@pytest.mark.parametrize('density', [0.25, 0.3])  # 6 of 24 entries, or 7.
def test_sparta_with_a_partition_exchanges_all_entries_then_reshuffles(density):
  count, rounds = int(density * SIZE), 4
  method, before = (
    sparta.strategy(density, partition=True),
    np.stack([start()] * P),
  )
  drawn = []
  for t, (x, _, sent) in enumerate(run(method, steps=2 * rounds)):
    local = before - RATE * gradients(before, t)
    np.testing.assert_allclose(x.mean(0), local.mean(0), atol=1e-6)
    drawn.append((x == x[:1]).all(axis=0))
    assert drawn[-1].sum() == count and int(sent.bytes[0]) == ring(4 * count)
    before = x.astype(np.float64)
  for walk in (drawn[:rounds], drawn[rounds:]):
    times = np.sum(walk, axis=0)
    assert times.min() == 1 and times.sum() == rounds * count
  assert not np.array_equal(drawn[0], drawn[rounds])


# DES-LOC


# Not b2 = 0.999: in f32, 1 - 0.999 has an error of 5e-5. With this eps, the
# rounding of small gradients does not matter.
ADAM = optax.adam(RATE, b2=0.9, eps=0.1)


def local_adam(period, first, second, b1=0.9, b2=0.9, steps=12):
  x = np.stack([start()] * P)
  u, v = np.zeros_like(x), np.zeros_like(x)
  mean = lambda t, every, of: (
    np.broadcast_to(of.mean(0), of.shape) if t % every == 0 else of
  )
  for t in range(1, steps + 1):
    g = gradients(x, t - 1)
    u, v = b1 * u + (1 - b1) * g, b2 * v + (1 - b2) * g**2
    step = u / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + 0.1)
    x = mean(t, period, x - RATE * step)
    u, v = mean(t, first, u), mean(t, second, v)
    yield x


@pytest.mark.parametrize('periods', [(2, 3, 4), (3, 3, 3), (1, 1, 1)])
def test_des_loc_matches_numpy(periods):
  close(train(des_loc.strategy(*periods), ADAM), local_adam(*periods))


def test_des_loc_without_exchanges_of_moments_is_diloco_with_rate_1():
  close(
    train(des_loc.strategy(H, 10**6, 10**6), ADAM),
    train(diloco.strategy(H, outer_optimizers.sgd(1.0)), ADAM),
  )


@pytest.mark.parametrize('first', [1, 5])
def test_des_loc_with_momentum_sgd_at_every_step_is_all_reduce(first):
  ours = train(des_loc.strategy(1, first), MOMENTUM)
  close(ours, train(all_reduce.strategy(), MOMENTUM))


@pytest.mark.parametrize(
  'optimizer, kept',
  [
    (optax.amsgrad(RATE), 'nu_max'),
    (optax.adagrad(RATE), 'sum_of_squares'),
    (optax.contrib.galore(RATE, rank=2), 'projector'),
    (optax.GradientTransformation(lambda p: jnp.ones(3), None), 'an array'),
  ],
)
def test_des_loc_refuses_an_optimizer_whose_arrays_it_cannot_exchange(
  optimizer, kept
):
  with pytest.raises(UserError, match=f'optimizer keeps .*{kept}'):
    train(des_loc.strategy(), optimizer)


def test_des_loc_exchanges_the_moments_of_an_optimizer_with_constants():
  muon = optax.contrib.muon(RATE)
  *_, (x, _, sent) = run(des_loc.strategy(1, 1, 1), optimizer=muon, steps=2)
  assert np.isfinite(np.asarray(x)).all() and np.asarray(sent.bytes).any()
  three = {
    'kernel': jnp.ones((4, 3)),
    'bias': jnp.ones(3),
  }  # Like the constants.
  des_loc.strategy().moments.init(muon.init(three))


def test_des_loc_counts_the_bytes_of_moments():
  method = des_loc.strategy(2, 3, 4)
  each = ring(4 * SIZE)
  assert bytes_of(method, optimizer=ADAM, steps=4) == [
    0,
    each,
    each,
    2 * each,
  ]
  assert bytes_of(method, optimizer=PLAIN, steps=4) == [0, each, 0, each]


# SlowMo, post-local SGD


def test_slowmo_without_momentum_is_local_sgd():
  close(
    train(slowmo.strategy(H, H, 1.0, 0.0), MOMENTUM),
    train(local_sgd.strategy(H), MOMENTUM),
  )


def test_slowmo_at_a_constant_rate_is_diloco_with_heavy_ball_momentum():
  rate = optax.constant_schedule(RATE)
  close(
    train(slowmo.strategy(H, H, 0.8, 0.5, rate), MOMENTUM),
    train(diloco.strategy(H, outer_optimizers.heavy_ball(0.8, 0.5)), MOMENTUM),
  )


def test_slowmo_under_a_schedule_matches_numpy(a=0.8, b=0.5):
  rate = optax.piecewise_constant_schedule(RATE, {4: 0.5, 9: 0.1})

  def by_hand():
    x, s, u = np.stack([start()] * P), start(), 0.0
    for t in range(12):
      now = float(rate(t))
      x = x - now * gradients(x, t)
      if t % 2 == 1:
        x = np.stack([x.mean(axis=0)] * P)
      if t % 4 == 3:
        u = b * u + (s - x.mean(axis=0)) / now
        s = s - a * now * u
        x = np.stack([s] * P)
      yield x

  ours = train(slowmo.strategy(4, 2, a, b, rate), optax.sgd(rate))
  close(ours, by_hand())
  constant = train(slowmo.strategy(4, 2, a, b), optax.sgd(rate))
  assert np.abs(ours[-1] - constant[-1]).max() > 1e-3


def test_slowmo_without_momentum_is_local_sgd_if_the_rate_begins_at_0():
  begins_at_0 = optax.linear_schedule(0.0, RATE, 4)
  found = train(
    slowmo.strategy(1, 1, 1.0, 0.0, begins_at_0), optax.sgd(begins_at_0)
  )
  assert np.isfinite(found[-1]).all()
  close(found, train(local_sgd.strategy(1), optax.sgd(begins_at_0)))


def test_slowmo_keeps_the_progress_of_a_period_that_ends_at_rate_0():
  ends_at_0 = lambda step: jnp.where(step % H == H - 1, 0.0, RATE)
  inner = optax.sgd(ends_at_0)
  found = train(slowmo.strategy(H, H, 1.0, 0.0, ends_at_0), inner)
  assert np.abs(found[-1] - found[0]).max() > 1e-3
  close(found, train(local_sgd.strategy(H), inner))


def test_post_local_sgd_switches_from_all_reduce_to_local_sgd():
  never, at_once = post_local_sgd.strategy(99, H), post_local_sgd.strategy(0, H)
  same(train(never, MOMENTUM), train(all_reduce.strategy(), MOMENTUM))
  same(train(at_once, MOMENTUM), train(local_sgd.strategy(H), MOMENTUM))
  assert [b > 0 for b in bytes_of(post_local_sgd.strategy(4, H))] == [
    *(4 * [True]),
    *(False, True, False, False, True, False, False, True),
  ]


# D^2, gradient tracking


def mixing(graph, lazy=False):
  w = mixing_matrix(graph(P)[0], P)
  return (w + np.eye(P)) / 2 if lazy else w


def test_d2_under_a_schedule_matches_numpy():
  rate = optax.piecewise_constant_schedule(RATE, {5: 0.5})
  w = mixing(topology.ring, lazy=True)

  def by_hand():
    old, x, g_old = None, np.stack([start()] * P), 0.0
    for t in range(12):
      g = float(rate(t)) * gradients(x, t)
      moved = x - g if t == 0 else 2 * x - old - g + g_old
      old, x, g_old = x, w @ moved, g
      yield x

  close(train(d2.strategy(), optax.sgd(rate)), by_hand())


def test_gradient_tracking_matches_numpy():
  w = mixing(topology.ring)

  def by_hand():
    x, y, old = np.stack([start()] * P), 0.0, 0.0
    for t in range(12):
      g = gradients(x, t)
      y = g if t == 0 else w @ y + g - old
      old = g
      np.testing.assert_allclose(y.mean(axis=0), g.mean(axis=0))
      x = w @ (x - RATE * y)
      yield x

  close(train(gradient_tracking.strategy()), by_hand())


def test_d2_and_gradient_tracking_with_exact_averaging_are_all_reduce():
  dense = train(all_reduce.strategy())
  close(train(d2.strategy(topology.complete, lazy=False)), dense)
  close(train(gradient_tracking.strategy(topology.complete)), dense)


def test_d2_refuses_changing_directed_and_unstable_topologies():
  one_way = lambda n: topology.exponential(n)[:1]
  for graph, lazy, words in (
    (topology.exponential, True, 'd2 needs a topology with the same edges'),
    (topology.hypercube, True, 'd2 needs a topology with the same edges'),
    (one_way, True, 'd2 needs a symmetric topology'),
    (topology.ring, False, f'above -1/3, got -0.333 with workers={P}'),
  ):
    with pytest.raises(UserError, match=words):
      train(d2.strategy(graph, lazy))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  ('graph', 'lazy'),
  [
    (topology.complete, True),
    (topology.complete, False),
    (topology.ring, True),
  ],
)
def test_the_mean_of_d2_workers_follows_sgd(graph, lazy):
  before = np.stack([start()] * P)
  for t, (x, *_) in enumerate(run(d2.strategy(graph, lazy=lazy), steps=6)):
    moved = before - RATE * gradients(before, t)
    np.testing.assert_allclose(x.mean(0), moved.mean(0), atol=1e-5)
    before = x.astype(np.float64)


def test_d2_and_gradient_tracking_without_averaging_are_separate_sgd():
  no_neighbors = lambda n: ((topology.Exchange(0.5, tuple(range(n))),),)
  for method in (
    d2.strategy(no_neighbors),
    gradient_tracking.strategy(no_neighbors),
  ):
    close(train(method), train(ALONE))


@pytest.mark.exhaustive
@pytest.mark.parametrize('method', [d2, gradient_tracking, relay_sgd])
def test_different_data_of_workers_cause_no_bias(method):
  # Gossip does not reach the minimum of the mean loss; these methods do.
  gradients_at = lambda x: gradients(np.broadcast_to(x, (P, SIZE)), 0)
  gradient_size = lambda xs: max(
    np.abs(gradients_at(x).mean(axis=0)).max() for x in xs
  )
  # RelaySGD averages old models, so it needs more steps than the others.
  last = lambda method: train(method, steps=400, still=True)[-1]
  found = last(method.strategy())
  assert gradient_size(found) < 0.02 * gradient_size(last(gossip.strategy()))


# RelaySGD


@pytest.mark.parametrize('tree', ['chain', 'binary'])
def test_relay_sgd_averages_models_delayed_by_their_distance(tree):
  workers = 6
  edges = relay_sgd.TREES[tree][0](workers)
  distance = np.full((workers, workers), 99)
  np.fill_diagonal(distance, 0)
  for _ in range(workers):
    for a, b in edges:
      distance[a] = np.minimum(distance[a], distance[b] + 1)
      distance[b] = np.minimum(distance[b], distance[a] + 1)

  def by_hand():
    x = np.stack([start()] * workers)
    models = []
    for t in range(12):
      models.append(x - RATE * gradients(x, t))
      step_of = lambda i, j, t=t: t - max(0, distance[i, j] - 1)
      x = np.stack(
        [
          np.mean(
            [
              models[step_of(i, j)][j] if step_of(i, j) >= 0 else start()
              for j in range(workers)
            ],
            axis=0,
          )
          for i in range(workers)
        ]
      )
      yield x

  close(train(relay_sgd.strategy(tree), workers=workers), by_hand())


def test_relay_sgd_of_two_workers_averages_at_every_step():
  close(
    train(relay_sgd.strategy(), workers=2),
    train(local_sgd.strategy(1), workers=2),
  )


def test_relay_sgd_sends_a_model_and_a_count_to_each_neighbor():
  *_, (_, _, sent) = run(relay_sgd.strategy(), steps=1)
  np.testing.assert_array_equal(
    np.asarray(sent.bytes), (4 * SIZE + 4) * np.array([1, 2, 2, 1])
  )
  with pytest.raises(UserError, match='tree'):
    relay_sgd.strategy('ring')


# DeMo


def test_demo_with_all_coefficients_without_sign_is_all_reduce():
  for over in ('all', 'senders'):
    whole = demo.strategy(16, 4, 0.9, sign=False, over=over)
    close(train(whole), train(all_reduce.strategy()))


def test_demo_with_all_entries_is_sign_sgd_on_the_mean():
  def by_hand():
    x = np.stack([start()] * P)
    for t in range(12):
      x = x - RATE * np.sign(gradients(x, t).mean(axis=0))
      yield x

  found = [*run(demo.strategy(1, 1, 0.9))]
  close([x for x, _, _ in found], by_hand())
  for _, worker, _ in found:
    assert not worker.gradients.residual.any()


@pytest.mark.parametrize('kept', [1, 5, 15])
def test_demo_over_all_loses_nothing_if_its_momentum_does_not_decay(kept):
  method = demo.strategy(kept, 4, 1.0, sign=False, over='all')
  before, moved = np.stack([start()] * P), np.zeros(SIZE)
  for t, (x, worker, _) in enumerate(run(method)):
    moved += RATE * gradients(before, t).mean(axis=0)
    held = worker.gradients.residual.mean(axis=0)
    np.testing.assert_allclose(start() - x[0] + RATE * held, moved, atol=1e-5)
    before = x.astype(np.float64)


@pytest.mark.parametrize('sign', [True, False])
def test_demo_matches_numpy(sign, kept=5, side=4, decay=0.9):
  """Two blocks of 4 x 4 coefficients; half of the second is padding."""
  dct = cosines.matrix(side)

  def largest(block):
    coefficients = dct @ block @ dct.T
    least = np.sort(np.abs(coefficients), axis=None)[-kept]
    return (
      dct.T @ np.where(np.abs(coefficients) >= least, coefficients, 0) @ dct
    )

  def message(d):
    blocks = np.pad(d, (0, 32 - SIZE)).reshape(2, side, side)
    return np.concatenate([largest(b).ravel() for b in blocks])[:SIZE]

  def by_hand():
    x, d = np.stack([start()] * P), np.zeros((P, SIZE))
    for t in range(6):
      d = decay * d + gradients(x, t)
      sent = np.stack([message(row) for row in d])
      d = d - sent
      mean = sent.mean(axis=0)
      x = x - RATE * (np.sign(mean) if sign else mean)
      yield x

  close(
    train(demo.strategy(kept, side, decay, sign, 'all'), steps=6), by_hand()
  )


def test_the_cosine_transform_is_orthonormal_and_maps_a_cosine_to_one_entry():
  dct = cosines.matrix(8)
  np.testing.assert_allclose(dct @ dct.T, np.eye(8), atol=1e-12)
  wave = np.cos(np.pi * (2 * np.arange(8) + 1) * 3 / 16)
  assert np.argmax(np.abs(dct @ wave)) == 3
  np.testing.assert_allclose(np.delete(dct @ wave, 3), 0, atol=1e-12)


def test_demo_sends_k_values_and_k_indices_of_12_bits_per_block():
  (sent,) = bytes_of(demo.strategy(4, 4), steps=1)
  # 4 coefficients of each of two blocks: 24 parameters fill one and a half.
  assert sent == (P - 1) * 2 * (4 * 4 + 4 * 12 // 8)


@pytest.mark.parametrize(
  'make',
  [
    lambda: demo.strategy(0),
    lambda: demo.strategy(17, 4),
    lambda: demo.strategy(1, 65),
    lambda: demo.strategy(own_momentum=1.5),
    lambda: demo.strategy(over='some'),
    lambda: noloco.strategy(momentum=1.0),
    lambda: noloco.strategy(stepsize=math.nan),
    lambda: noloco.strategy(seed=-1).parameters.init({'x': jnp.zeros(3)}),
    lambda: topology.random_matching(-1),
    lambda: topology.random_targets(1, 4, -1),
    lambda: slowmo.strategy(stepsize=math.nan),
    lambda: sparta.strategy(0.0),
    lambda: slowmo.strategy(48, 5),
    lambda: slowmo.strategy(stepsize=0.0),
    lambda: post_local_sgd.strategy(-1),
    lambda: compressors.chunk_topk(bits=4),
  ],
)
def test_impossible_settings_are_refused(make):
  with pytest.raises(UserError):
    make()


def test_des_loc_distinguishes_moments_from_parameters_of_the_same_name():
  class Model(NamedTuple):
    mu: jax.Array
    nu: jax.Array

  opt = optax.adam(0.1).init(Model(jnp.zeros(10), jnp.zeros(10)))
  counted = []
  counting = stateless(
    lambda tree, step, active: (counted.append(len(tree)) or tree, SILENCE)
  )
  for names, fields in ((moments.FIRST, 2), (moments.SECOND, 2)):
    moments.of_moments(names, counting).update(opt, (), 0)
    assert counted.pop() == fields
