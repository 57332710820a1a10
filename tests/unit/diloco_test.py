"""DiLoCo and SparseLoCo against NumPy, and their special cases."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import compressors
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.strategies import all_reduce, diloco, local_sgd, sparse_loco
from gossipjax.training import optimizer as optimizers
from gossipjax.transforms import outer_optimizers
from tests.support.quadratics import (
  SIZE,
  close,
  flat,
  gradients,
  run,
  same,
  start,
  train,
  tree,
)

P, H, RATE = 4, 3, 0.1
pytestmark = pytest.mark.usefixtures('compile_quickly')
PLAIN = outer_optimizers.sgd(1.0)
CODECS = {
  '8 bits': compressors.linear(8, 8),
  '4 bits': compressors.linear(4, 8),
  '2 bits': compressors.linear(2, 8),
  'e3m0': compressors.e3m0(8),
}


def decoded(codec, rows):
  message = lambda x: codec.decompress(
    codec.compress(jnp.asarray(x, jnp.float32)), x.size
  )
  return np.stack([np.asarray(message(x), np.float64) for x in rows])


def by_hand(step_outer, codec=compressors.none(), decay=1.0, steps=12):
  """DiLoCo in NumPy; `step_outer(s, v, D) -> (s, v)`."""
  x, s = np.stack([start()] * P), start()
  v, residual = np.zeros_like(s), np.zeros_like(x)
  for t in range(steps):
    x = x - RATE * gradients(x, t)
    if t % H == H - 1:
      wanted = decay * residual + (x - s)
      message = decoded(codec, wanted)
      residual = wanted - message
      s, v = step_outer(s, v, -message.mean(axis=0))
      x = np.stack([s] * P)
    yield x


def nesterov(s, v, d, a=0.7, m=0.9):
  v = m * v + d
  return s - a * (d + m * v), v


def heavy_ball(s, v, d, a=0.7, m=0.3):
  v = m * v + d
  return s - a * v, v


@pytest.mark.parametrize('outer', [nesterov, heavy_ball])
def test_diloco_matches_numpy(outer):
  chosen = getattr(outer_optimizers, outer.__name__)()
  close(train(diloco.strategy(H, chosen)), by_hand(outer))


def test_adam_as_the_outer_optimizer_has_the_usual_decays():
  ours = train(diloco.strategy(1, outer_optimizers.adam(0.1)))
  same(ours, train(diloco.strategy(1, optax.adam(0.1))))


@pytest.mark.exhaustive
@pytest.mark.parametrize('decay', [0.0, 0.9, 1.0])
@pytest.mark.parametrize('codec', CODECS)
def test_compressed_outer_gradients_match_numpy(codec, decay):
  # Rounding may move an entry to the next level; it does not for these values.
  codec = CODECS[codec]
  ours = train(diloco.strategy(H, compressor=codec, decay=decay))
  close(ours, by_hand(nesterov, codec, decay))


@pytest.mark.parametrize('inner', [optax.sgd(RATE, 0.9), optax.adamw(RATE)])
def test_diloco_with_rate_1_and_no_momentum_is_local_sgd(inner):
  close(
    train(diloco.strategy(H, PLAIN), inner),
    train(local_sgd.strategy(H), inner),
  )


@pytest.mark.parametrize('inner', [optax.sgd(RATE), optax.sgd(RATE, 0.9)])
def test_diloco_with_rate_1_at_every_step_is_all_reduce(inner):
  ours = train(diloco.strategy(1, PLAIN), inner)
  close(ours, train(all_reduce.strategy(), inner))


def test_diloco_with_inner_adam_is_not_all_reduce_adam():
  inner = optax.adam(RATE)
  ours = train(diloco.strategy(1, PLAIN), inner)[-1]
  assert abs(ours - train(all_reduce.strategy(), inner)[-1]).max() > 1e-3


@pytest.mark.parametrize('given', [{'exchange': 'two_shot'}, {'decay': 0.5}])
def test_arguments_for_compressed_messages_need_a_compressor(given):
  with pytest.raises(UserError, match='to compressed messages only; set compr'):
    diloco.strategy(H, **given)


@pytest.mark.exhaustive
@pytest.mark.parametrize('decay', [0.0, 0.5, 1.0])
@pytest.mark.parametrize('exchange', diloco.EXCHANGES)
def test_a_lossless_codec_changes_nothing(exchange, decay):
  # Not equal to none(), with which diloco takes an exact mean, not messages.
  lossless = compressors.none()._replace(compress=lambda x, key=None: x + 0.0)
  for codec in (compressors.topk(1.0), lossless):
    method = diloco.strategy(
      H, compressor=codec, decay=decay, exchange=exchange
    )
    found = [*run(method)]
    dense = train(diloco.strategy(H))
    close([x for x, _, _ in found], dense)
    for _, worker, _ in found:
      for residual in jax.tree.leaves(worker.parameters.mean):
        assert not np.any(residual)


@pytest.mark.exhaustive
@pytest.mark.parametrize('exchange', diloco.EXCHANGES)
@pytest.mark.parametrize('codec', CODECS)
def test_compression_leaves_replicas_bit_identical_after_an_exchange(
  codec, exchange
):
  method = diloco.strategy(H, compressor=CODECS[codec], exchange=exchange)
  for step, x in enumerate(train(method, executor='shard_map')):
    if step % H == H - 1:
      np.testing.assert_array_equal(x, np.broadcast_to(x[:1], x.shape))


@pytest.mark.parametrize('exchange', diloco.EXCHANGES)
@pytest.mark.parametrize('codec', CODECS)
def test_with_error_feedback_no_progress_is_lost(codec, exchange):
  method = diloco.strategy(1, PLAIN, CODECS[codec], exchange=exchange)
  local = np.stack([start()] * P)
  moved = np.zeros(SIZE)
  for step, (x, worker, _) in enumerate(run(method)):
    moved -= RATE * gradients(local, step).sum(axis=0)
    local = x.astype(np.float64)
    held = P * (local[0] - start()) + worker.parameters.mean.residual.sum(
      axis=0
    )
    np.testing.assert_allclose(held, moved, atol=1e-5)


def sent_bytes(method):
  *_, (_, _, bill) = run(method, steps=H)
  return int(bill.bytes[0])


def test_bytes_of_an_exchange():
  codec = compressors.linear(4, 8)
  message = SIZE // 2 + 4 * 3
  assert sent_bytes(diloco.strategy(H)) == 2 * (P - 1) * 4 * SIZE // P
  assert sent_bytes(diloco.strategy(H, compressor=codec)) == (P - 1) * message
  two_shot = diloco.strategy(H, compressor=codec, exchange='two_shot')
  share = SIZE // P // 2 + 4  # 6 entries in 4 bits, and one scale.
  assert sent_bytes(two_shot) == 2 * (P - 1) * share


@pytest.mark.exhaustive
def test_sparse_loco_with_a_stepsize_below_1_matches_numpy():
  codec = compressors.chunk_topk(0.25, 8)
  ours = train(sparse_loco.strategy(codec, H, 0.9, 0.4))
  plain = lambda s, v, d: (s - 0.4 * d, v)
  close(ours, by_hand(plain, codec, 0.9))


@pytest.mark.parametrize('over', ['all', 'senders'])
@pytest.mark.parametrize('decay', [0.5, 1.0])
def test_sparse_loco_with_all_entries_is_diloco_without_momentum(over, decay):
  whole = compressors.topk(1.0)
  close(
    train(sparse_loco.strategy(whole, H, decay, 0.4, over)),
    train(diloco.strategy(H, outer_optimizers.sgd(0.4))),
  )


@pytest.mark.parametrize('stepsize', [1.0, 0.4])
def test_sparse_loco_over_all_loses_nothing_if_residuals_do_not_decay(
  stepsize,
):
  codec = compressors.chunk_topk(0.25, 8)
  method = sparse_loco.strategy(codec, 1, 1.0, stepsize, 'all')
  before, moved = np.stack([start()] * P), np.zeros(SIZE)
  for t, (x, worker, _) in enumerate(run(method)):
    moved += RATE * gradients(before, t).mean(axis=0)
    kept = worker.parameters.mean.residual.mean(axis=0)
    held = (start() - x[0]) / stepsize - kept  # Residuals are of x - s.
    np.testing.assert_allclose(held, moved, atol=1e-5)
    before = x.astype(np.float64)


@pytest.mark.exhaustive
@pytest.mark.parametrize('over', ['all', 'senders'])
def test_replicas_of_sparse_loco_are_bit_identical_after_an_exchange(over):
  method = sparse_loco.strategy(period=H, over=over)
  for step, x in enumerate(train(method, executor='shard_map')):
    if step % H == H - 1:
      np.testing.assert_array_equal(x, np.broadcast_to(x[:1], x.shape))


def test_the_mean_over_senders_ignores_workers_that_sent_nothing():
  codec = compressors.topk(1 / SIZE)  # One entry each.
  ((x, *_),) = run(sparse_loco.strategy(codec, 1, over='senders'), steps=1)
  moves = -RATE * gradients(np.stack([start()] * P), 0)
  messages = decoded(codec, moves)
  senders = np.maximum(1, (messages != 0).sum(axis=0))
  expected = start() + messages.sum(axis=0) / senders
  assert senders.max() < P
  np.testing.assert_allclose(x[0], expected, atol=1e-6)


def test_a_config_names_the_outer_optimizer_and_the_codec():
  config = resolve.strategy_config('diloco', period=H)
  config.outer.name, config.outer.stepsize = 'heavy_ball', 0.5
  config.compressor.name, config.compressor.bits = 'linear', 8
  expected = diloco.strategy(
    H, outer_optimizers.heavy_ball(0.5), compressors.linear(8)
  )
  same(train(resolve.strategy(config)), train(expected))


def muon(steps=12):
  return optimizers.make(
    defaults.optimizer('optax.contrib:muon', 0.02), steps=steps
  )


def test_muon_as_the_inner_optimizer_reduces_the_gradient():
  found = train(diloco.strategy(H, PLAIN), muon(30), steps=30)
  gradient_size = lambda x: np.abs(gradients(x, 0).mean(axis=0)).mean()
  assert gradient_size(found[-1]) < 0.8 * gradient_size(np.stack([start()] * P))


@pytest.mark.exhaustive
def test_muloco_with_one_worker_is_muon_with_an_outer_step(a=0.7, m=0.6):
  """The authors' outer form: u <- m u + a D; s <- s - m u - a D."""

  def by_hand():
    inner = muon()
    x = s = jnp.asarray(start(), jnp.float32)
    state, u = inner.init(tree(x)), 0.0
    for t in range(12):
      gradient = jnp.asarray(gradients(np.asarray(x[None], np.float64), t)[0])
      updates, state = inner.update(tree(gradient), state, tree(x))
      x = x + flat(updates)
      if t % H == H - 1:
        moved = s - x
        u = m * u + a * moved
        x = s = s - m * u - a * moved
      yield x[None]

  outer = outer_optimizers.nesterov(a, m)
  close(train(diloco.strategy(H, outer), muon(), workers=1), by_hand())


def test_diloco_with_inner_muon_is_not_all_reduce_muon():
  ours = train(diloco.strategy(1, PLAIN), muon())[-1]
  assert abs(ours - train(all_reduce.strategy(), muon())[-1]).max() > 1e-3
