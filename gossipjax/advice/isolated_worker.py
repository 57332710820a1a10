"""Runs one worker's program without the other workers, to time its own work.

Each collective of the program is replaced by an echo: a result of the shape
that it has with P workers, made from this worker's own message. So selecting,
packing, merging and unpacking run at their full size, but nothing is sent.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from gossipjax.collectives import WORKERS
from gossipjax.transforms import traced


def alone(program: Callable[..., Any], workers: int) -> Callable[..., Any]:
  """Returns the program of worker 0, which receives its own messages only.

  Args:
    program: of one worker, under the axis `collectives.WORKERS`.
    workers: the size of that axis.

  Returns:
    A function of the same arguments without collectives, to be compiled.
  """

  has_echo = lambda equation: equation.primitive.name in _ECHOES

  def replace(equation, operands, run):
    if not has_echo(equation):
      return run(operands)
    echo = _ECHOES[equation.primitive.name]
    return [echo(equation, workers, x) for x in operands or [None]]

  rewriting = traced.Rewriting(has_echo, replace)
  return traced.replaced(program, rewriting, axis_env=[(WORKERS, workers)])


def _gathered(eqn, workers: int, x):
  shape = eqn.outvars[0].aval.shape
  return jnp.broadcast_to(
    jnp.expand_dims(x, eqn.params['all_gather_dimension']), shape
  )


_ECHOES = {
  'psum': lambda eqn, workers, x: x * workers,
  'axis_index': lambda eqn, workers, x: jnp.int32(0),
  'all_gather': _gathered,
  # Worker 0 receives the first row of every worker.
  'all_to_all': lambda eqn, workers, x: jnp.broadcast_to(x[:1], x.shape),
  **dict.fromkeys(('pmax', 'ppermute'), lambda eqn, workers, x: x),
}
