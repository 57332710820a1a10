"""Checks a training in virtual time before its first round."""

import jax

from gossipjax import async_exchange
from gossipjax.aggregator import Tree
from gossipjax.devices.repeated_arrays import is_key
from gossipjax.errors import UserError
from gossipjax.local_step import Worker
from gossipjax.simulation import goal, late_workers, server_leaves
from gossipjax.simulation.fleet import State, beginning
from gossipjax.simulation.simulate import exchange_of, with_exchange
from gossipjax.training import part_checks, worker_program
from gossipjax.training.run import Run


def trace_step(
  run: Run, names: part_checks.Names = part_checks.Names()
) -> tuple[Tree, Tree]:
  """Traces a round without computing it, to find errors before training.

  Args:
    run: what to train.
    names: of its parts, for error messages.

  Returns:
    Shapes and dtypes of the parameters, and of the state.
  """
  exchange = exchange_of(run, names.strategy)
  traced_run = with_exchange(run, exchange)
  shapes = worker_program.trace_step(traced_run, names, 2 if exchange else None)
  if exchange and (run.engine or exchange.kind == async_exchange.VISIT):
    state = worker_program.state_shapes(traced_run, shapes)
    _check_state(run, names, exchange.kind, state)
  if 0 < run.cluster.first < run.workers:
    late_workers.check(run, shapes)
    _check_first(run, names)
  goal.of_run(run)
  return shapes


def _check_state(
  run: Run, names: part_checks.Names, kind: str, state: Worker
) -> None:
  """Raises a UserError if a server or the engine cannot keep the state."""
  if run.engine and any(map(is_key, jax.tree.leaves(state))):
    raise UserError(
      f'engine={run.engine} cannot send random keys of jax.random.key, which '
      'the optimizer, the strategy or the model has in its state; keep '
      "jax.random.key_data of them, or set engine=''."
    )
  if kind == async_exchange.VISIT and not server_leaves.center_of(state):
    raise UserError(
      f'{names.strategy}.async_exchange visits a server, which holds the '
      "field `center` of the aggregator's state; its state has none."
    )


def _check_first(run: Run, names: part_checks.Names) -> None:
  """Raises a UserError if the first workers alone cannot make a step."""
  try:
    worker_program.trace_step(run, names, run.cluster.first)
  except UserError as error:
    raise UserError(
      f'With cluster.first={run.cluster.first}: {error}'
    ) from error


def state_shapes(run: Run, shapes: tuple[Tree, Tree]) -> State:
  """Returns shapes and dtypes of the state that a first checkpoint keeps, with
  a server's parameters once for each worker."""
  workers = worker_program.state_shapes(
    with_exchange(run, exchange_of(run)), shapes
  )
  return jax.eval_shape(beginning, workers)
