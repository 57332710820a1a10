"""What a worker of a fleet computes by itself, and in a round."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from gossipjax import async_exchange
from gossipjax.aggregator import Tree
from gossipjax.collectives import WORKERS
from gossipjax.simulation.fleet import Given
from gossipjax.simulation.server_leaves import Layout
from gossipjax.traffic import pack_traffic
from gossipjax.training.worker_program import WorkerProgram


class Single(NamedTuple):
  """The state of one worker."""

  own: list[jax.Array]  # Leaves of its `Worker` that are not a server's.
  gradient: Tree  # Pending.
  loss: jax.Array  # f32[]; of that gradient's batch.


def gradient_of(
  program: WorkerProgram, given: Given, layout: Layout
) -> Callable[..., tuple[list[jax.Array], Tree, jax.Array]]:
  """Makes the function that computes the gradient of a worker's own step.

  Returns:
    (own leaves, a server's leaves, worker, step) -> (leaves of the model's
    state, gradient, loss).
  """

  @jax.jit
  def take_gradient(own, server, examples, worker, step):
    joined = layout.joined(own, server)
    return program.gradient(joined.params, joined.state, examples, worker, step)

  # JAX runs what one thread dispatches in order. Gradients are not needed at
  # once, so another thread dispatches them.
  thread = ThreadPoolExecutor(1)

  def take(own, server, worker, step):
    (loss, state), gradient = thread.submit(
      take_gradient,
      own,
      server,
      given(worker, step),
      np.int32(worker),
      np.int32(step),
    ).result()
    return jax.tree.leaves(state), gradient, loss

  return take


def with_state(own: list[jax.Array], state: list[jax.Array]):
  """Replaces the model's state, the last of a worker's own leaves."""
  return own[: len(own) - len(state)] + state


def attend(
  program: WorkerProgram, layout: Layout, kind: str
) -> Callable[..., Any]:
  """Makes the function of each worker of a round, over the axis WORKERS.

  Returns:
    (own leaves, a server's leaves, gradient, step) -> (own leaves, a server's
    leaves, digits of its Traffic); the worker whose step it is comes first.
  """
  visits, answers = kind == async_exchange.VISIT, kind == async_exchange.MEET

  def of_worker(own, server, gradient, step):
    is_first = lax.axis_index(WORKERS) == 0
    worker, sent = program.update(
      layout.joined(own, server),
      gradient,
      step,
      True if visits else is_first,
      True if visits or answers else is_first,
    )
    leaves = jax.tree.leaves(worker)
    return (
      layout.part(leaves, False),
      layout.part(leaves, True),
      pack_traffic(sent),
    )

  return of_worker
