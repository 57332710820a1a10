"""One worker's own work, without the others: what it costs is what is timed.

A program of one of P workers is traced, and each of its collectives replaced
by an echo: a result of the right shape made of this worker's own message. So
selecting, packing, merging and unpacking happen at the size that P workers
give them, and nothing moves.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from gossipjax.collectives import WORKERS


def alone(
  program: Callable[..., Any], workers: int, *args: Any
) -> Callable[..., Any]:
  """`program` as worker 0 of so many, hearing itself wherever it listens.

  Args:
    program: of one worker, under the axis `collectives.WORKERS`.
    workers: how many there seem to be.
    *args: of the program; shapes and dtypes suffice.

  Returns:
    A function of the same arguments, to be compiled.
  """
  trace = jax.make_jaxpr(
    program, axis_env=[(WORKERS, workers)], return_shape=True
  )
  closed, shapes = trace(*args)
  form, run = (
    jax.tree.structure(shapes),
    jaxpr_as_fun(_echoing(closed, workers)),
  )
  return lambda *given: form.unflatten(run(*jax.tree.leaves(given)))


def _echoing(closed: ClosedJaxpr, workers: int) -> ClosedJaxpr:
  run = lambda *args: _evaluate(closed, workers, args)
  return jax.make_jaxpr(run)(*closed.in_avals)


def _evaluate(closed: ClosedJaxpr, workers: int, args) -> list[Any]:
  known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
  known |= zip(closed.jaxpr.invars, args, strict=True)
  value = lambda atom: atom.val if isinstance(atom, Literal) else known[atom]
  for eqn in closed.jaxpr.eqns:
    given = list(map(value, eqn.invars))
    if eqn.primitive.name in _ECHOES:
      echo = _ECHOES[eqn.primitive.name]
      found = [echo(eqn, workers, x) for x in given or [None]]
    else:
      inner = {k: _inside(v, workers) for k, v in eqn.params.items()}
      found = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(inner))
      found = found if eqn.primitive.multiple_results else [found]
    known |= zip(eqn.outvars, found, strict=True)
  return list(map(value, closed.jaxpr.outvars))


def _inside(param: Any, workers: int) -> Any:
  """Loops and branches carry programs of their own."""
  if isinstance(param, ClosedJaxpr):
    return _echoing(param, workers)
  if isinstance(param, Jaxpr):
    return _echoing(ClosedJaxpr(param, ()), workers).jaxpr
  if type(param) is tuple:  # The branches of a condition.
    return tuple(_inside(p, workers) for p in param)
  return param


def _gathered(eqn, workers: int, x):
  shape = eqn.outvars[0].aval.shape
  return jnp.broadcast_to(
    jnp.expand_dims(x, eqn.params['all_gather_dimension']), shape
  )


_ECHOES = {
  'psum': lambda eqn, workers, x: x * workers,
  'axis_index': lambda eqn, workers, x: jnp.int32(0),
  'all_gather': _gathered,
  # Worker 0 gets everyone's first row.
  'all_to_all': lambda eqn, workers, x: jnp.broadcast_to(x[:1], x.shape),
  **dict.fromkeys(('pmax', 'ppermute'), lambda eqn, workers, x: x),
}
