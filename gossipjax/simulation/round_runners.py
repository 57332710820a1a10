"""Makes the runner of a run, with its fleet before the first step."""

import jax

from gossipjax.aggregator import AsyncExchange, Tree
from gossipjax.local_step import Worker
from gossipjax.simulation.fleet import Fleet, Runner, beginning
from gossipjax.simulation.separate_fleet import separate_fleet
from gossipjax.simulation.server_leaves import layout_of, without_copies
from gossipjax.simulation.stacked_fleet import stacked_fleet
from gossipjax.training.ledger import Ledger
from gossipjax.training.worker_program import WorkerProgram


def round_runner_of(
  program: WorkerProgram,
  exchange: AsyncExchange | None,
  workers: Worker,
  examples: Tree,
  ledger: Ledger,
) -> Runner:
  """Makes the runner of all workers before their first step.

  Args:
    program: of each worker.
    exchange: how asynchronous workers exchange; None if all wait for all.
    workers: states of all workers, leaves [workers, ...].
    examples: likewise; or (worker, step) -> examples for `program.gradient`.
    ledger: receives the cost of each round.
  """
  fleet: Fleet
  feed = examples if callable(examples) else lambda worker, step: examples
  if exchange is None:
    size = len(jax.tree.leaves(workers.params)[0])
    fleet = stacked_fleet(program, feed, size)
  else:
    layout = layout_of(workers, exchange.kind)
    fleet = separate_fleet(program, feed, layout, exchange.kind)
    workers = without_copies(workers, exchange.kind)
  return Runner(fleet, beginning(workers), ledger)
