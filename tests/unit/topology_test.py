"""Graphs against closed forms; gossip on them against mixing matrices W."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import executors, topology
from gossipjax.errors import UserError
from gossipjax.strategies import gossip

SIZES = range(1, 17)
ROUNDS = tuple[topology.Round, ...]


def graphs():
  """Every topology of the module, by name."""
  for name, function in inspect.getmembers(topology, inspect.isfunction):
    kind = inspect.signature(function).return_annotation
    if kind == topology.Topology:
      yield name, function()
    elif kind == ROUNDS and name[0] != '_':
      yield name, function


GRAPHS = dict(graphs())


def rounds_of(name, n):
  """All rounds; none of a hypercube that has to refuse n workers."""
  if name == 'hypercube' and n & (n - 1):
    with pytest.raises(UserError, match=f'hypercube.*workers={n}'):
      GRAPHS[name](n)
    return ()
  return GRAPHS[name](n)


def test_the_graphs_are_found():
  assert {'ring', 'exponential', 'hypercube', 'complete'} <= GRAPHS.keys()


@pytest.mark.parametrize('n', SIZES)
@pytest.mark.parametrize('name', GRAPHS)
def test_rounds_are_doubly_stochastic(name, n):
  for exchanges in rounds_of(name, n):
    w = topology.mixing_matrix(exchanges, n)
    np.testing.assert_allclose(w.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
    assert w.min() >= -1e-12  # The diagonal is 1 minus other weights.


@pytest.mark.parametrize('n', SIZES)
@pytest.mark.parametrize('name', GRAPHS)
def test_every_exchange_is_a_permutation(name, n):
  for exchange in (e for r in rounds_of(name, n) for e in r):
    assert sorted(exchange.source) == list(range(n))


@pytest.mark.parametrize('n', range(2, 17))
@pytest.mark.parametrize('name', GRAPHS)
def test_every_graph_has_a_spectral_gap(name, n):
  if rounds_of(name, n):
    assert topology.spectral_gap(GRAPHS[name], n) > 1e-3


def test_w_of_small_graphs_by_hand():
  by_hand = {
    ('ring', 2): [[1, 1], [1, 1]],
    ('ring', 4): [[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]],
    ('complete', 3): [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
    # Each receives from the worker one hop behind it.
    ('exponential', 4): [
      [1, 0, 0, 1],
      [1, 1, 0, 0],
      [0, 1, 1, 0],
      [0, 0, 1, 1],
    ],
    ('hypercube', 4): [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]],
  }
  for (name, n), w in by_hand.items():
    w = np.asarray(w) / np.sum(w[0])
    np.testing.assert_allclose(
      topology.mixing_matrix(GRAPHS[name](n)[0], n), w, atol=1e-15
    )


@pytest.mark.parametrize('n', range(3, 17))
def test_the_gap_of_a_ring_has_its_closed_form(n):
  eigenvalues = (1 + 2 * np.cos(2 * np.pi * np.arange(1, n) / n)) / 3
  np.testing.assert_allclose(
    topology.spectral_gap(topology.ring, n), 1 - np.abs(eigenvalues).max()
  )


@pytest.mark.parametrize('n', [2, 4, 8, 16])
@pytest.mark.parametrize('graph', [topology.exponential, topology.hypercube])
def test_log_n_rounds_average_exactly_for_powers_of_two(graph, n):
  assert len(graph(n)) == np.log2(n)
  np.testing.assert_allclose(topology.spectral_gap(graph, n), 1, atol=1e-12)


@pytest.mark.parametrize('n', range(2, 17))
def test_one_round_of_a_complete_graph_averages_exactly(n):
  assert len(topology.complete(n)) == 1
  np.testing.assert_allclose(
    topology.spectral_gap(topology.complete, n), 1, atol=1e-12
  )


@pytest.mark.parametrize('n', [3, 5, 6, 7, 12])
def test_an_exponential_graph_of_any_size_has_ceil_log2_n_rounds(n):
  assert len(topology.exponential(n)) == int(np.ceil(np.log2(n)))


@pytest.mark.parametrize('n', [3, 5, 6, 7, 12])
def test_a_hypercube_whose_size_is_no_power_of_two_is_refused(n):
  with pytest.raises(UserError, match=f'hypercube.*power of two.*workers={n}'):
    topology.hypercube(n)


@pytest.mark.exhaustive
@pytest.mark.parametrize('n', [1, 2, 3, 8])
@pytest.mark.parametrize('name', GRAPHS)
def test_gossip_multiplies_with_w(name, n):
  x = np.random.default_rng(0).standard_normal((n, 5), np.float32)
  update = executors.on_one_device(
    lambda x, step: gossip.neighbor_mean(GRAPHS[name]).update(x, (), step)[0]
  )
  for step, exchanges in enumerate(rounds_of(name, n)):
    np.testing.assert_allclose(
      update(x, step=jnp.int32(step)),
      topology.mixing_matrix(exchanges, n) @ x,
      atol=1e-6,
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', GRAPHS)
def test_directed_graphs_are_refused_when_workers_are_missing(name):
  n = 8
  update = lambda x, present: gossip.neighbor_mean(GRAPHS[name]).update(
    x, (), jnp.int32(0), present
  )
  run = lambda: jax.eval_shape(
    executors.on_one_device(update), jnp.ones((n, 5)), jnp.arange(n) < 4
  )
  matrices = [topology.mixing_matrix(r, n) for r in GRAPHS[name](n)]
  if all(np.allclose(w, w.T) for w in matrices):
    run()
  else:
    with pytest.raises(UserError, match=r'directed.*every worker'):
      run()


def test_the_exponential_graph_is_directed_and_the_ring_is_not():
  assert not topology.is_symmetric(topology.exponential(8)[0], 8)
  assert topology.is_symmetric(topology.ring(8)[0], 8)
