"""Modelled seconds of exchanges equal those computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import collectives, executors, network, topology
from gossipjax.aggregator import stateless
from gossipjax.collectives import WORKERS
from gossipjax.errors import UserError
from gossipjax.strategies import (
  all_reduce,
  compressed,
  elastic,
  gossip,
  gtopk,
  topk,
)
from gossipjax.traffic import Traffic

ALPHA, BETA = 0.01, 1e-3  # Seconds per round, seconds per byte.
LINK = network.Link(ALPHA, 1 / BETA)
ENTRIES = 400


def seconds(aggregator, workers, entries=ENTRIES, link=LINK, active=None):
  """Modelled seconds of a step in which all workers, or `active`, exchange."""
  tree = np.random.default_rng(0).standard_normal(
    (workers, entries), np.float32
  )
  state = jax.vmap(aggregator.init, axis_name=WORKERS)(tree)
  step = jnp.int32(0)
  if active is None:
    update = lambda t, s: aggregator.update(t, s, step)[2]
    traffic = executors.on_one_device(update)(tree, state)
  else:
    update = lambda t, s, mask: aggregator.update(t, s, step, mask)[2]
    traffic = executors.on_one_device(update)(tree, state, jnp.asarray(active))
  traffic = jax.tree.map(lambda x: np.asarray(x)[:, None], traffic)
  return float(network.seconds(link, traffic)[0])


@pytest.mark.parametrize('workers', [2, 5, 8])
def test_a_ring_all_reduce_takes_the_time_of_2_p_minus_2_chunks(workers):
  expected = 2 * (workers - 1) * (ALPHA + BETA * 4 * ENTRIES / workers)
  assert seconds(all_reduce.exact_mean(), workers) == pytest.approx(
    expected, rel=1e-12
  )


@pytest.mark.parametrize('workers', [2, 8])
def test_an_all_gather_takes_the_time_of_p_minus_1_messages(workers):
  k = 40
  expected = (workers - 1) * (ALPHA + BETA * 8 * k)
  assert seconds(topk.strategy(0.1).gradients, workers) == pytest.approx(
    expected, rel=1e-12
  )


@pytest.mark.parametrize('workers, depth', [(2, 1), (5, 3), (8, 3)])
@pytest.mark.parametrize(
  'name, entry', [('all_max', 4), ('all_sum', 4), ('agree', 1)]
)
def test_few_numbers_take_a_round_up_and_down_each_level_of_a_tree(
  name, entry, workers, depth
):
  def update(tree, step, active):
    numbers = tree > 0 if name == 'agree' else tree
    return tree, getattr(collectives, name)(numbers, active)[1]

  expected = 2 * depth * (ALPHA + BETA * entry * ENTRIES)
  assert seconds(stateless(update), workers) == pytest.approx(
    expected, rel=1e-12
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize('workers', [2, 4, 8, 16])
def test_gtopk_takes_as_long_as_the_paper_says(workers):
  # 2 alpha log P + 4 k log P beta, beta per number of 4 bytes (section IV).
  k, log_p, per_number = 4, np.log2(workers), 4 * BETA
  expected = 2 * ALPHA * log_p + 4 * k * log_p * per_number
  assert seconds(gtopk.strategy(0.01).gradients, workers) == pytest.approx(
    expected, rel=1e-12
  )


def test_the_published_link_has_the_published_alpha_and_beta():
  link = network.PRESETS['1gbe']
  # k = 25,600 of ResNet-50's 25.6 million, P = 32: 0.436 ms, 9e-6 ms a byte.
  expected = 2 * 0.436e-3 * 5 + 4 * 25600 * 5 * 4 * 9e-9
  got = 10 * link.latency_s + 10 * 8 * 25600 / link.bytes_per_s
  assert got == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize('workers', [2, 8])
def test_a_server_link_carries_the_messages_of_workers_in_turn(workers):
  expected = 2 * (ALPHA + BETA * 4 * ENTRIES * workers)
  assert seconds(elastic.elastic_mean(0.8), workers) == pytest.approx(
    expected, rel=1e-12
  )


def test_a_server_exchanges_with_active_workers_only():
  active = np.arange(8) < 3
  assert seconds(elastic.elastic_mean(0.8), 8, active=active) == pytest.approx(
    2 * (ALPHA + BETA * 4 * ENTRIES * 3), rel=1e-12
  )


def test_both_neighbors_of_a_ring_take_a_round_each():
  assert seconds(gossip.neighbor_mean(topology.ring), 8) == pytest.approx(
    2 * (ALPHA + BETA * 4 * ENTRIES), rel=1e-12
  )


def test_a_single_worker_spends_no_time_on_exchanges():
  assert seconds(all_reduce.exact_mean(), 1) == 0
  assert seconds(compressed.strategy().gradients, 1) == 0


def test_the_slowest_worker_sets_the_pace_of_each_step():
  # Axes: workers, steps.
  traffic = Traffic.of([[1, 50], [9, 2]], [[1, 2], [3, 4]])
  np.testing.assert_allclose(
    network.seconds(network.Link(1.0, 10.0), traffic), [3 + 0.9, 2 + 5]
  )


@pytest.mark.parametrize(
  'latency_s, bytes_per_s',
  [(-1.0, 1.0), (0.0, 0.0), (0.0, -5.0), (0.0, float('nan'))],
)
def test_an_impossible_link_is_refused_with_its_key(latency_s, bytes_per_s):
  with pytest.raises(UserError, match=r'link\.(latency_s|bytes_per_s)='):
    network.link(latency_s, bytes_per_s)


@pytest.mark.parametrize(
  'text',
  [
    '',
    '[]',
    '{"latency_s": 1}',
    '{"latency_s": 1, "bytes_per_s": 1, "full_duplex": "false"}',
    '{"latency_s": 1, "bytes_per_s": 1, "ful_duplex": false}',
    '{"latency_s": true, "bytes_per_s": 1}',
    '{"latency_s": NaN, "bytes_per_s": 1}',
    '{"latency_s": Infinity, "bytes_per_s": 1}',
    '{"latency_s": 1, "bytes_per_s": 1' + '0' * 400 + '}',
    '{"latency_s": "1", "bytes_per_s": 1}',
    '[' * 10**5,
    '\0\xff',
  ],
)
def test_a_file_without_a_valid_link_is_refused(text, tmp_path):
  path = tmp_path / 'link.json'
  path.write_text(text)
  with pytest.raises(UserError, match='link'):
    network.read(str(path))


def test_waiting_times_of_exchanges_equal_those_computed_by_hand():
  # Steps of 10 s hide all exchanges but the last; with late=0 they hide none.
  assert network.waited_seconds([4, 4, 4], 10, late=1) == 4
  assert network.waited_seconds([4, 4, 4], 10, late=0) == 12
  # Exchanges of 15 s: 5 s of each of the first two are waited for, then 15 s.
  assert network.waited_seconds([15, 15, 15], 10, late=1) == 25
  # A single exchange of 25 s: two steps hide 20 s of it, three steps all.
  assert network.waited_seconds([25, 0, 0, 0], 10, late=2) == 5
  assert network.waited_seconds([25, 0, 0, 0], 10, late=3) == 0
  # The second starts when the first ends: 10 + 25 + 25 s, computing 30 s.
  assert network.waited_seconds([25, 25, 0], 10, late=2) == 30
  assert network.waited_seconds([], 10, late=2) == 0


def test_a_half_duplex_link_carries_one_direction_at_a_time():
  link = network.Link(1.0, 10.0, full_duplex=False)
  # The sent and received bytes of a worker's own link decide.
  traffic = Traffic.of([[90], [40]], [[1], [1]], received=[[30], [50]])
  np.testing.assert_allclose(network.seconds(link, traffic), [1 + 12])
  # The busiest link, which is another worker's, decides.
  traffic = Traffic.of([[90]], [[1]], received=[[30]], path_bytes=[[200]])
  np.testing.assert_allclose(network.seconds(link, traffic), [1 + 20])
