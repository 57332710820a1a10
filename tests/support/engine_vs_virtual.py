"""Processes of the engine that repeat a run in virtual time, to compare both.

Virtual time decides which worker acts next, and simulates it. `Peers`, which
exchange messages as processes do but share this process, or Ray's processes do
the same. Run as a program, this module prints how many arrays of the final
states differ, for strategies by name:

    python -m tests.support.engine_vs_virtual [--ray] STRATEGY[/OPTIMIZER] ...
"""

import sys

import jax
import numpy as np

from gossipjax.config import defaults
from gossipjax.engine import peer, setup
from gossipjax.engine.clock import Clock
from gossipjax.simulation import simulate
from gossipjax.simulation.round_runners import round_runner_of
from gossipjax.simulation.separate_fleet import Separate
from gossipjax.traffic import nbytes, unpack_traffic
from gossipjax.training import worker_program
from gossipjax.training.ledger import Ledger
from gossipjax.training.run import resolve_run

STEPS = 12
STRATEGIES = {
  'parameter_server': {},
  'elastic': {},
  'local_sgd': {'period': 3},
  'decoupled_diloco': {'period': 2, 'quorum': 2},
  'pull_gossip': {},
  'push_gossip': {},
  'gossip': {},
  'push_sum': {},
  'pairwise_gossip': {'period': 2},
  'adaptive_gossip': {},
}


def config(name, **changes):
  """A config of three workers whose events never coincide."""
  strategy, _, optimizer = name.partition('/')
  found = defaults.get_config(strategy)
  found.update(workers=3, steps=STEPS, **changes)
  found.strategy.update(STRATEGIES[strategy])
  if optimizer:
    found.optimizer = defaults.optimizer(optimizer, learning_rate=0.01)
  found.cluster = defaults.cluster(compute='gamma', spread=0.4, shards=2)
  return found


class Peers:
  """All peers of a run in this process.

  Attributes:
    sizes: bytes of the messages of each round, there and back.
  """

  def __init__(self, given, call=None):
    held = given.beginning()
    self._setup, self._held, self.sizes = given, held, []
    self._call = call or self._ask
    self._shards = [
      peer.Server([held.server[i] for i in shard], given.rounds)
      for shard in given.shards
    ]
    self._peers = [self._peer(i, s) for i, s in enumerate(held.singles)]

  def _peer(self, i, single):
    given, server = self._setup, self._held.server
    take = lambda own, step: given.take(own, server, i, step)
    kind, call = given.exchange.kind, self._call
    return peer.Peer(i, kind, single, given.rounds, take, call, Clock())

  def _ask(self, drawn, step, messages):
    others = [self._peers[j] for j in drawn] or self._shards
    found = [
      other.answer(row, 1 + len(drawn), step, message)
      for row, (other, message) in enumerate(
        zip(others, messages, strict=True), 1
      )
    ]
    back = [a.message for a in found]
    self.sizes.append((nbytes(messages), nbytes(back)))
    return found

  def start(self, worker, step):
    self._peers[worker].start(step)

  def exchange(self, worker, drawn, step):
    return self._peers[worker].exchange(drawn, step)

  def read(self) -> Separate:
    server = list(self._held.server)
    for shard, found in zip(self._setup.shards, self._shards, strict=True):
      for i, leaf in zip(shard, found.leaves, strict=True):
        server[i] = leaf
    return Separate(tuple(p.single for p in self._peers), server)


class Followed:
  """A runner of virtual time whose rounds others repeat with equal bills."""

  def __init__(self, runner, others):
    self._runner, self._others = runner, others
    self.round_traffic = runner.round_traffic

  def start(self, worker, step):
    self._runner.start(worker, step)
    self._others.start(worker, step)

  def run_round(self, who, step):
    sent = self._runner.run_round(who, step)
    entry = self._others.exchange(who[0], list(who[1:]), step)
    assert entry.workers == list(who)
    found = unpack_traffic(entry.bills)
    jax.tree.map(np.testing.assert_array_equal, found, sent)
    return sent


def play(name, processes=Peers):
  """Runs both to the end; returns the runner and ledger, and the others."""
  run = resolve_run(config(name))
  exchange = simulate.exchange_of(run)
  few = simulate.with_exchange(run, exchange)
  program = worker_program.worker_program(few)
  ledger = Ledger({}, run.workers)
  began = worker_program.start(few, program)
  runner = round_runner_of(program, exchange, *began, ledger)
  others = processes(setup.of_run(run))
  timeline = simulate.timeline_of(run, exchange, Followed(runner, others))
  while timeline.rounds < STEPS:
    timeline.next()
  return runner, ledger, others


def differences(runner, others) -> int:
  """Counts the arrays of both states that differ in any bit."""
  pairs = zip(
    jax.tree.leaves(runner.held._replace(computed=None)),
    jax.tree.leaves(others.read()),
    strict=True,
  )
  return sum(not np.array_equal(a, b) for a, b in pairs)


def main(words):
  from gossipjax.engine import ray_cluster

  names = [word for word in words if word != '--ray']
  if '--ray' not in words:
    for name in names:
      runner, _, others = play(name)
      print(name, differences(runner, others), flush=True)
    return
  with ray_cluster.connected():
    from gossipjax.engine.crew import Crew

    for name in names:

      def crew(given):
        found = Crew(config(name).to_dict(), given, given.beginning(), [0] * 3)
        found.begin()
        return found

      runner, _, others = play(name, crew)
      print(name, differences(runner, others), flush=True)
      others.end()


if __name__ == '__main__':
  main(sys.argv[1:])
