"""What `cluster.first` asks of a strategy, whose rounds late workers skip."""

from typing import Any

import jax

from gossipjax.aggregator import Tree
from gossipjax.errors import UserError
from gossipjax.simulation import server_leaves
from gossipjax.simulation.timeline import silent
from gossipjax.training import traffic_by_shapes, worker_program
from gossipjax.training.run import Run

MOST = 1000  # Steps that are looked at.
# Memory of what a worker itself has not sent yet, by the names of its fields.
OWN = ('residual', 'velocity')


def check(run: Run, shapes: tuple[Tree, Tree]) -> None:
  """Refuses a strategy that `cluster.first` does not suit.

  Args:
    run: some of whose workers may be late.
    shapes: of the parameters and of the state.

  Raises:
    UserError: its memory differs after a round that was skipped, or there is a
      step in which it sends nothing.
  """
  begun = worker_program.form(run, shapes)
  memory = begun.gradients, begun.parameters, begun.moments
  rejoining(memory, begun.params)
  one = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), begun
  )
  update = worker_program.worker_program(run).update
  steps = range(min(run.steps, MOST))
  bills = traffic_by_shapes.of(update, one, one.params, run.workers, steps)
  for step, sent in enumerate(bills or ()):
    if silent(sent):
      raise UserError(
        f'cluster.first={run.cluster.first} needs a strategy that exchanges in '
        f'every step, such as all_reduce; this one sends nothing in step {step}'
        '. Set cluster.first=0, or strategy.period=1 if it has a period.'
      )


def rejoining(memory: Any, params: Tree) -> None:
  """Refuses `first` for a strategy whose memory a late worker cannot catch up.

  It fetches parameters and the optimizer's state. A memory that all workers
  change in the same way, such as a center, would differ from that of the others
  from then on.

  Args:
    memory: of one worker's strategy; shapes suffice.
    params: of the model, whose fields may have any names.

  Raises:
    UserError: there is more in it than in OWN.
  """
  model = server_leaves.paths_of(params)
  for path, _ in jax.tree.leaves_with_path(memory):
    names = server_leaves.fields(path, model)
    if not {*OWN} & {*names}:
      what = names[-1] if names else 'state'
      raise UserError(
        'With cluster.first a late worker skips rounds and then copies only '
        'parameters and optimizer state; what else this strategy keeps '
        f'({what}) would differ between workers. Set cluster.first=0, or take '
        'a strategy that keeps a residual at most, such as all_reduce or topk.'
      )
