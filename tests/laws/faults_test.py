"""The laws can fail: each fault breaks a law that holds without the fault."""

import ast
import inspect
import pathlib

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from gossipjax import collectives, compressors, topology
from gossipjax.aggregator import Aggregator, Strategy, identity
from gossipjax.collectives import WORKERS
from gossipjax.compressors.selections import reused
from gossipjax.strategies import (
  all_reduce,
  compressed,
  elastic,
  gossip,
  gtopk,
  parameter_server,
)
from gossipjax.traffic import Traffic
from tests.support import laws

pytestmark = [
  pytest.mark.exhaustive,  # They test the tests.
  pytest.mark.usefixtures('compile_quickly'),
]

MEAN = all_reduce.exact_mean()
TOPK = compressed.compressed_mean(compressors.topk(0.01))
REUSED = compressed.compressed_mean(compressors.topk(0.01, reused.selection(2)))
GTOPK = gtopk.global_topk_mean(0.01, conserve=True)
ELASTIC = elastic.elastic_mean(0.8)
SERVER = parameter_server.push_pull()
RING = gossip.neighbor_mean(topology.ring)
DIRECTED = gossip.neighbor_mean(topology.exponential)
_all_reduce, _send = collectives.all_reduce, collectives.send


def after(aggregator, spoil):
  """The same aggregator, whose results `spoil` changes."""

  def update(tree, state, step, active=True):
    return spoil(tree, state, *aggregator.update(tree, state, step, active))

  return Aggregator(aggregator.init, update)


def with_a_key(aggregator):
  """The same aggregator, with large integers in its state."""
  key = jnp.uint32(2**31) + jax.random.key_data(jax.random.key(3))
  return Aggregator(lambda tree: key, aggregator.update)


def before(aggregator, spoil):
  """The same aggregator; `spoil` changes its state, step and attendance."""

  def update(tree, state, step, active=True):
    return aggregator.update(tree, *spoil(state, step, active))

  return Aggregator(aggregator.init, update)


def of_finite_entries(aggregator):
  """The same aggregator, which takes NaN and infinities for 0."""

  def update(tree, state, step, active=True):
    finite = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0), tree)
    return aggregator.update(finite, state, step, active)

  return Aggregator(aggregator.init, update)


def negative_all_reduce(tree, active=True):
  total, count, sent = _all_reduce(tree, active)
  return jax.tree.map(jnp.negative, total), count, sent


def reversed_send(tree, pairs, active=True):
  return _send(tree, [(t, s) for s, t in pairs], active)


def one_way_bill(tree, pairs, active=True):
  theirs, arrived, sent = _send(tree, pairs, active)
  return (
    theirs,
    arrived,
    sent + Traffic.of(1, 1, received=0, rounds=0, path_bytes=1),
  )


def of_my_own_device(tree, *_):
  """A bug of JAX: under vmap, all_to_all of an unbatched array is wrong."""
  table = lax.all_to_all(jnp.arange(float(laws.N)), WORKERS, 0, 0)
  return jax.tree.map(lambda x: x + table.sum(), tree)


def nothing_lost(everyone=True):
  return lambda a: laws.nothing_is_lost(laws.record(a, everyone))


def multiplies_with(graph, everyone=True):
  return lambda a: laws.gossip_multiplies_with_w(
    laws.record(a, everyone), graph
  )


def left_alone(a):
  laws.absent_are_left_alone(laws.record(a, everyone=False))


def pay_nothing(a):
  laws.absent_pay_nothing(laws.record(a, everyone=False))


def balance(a):
  laws.bills_balance(laws.record(a), laws.is_served(a))


def shows(bad):
  return lambda a: laws.what_is_no_number_shows(a, bad, whole=False)


def agree(a):
  events = laws.record(a)
  laws.executors_agree(events, laws.replay(a, events, 'shard_map'))


def keep_dtypes(a):
  laws.shapes_and_dtypes_are_kept(a, jnp.float32, jnp.bfloat16, jnp.bfloat16)


def identical(a):
  for params in laws.train(Strategy(a, identity())):
    laws.replicas_are_identical(params)


def talks(a):
  laws.someone_talks(laws.record(a))


def doubled(graph):
  return lambda n: tuple(
    tuple(e._replace(weight=1.1 * e.weight) for e in r) for r in graph(n)
  )


def replaced(**fields):
  return lambda tree, old, new, state, sent: (
    new,
    state._replace(**{k: f(old, state) for k, f in fields.items()}),
    sent,
  )


# Fault: (the law that detects it, a healthy aggregator, the broken one).
BROKEN = {
  'error feedback that forgets': (
    nothing_lost(),
    TOPK,
    after(TOPK, replaced(residual=lambda old, s: jnp.zeros_like(s.residual))),
  ),
  'error feedback that grows': (
    nothing_lost(),
    GTOPK,
    after(GTOPK, replaced(residual=lambda old, s: s.residual * 1.01)),
  ),
  'a mean that doubles, beside a key of random numbers': (
    nothing_lost(),
    MEAN,
    with_a_key(
      after(
        MEAN,
        lambda tree, old, new, s, sent: (
          jax.tree.map(lambda x: 2 * x, new),
          s,
          sent,
        ),
      )
    ),
  ),
  'center pushed the wrong way': (
    nothing_lost(),
    ELASTIC,
    after(
      ELASTIC,
      replaced(
        center=lambda old, s: jax.tree.map(
          lambda a, b: 2 * a - b, old.center, s.center
        )
      ),
    ),
  ),
  'staleness that is dropped': (
    nothing_lost(False),
    SERVER,
    before(
      SERVER,
      lambda s, step, active: (s._replace(pulled=s.center), step, active),
    ),
  ),
  'weights that are wrong': (
    multiplies_with(topology.ring),
    RING,
    gossip.neighbor_mean(doubled(topology.ring)),
  ),
  'rounds in the wrong order': (
    multiplies_with(topology.exponential),
    DIRECTED,
    before(DIRECTED, lambda s, step, active: (s, step + 1, active)),
  ),
  'absence that is ignored': (
    left_alone,
    RING,
    before(RING, lambda s, step, active: (s, step, True)),
  ),
  'absence whose memory is emptied': (
    left_alone,
    TOPK,
    after(
      TOPK,
      replaced(
        residual=lambda old, s: jnp.where(
          (s.residual == old.residual).all(), 0, s.residual
        )
      ),
    ),
  ),
  'absence whose selection goes on': (
    left_alone,
    REUSED,
    after(
      REUSED,
      replaced(past=lambda old, s: jax.tree.map(lambda x: x + 1, s.past)),
    ),
  ),
  'absence that is charged': (
    pay_nothing,
    RING,
    after(
      RING,
      lambda tree, old, new, s, sent: (
        new,
        s,
        sent + Traffic.of(0, 0, rounds=1),
      ),
    ),
  ),
  'absence that gossip ignores': (
    multiplies_with(topology.ring, False),
    RING,
    before(RING, lambda s, step, active: (s, step, True)),
  ),
  'numbers of the emulation': (
    agree,
    RING,
    after(
      RING, lambda tree, old, new, s, sent: (of_my_own_device(new), s, sent)
    ),
  ),
  'a bill of the emulation': (
    agree,
    RING,
    after(
      RING,
      lambda tree, old, new, s, sent: (
        new,
        s,
        sent
        * jnp.int32(WORKERS in jax.sharding.get_abstract_mesh().manual_axes),
      ),
    ),
  ),
  'a tree that is widened': (
    keep_dtypes,
    MEAN,
    after(
      MEAN,
      lambda tree, old, new, s, sent: (
        jax.tree.map(lambda x: x.astype(jnp.float32), new),
        s,
        sent,
      ),
    ),
  ),
  'replicas that differ in a bit': (
    identical,
    MEAN,
    after(
      MEAN,
      lambda tree, old, new, s, sent: (
        jax.tree.map(
          lambda x: (
            x * jnp.where(lax.axis_index(WORKERS) == 0, 1 + laws.EPS, 1)
          ),
          new,
        ),
        s,
        sent,
      ),
    ),
  ),
  'a NaN that is hidden': (shows(jnp.nan), TOPK, of_finite_entries(TOPK)),
  'an infinity that is hidden': (
    shows(jnp.inf),
    TOPK,
    of_finite_entries(TOPK),
  ),
  'silence': (talks, MEAN, identity()),
}

# Fault: (the law that detects it, an aggregator, the broken function of
# collectives and its replacement).
BREAKS = {
  'a sign that is flipped': (
    nothing_lost(),
    MEAN,
    'all_reduce',
    negative_all_reduce,
  ),
  'a permutation that is reversed': (
    multiplies_with(topology.exponential),
    DIRECTED,
    'send',
    reversed_send,
  ),
  'a message that nobody receives': (balance, RING, 'send', one_way_bill),
}


@pytest.mark.parametrize('fault', BROKEN)
def test_a_law_detects_an_aggregator_with(fault):
  law, healthy, broken = BROKEN[fault]
  law(healthy)
  with pytest.raises(AssertionError):
    law(broken)


@pytest.mark.parametrize('fault', BREAKS)
def test_a_law_detects_collectives_with(fault, monkeypatch):
  law, aggregator, name, broken = BREAKS[fault]
  law(aggregator)
  laws.forget()
  healthy = getattr(collectives, name)
  for owner in (collectives, inspect.getmodule(healthy)):
    monkeypatch.setattr(owner, name, broken)
  with pytest.raises(AssertionError):
    law(aggregator)
  laws.forget()


def test_every_law_is_in_the_contract_and_has_a_fault():
  here = pathlib.Path(__file__)
  named = lambda path: {
    node.attr
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.Attribute)
    and getattr(node.value, 'id', '') == 'laws'
  }
  contract = named(here.with_name('contract_test.py'))
  everything = {
    name
    for name, function in inspect.getmembers(laws, inspect.isfunction)
    if inspect.signature(function).return_annotation is None
  }
  assert everything <= contract <= named(here)
