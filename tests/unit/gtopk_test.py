"""gTop-k against NumPy code written from the paper's text, for any P."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import executors
from gossipjax.collectives import WORKERS
from gossipjax.compressors.selections import blockwise
from gossipjax.strategies import gtopk

STEPS = 4
RULES = [
  (conserve, exchange)
  for conserve in (False, True)
  for exchange in ('tree', 'butterfly')
]
pytestmark = pytest.mark.usefixtures('compile_quickly')


def largest(entries, k):
  """The k entries of {index: value} with the largest magnitude; of equal ones
  those with the lower index."""
  order = sorted(entries, key=lambda i: (-abs(entries[i]), i))
  return {i: entries[i] for i in order[:k]}


def merged(a, b, k):
  """The k largest entries of the sum of two messages, and the dropped ones."""
  both = {
    i: np.float32(a.get(i, 0)) + np.float32(b.get(i, 0))
    for i in a.keys() | b.keys()
  }
  kept = largest(both, k)
  return kept, {i: v for i, v in both.items() if i not in kept}


def pairs_of_tree(workers):
  """(receiver, sender) of each round: at distance 1, 2, 4, ... ."""
  for distance in itertools.takewhile(
    lambda d: d < workers, (2**r for r in itertools.count())
  ):
    yield [
      (i, i + distance)
      for i in range(0, workers, 2 * distance)
      if i + distance < workers
    ]


def reduce_by_tree(messages, k):
  """Final entries, dropped entries and messages sent, per worker."""
  workers, held = len(messages), list(messages)
  displaced, sent = [[] for _ in messages], [0] * workers
  for pairs in pairs_of_tree(workers):
    for receiver, sender in pairs:
      held[receiver], lost = merged(held[receiver], held[sender], k)
      displaced[receiver].append(lost)
      sent[sender] += 1  # Up the tree.
      sent[receiver] += 1  # Down the tree, in the broadcast.
  return [held[0]] * workers, displaced, sent


def reduce_by_butterfly(messages, k):
  """As by tree. Workers beyond a power of two send through a partner."""
  workers, held = len(messages), list(messages)
  core = max(2**r for r in range(10) if 2**r <= workers)
  displaced, sent = [[] for _ in messages], [0] * workers
  for i in range(core, workers):
    held[i - core], lost = merged(held[i - core], held[i], k)
    displaced[i - core].append(lost)
    sent[i] += 1
    sent[i - core] += 1
  distance = 1
  while distance < core:
    results = [merged(held[i], held[i ^ distance], k) for i in range(core)]
    for i, (total, lost) in enumerate(results):
      held[i] = total
      sent[i] += 1
      if i % (2 * distance) == 0:  # All drop it, the first keeps it.
        displaced[i].append(lost)
    distance *= 2
  for i in range(core, workers):
    held[i] = held[i - core]
  return held, displaced, sent


def by_hand(grads, residuals, k, conserve, exchange):
  """One step of all workers: means, residuals, final entries, messages sent."""
  wanted = grads + residuals
  mine = [largest(dict(enumerate(a)), k) for a in wanted]
  reduce = {'tree': reduce_by_tree, 'butterfly': reduce_by_butterfly}[exchange]
  finals, displaced, sent = reduce(mine, k)
  means = np.zeros_like(grads)
  for i, final in enumerate(finals):
    for j, value in final.items():
      means[i, j] = value / np.float32(len(grads))
      if j in mine[i]:  # Applied, so no longer in the residual.
        wanted[i, j] = 0
    if conserve:
      for lost in displaced[i]:
        for j in lost.keys() & final.keys():
          wanted[i, j] += lost[j]
  return means, wanted, finals, sent


def compiled(workers, n, k, conserve, exchange):
  """The package's update, `(grads, state, step) -> ...`, and a state."""
  aggregator = gtopk.global_topk_mean(k / n, conserve, exchange)
  state = jax.vmap(aggregator.init, axis_name=WORKERS)(np.zeros((workers, n)))
  return executors.on_one_device(aggregator.update), state


def gradients(workers, n, step):
  """First small integers, for ties, zeros and exact sums; then Gaussian."""
  rng = np.random.default_rng([workers, n, step])
  if step >= STEPS // 2:
    return rng.standard_normal((workers, n), np.float32)
  return rng.integers(-2, 3, (workers, n)).astype(np.float32)


def rounds_of(workers, exchange):
  """Rounds of an exchange; a butterfly has half as many if P = 2^r."""
  up, core = (workers - 1).bit_length(), workers.bit_length() - 1
  return 2 * up if exchange == 'tree' else core + 2 * (up - core)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'workers, n, k',
  [(1, 5, 2), (2, 9, 9), (3, 300, 4), (5, 12, 5), (8, 12, 1), (16, 40, 3)],
)
@pytest.mark.parametrize('conserve, exchange', RULES)
def test_gtopk_matches_the_numpy_code(workers, n, k, conserve, exchange):
  update, state = compiled(workers, n, k, conserve, exchange)
  for step in range(STEPS):
    grads, old = gradients(workers, n, step), np.array(state.residual)
    means, residuals, finals, sent = by_hand(grads, old, k, conserve, exchange)
    got, state, bill = update(grads, state, step=jnp.int32(step))

    # XLA computes x / 3 as x times 1 / 3: off by one in the last place.
    np.testing.assert_array_max_ulp(got, means, maxulp=1)
    for row, final in zip(np.asarray(got), finals, strict=True):
      assert set(np.flatnonzero(row)) == {j for j, v in final.items() if v}
    np.testing.assert_allclose(state.residual, residuals, rtol=0, atol=2e-6)

    np.testing.assert_array_equal(bill.bytes, [8 * k * m for m in sent])
    np.testing.assert_array_equal(bill.messages, sent)
    np.testing.assert_array_equal(bill.rounds, rounds_of(workers, exchange))
    if conserve:
      applied, tolerance = np.asarray(got[0]) * workers, 1e-5
      if step < STEPS // 2:  # Sums of integers are exact.
        applied, tolerance = np.round(applied), 0
      np.testing.assert_allclose(
        applied + np.asarray(state.residual).sum(axis=0),
        (grads + old).sum(axis=0),
        rtol=0,
        atol=tolerance,
      )


def lost(grads, k, **rule):
  """Gradients that are neither applied nor in a residual after one step."""
  workers, n = grads.shape
  update, state = compiled(
    workers, n, k, rule.get('conserve', False), rule.get('exchange', 'tree')
  )
  got, state, _ = update(grads, state, step=jnp.int32(0))
  return (
    grads.sum(axis=0)
    - workers * np.asarray(got[0])
    - np.asarray(state.residual).sum(axis=0)
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize('exchange', gtopk.EXCHANGES)
def test_the_published_rule_loses_3_of_12_in_the_smallest_example(exchange):
  # In the tree workers 0 and 1 merge first, and 4 displaces 3. Then worker 2
  # sends 5 at the index of the 3: the index is in the result, so worker 0 takes
  # its 3 for applied. In the butterfly workers 1 and 2 swap these roles.
  grads = {
    'tree': [[3, 0], [0, 4], [5, 0]],
    'butterfly': [[3, 0], [5, 0], [0, 4]],
  }[exchange]
  grads = np.asarray(grads, np.float32)
  np.testing.assert_array_equal(lost(grads, 1, exchange=exchange), [3, 0])
  np.testing.assert_array_equal(
    lost(grads, 1, exchange=exchange, conserve=True), [0, 0]
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize('exchange', gtopk.EXCHANGES)
def test_no_smaller_example_loses_gradients(exchange):
  # With two workers there is one merge, and the indices that it drops are not
  # in the result; with one entry nothing is ever dropped.
  pairs = np.float32([*itertools.product(range(-2, 3), repeat=4)])
  pairs = pairs.reshape(-1, 2, 2)
  update, state = compiled(2, 2, 1, False, exchange)
  step = jax.vmap(lambda grads: update(grads, state, step=jnp.int32(0))[:2])
  means, states = step(pairs)
  np.testing.assert_array_equal(
    2 * means[:, 0] + states.residual.sum(axis=1), pairs.sum(axis=1)
  )
  np.testing.assert_allclose(
    lost(np.float32([[3], [4], [5]]), 1, exchange=exchange), 0, atol=1e-6
  )


def test_messages_with_unsorted_entries_lose_no_gradients():
  grads = gradients(4, 60, STEPS)
  aggregator = gtopk.global_topk_mean(
    0.2, conserve=True, selection=blockwise.selection()
  )
  state = jax.vmap(aggregator.init, axis_name=WORKERS)(grads)
  got, state, bill = executors.on_one_device(aggregator.update)(
    grads, state, step=jnp.int32(0)
  )
  np.testing.assert_allclose(
    4 * np.asarray(got[0]) + np.asarray(state.residual).sum(axis=0),
    grads.sum(axis=0),
    rtol=0,
    atol=1e-5,
  )
  assert bill.bytes[3] == 8 * 12  # Sent once, up the tree; 4-byte indices.
