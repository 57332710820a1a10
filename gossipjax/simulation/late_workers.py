"""Checks that a strategy works if late workers skip rounds: `cluster.first`."""

from typing import Any

import jax

from gossipjax.aggregator import Tree
from gossipjax.errors import UserError
from gossipjax.simulation import server_leaves
from gossipjax.simulation.timeline import silent
from gossipjax.training import traffic_by_shapes, worker_program
from gossipjax.training.run import Run

CHECKED_STEPS = 1000  # Steps that are checked.
# Fields with what a worker itself has not sent yet; they may differ.
OWN = ('residual', 'velocity')


def check(run: Run, shapes: tuple[Tree, Tree]) -> None:
  """Checks that the strategy of a run works with `cluster.first`.

  Args:
    run: has workers that may be late.
    shapes: of the parameters and of the state.

  Raises:
    UserError: the strategy's memory would differ after a skipped round, or it
      sends nothing in some step.
  """
  workers = worker_program.state_shapes(run, shapes)
  memory = workers.gradients, workers.parameters, workers.moments
  rejoining(memory, workers.params)
  worker = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), workers
  )
  update = worker_program.worker_program(run).update
  steps = range(min(run.steps, CHECKED_STEPS))
  bills = traffic_by_shapes.static_traffic(
    update, worker, worker.params, run.workers, steps
  )
  for step, sent in enumerate(bills or ()):
    if silent(sent):
      raise UserError(
        f'cluster.first={run.cluster.first} needs a strategy that exchanges in '
        f'every step, such as all_reduce; this one sends nothing in step {step}'
        '. Set cluster.first=0, or strategy.period=1 if it has a period.'
      )


def rejoining(memory: Any, params: Tree) -> None:
  """Checks that a late worker can restore the memory of its strategy.

  It fetches only parameters and optimizer state. A memory that all workers
  change in the same way, such as a center, would differ from that of the other
  workers from then on.

  Args:
    memory: of one worker's strategy; shapes suffice.
    params: of the model, whose field names are ignored.

  Raises:
    UserError: the memory has fields other than OWN.
  """
  model = server_leaves.paths_of(params)
  for path, _ in jax.tree.leaves_with_path(memory):
    names = server_leaves.fields(path, model)
    if not {*OWN} & {*names}:
      field = names[-1] if names else 'state'
      raise UserError(
        'With cluster.first a late worker skips rounds and then copies only '
        'parameters and optimizer state; what else this strategy keeps '
        f'({field}) would differ between workers. Set cluster.first=0, or take '
        'a strategy that keeps a residual at most, such as all_reduce or topk.'
      )
