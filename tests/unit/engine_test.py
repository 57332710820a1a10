"""The engine's rounds, cut between processes, against those of virtual time.

Where XLA fuses a product and a sum, one program rounds differently than two;
tests/system/engine_test.py compares such strategies without fusion.
"""

import types
import unittest.mock

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from gossipjax import errors
from gossipjax.collectives import WORKERS
from gossipjax.comparison import variant
from gossipjax.config import defaults
from gossipjax.engine import (
  round_partitions,
  server_process,
  setup,
  unrolled,
)
from gossipjax.engine.messages import Gone
from gossipjax.engine.training import RealTime
from gossipjax.errors import UserError
from gossipjax.traffic import unpack_traffic
from gossipjax.training import evaluate, model_state
from gossipjax.training.run import resolve_run
from tests.support import engine_vs_virtual
from tests.support.tiers import exhaustive

QUICK = ('parameter_server', 'pairwise_gossip', 'adaptive_gossip')
over_strategies = pytest.mark.parametrize('name', QUICK)
VISITS = ('parameter_server',)


@pytest.fixture(scope='module')
def played():
  """Plays a strategy once: virtual time's runner, its ledger, and the peers."""
  found = {}

  def of(name):
    if name not in found:
      found[name] = engine_vs_virtual.play(name)
    return found[name]

  return of


@pytest.mark.exhaustive
@over_strategies
def test_processes_end_in_the_states_of_virtual_time_bit_for_bit(played, name):
  runner, _, others = played(name)
  assert engine_vs_virtual.differences(runner, others) == 0


@pytest.mark.exhaustive
@over_strategies
def test_message_sizes_match_the_bytes_of_the_ledger(played, name):
  """Except for flags and counts, a few bytes per message."""
  _, ledger, others = played(name)
  sent = sum(there + back for there, back in others.sizes)
  billed = int(ledger.bytes.sum()) * (2 if name in VISITS else 1)
  assert 0 <= billed - sent <= 32 * int(ledger.messages.sum())
  assert sent > 0


@pytest.mark.exhaustive
def test_a_round_without_exchange_sends_no_message(played):
  _, ledger, others = played('adaptive_gossip')
  assert len(others.sizes) == ledger.exchanges < engine_vs_virtual.STEPS * 3


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['push_gossip', 'pairwise_gossip'])
def test_a_gradient_is_used_once_if_the_drawn_worker_has_died(name):
  calls = []

  def gone(drawn, *rest):
    calls.append(drawn)
    raise Gone

  given = setup.of_run(resolve_run(engine_vs_virtual.config(name)))
  found, step = [], 1  # A step with an exchange.
  for drawn in [], [1]:
    peers = engine_vs_virtual.Peers(given, call=gone)
    peers.start(0, step)
    entry = peers.exchange(0, drawn, step)
    assert entry.workers == [0] and not entry.bills.any()
    own = given.layout.joined(peers.read().singles[0].own, [])
    found.append(own.params)
  assert calls == [[1]]
  alone, after_death = found
  jax.tree.map(np.testing.assert_array_equal, after_death, alone)


@pytest.mark.parametrize('own', [True, False])
def test_a_division_by_a_scalar_is_rounded_as_for_several_workers(own):
  """XLA multiplies by the reciprocal if each worker has its own divisor."""
  x = np.linspace(0.1, 1, 1000, dtype=np.float32) * np.ones((2, 1), 'f')
  w = np.array([0.3, 0.3], np.float32)
  one = lambda x, w: [x / w, w]
  split = lambda given: [
    [given[0], given[2]],
    [given[1], given[3 if own else 2]],
  ]
  collect = lambda rows: [value for row in rows for value in row]
  given = [*x, *w]
  closed = unrolled.unroll(one, split, collect, given, WORKERS, [True, own])
  found = jax.jit(jaxpr_as_fun(closed))(*given)
  together = jax.jit(jax.vmap(one, in_axes=(0, 0 if own else None)))
  expected = together(x, w if own else w[0])[0]
  np.testing.assert_array_equal(np.stack(found[::2]), expected)


def test_small_leaves_of_a_server_share_one_shard():
  sizes = [10, 2**15, 20, 2**16]
  leaves = [jax.numpy.zeros(n) for n in sizes]
  assert round_partitions.shards_of(leaves, 2) == [[3], [0, 1, 2]]
  assert round_partitions.shards_of(leaves[:1], 3) == [[0]]


def refusal(**changes):
  config = defaults.get_config(changes.pop('strategy', 'pull_gossip'))
  config.update({'engine': 'ray', **changes})
  with pytest.raises(UserError) as error:
    setup.of_run(resolve_run(config))
  return str(error.value)


def test_unsupported_configs_of_the_engine_end_with_an_error_message(
  monkeypatch,
):
  assert "did you mean 'ray'" in refusal(engine='rai')
  assert 'needs all workers at once' in refusal(strategy='gtopk')
  waits = defaults.cluster(asynchronous=False)
  assert 'do not wait' in refusal(cluster=waits)
  monkeypatch.setitem(errors.EXTRAS, 'ray', ('not_there',))
  assert "pip install 'gossipjax[ray]'" in refusal()


def test_several_processes_cannot_start_the_engine(monkeypatch):
  monkeypatch.setattr(variant.processes, 'distributed', lambda: True)
  config = defaults.get_config('pull_gossip')
  config.engine = 'ray'
  with pytest.raises(UserError, match='use `run` in place of `launch`'):
    variant.check('one', config)


@pytest.mark.parametrize('pulls', [exhaustive(1), 3])
def test_all_rounds_are_compiled_before_the_clock_starts(pulls):
  config = engine_vs_virtual.config('pull_gossip')
  config.strategy.pulls = pulls
  ready = setup.of_run(resolve_run(config))
  server_process.compile_rounds(ready)
  assert ready.rounds.cache_info().currsize == 1 + pulls


def test_messages_that_a_busy_worker_refused_are_counted():
  given = setup.of_run(resolve_run(engine_vs_virtual.config('pairwise_gossip')))
  refusals = iter([True, True, False])

  def call(drawn, step, messages):
    return ['busy'] if next(refusals) else peers._ask(drawn, step, messages)

  peers = engine_vs_virtual.Peers(given, call=call)
  peers.start(0, 1)
  peers.start(1, 1)
  entry = peers.exchange(0, [1], 1)
  ((size, _),) = peers.sizes
  once, sent = unpack_traffic(entry.bills), entry.sent
  assert entry.refused == [size, size]
  more = lambda name: (getattr(sent, name) - getattr(once, name)).tolist()
  assert more('bytes') == [2 * size, 2] == more('received')[::-1]
  assert more('messages') == [2, 2]


@pytest.mark.parametrize('alive', [[1, 2], [0, 1, 2]])
def test_dead_workers_are_not_in_the_scored_mean_model(alive):
  run = resolve_run(engine_vs_virtual.config('gossip'))
  given = setup.of_run(run)
  training = object.__new__(RealTime)
  training._setup, training._run = given, run
  training._crew = types.SimpleNamespace(alive=lambda: alive)
  training._mean_state = lambda *_: model_state.EvalStates((), ())
  training._ledger, training.scored = None, evaluate.ScoredModel()
  training._score = lambda params, state: {
    'loss': float(sum(x.sum() for x in jax.tree.leaves(params)))
  }
  held = given.beginning()
  bigger = lambda i, x: x + i if x.dtype == np.float32 else x
  singles = tuple(
    single._replace(own=[bigger(i, x) for x in single.own])
    for i, single in enumerate(held.singles)
  )
  held = held._replace(singles=singles)
  found = training._scores(held)
  params = given.fleet.params(held)
  mean = jax.tree.map(lambda x: x[np.array(alive)].mean(0), params)
  expected = float(sum(x.sum() for x in jax.tree.leaves(mean)))
  assert found['test_loss'] == pytest.approx(expected, rel=1e-4)


def test_no_worker_trains_between_a_record_and_its_checkpoint():
  """The clock is paused once, and resumes at the next step."""
  calls = []
  crew = types.SimpleNamespace(
    paused_at=7.0,
    pause=lambda: calls.append('pause'),
    read=lambda: calls.append('read') or 'held',
    resume=lambda: calls.append('resume') or 3.0,
  )
  entry = types.SimpleNamespace(
    workers=[0], loss=1.0, sent=None, stale=0, spans=[]
  )
  training = object.__new__(RealTime)
  training._crew, training._held = crew, None
  training._monitor = types.SimpleNamespace(
    began=1.0, receive=lambda wait_s: [], news=lambda pause_s: [entry] * 3
  )
  training._run = types.SimpleNamespace(workers=2, steps=9)
  training._run.log_every = training._run.eval_every = 1
  training._used = training._before = 0
  training._waiting, training._stopwatch = [], unittest.mock.Mock()
  training._ledger = types.SimpleNamespace(
    step=0, add_round=lambda *_: calls.append('used')
  )
  training.usage = unittest.mock.Mock()
  training.advance()
  assert training._still() == training._still() == 'held'
  # The third entry arrived before the pause; it is counted, too.
  assert calls == ['used'] * 2 + ['pause', 'used', 'read']
  training.advance()
  assert calls[5:] == ['resume', 'used'] and training._monitor.began == 4.0
