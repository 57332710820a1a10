"""Evaluates collectives for all workers at once.

Also finds which values of a worker's program differ between workers.
"""

import functools
from collections.abc import Collection, Sequence

import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var


def _sum(rows, params):
  del params
  return [functools.reduce(lax.add, rows)] * len(rows)


def _max(rows, params):
  del params
  return [functools.reduce(lax.max, rows)] * len(rows)


def _permuted(rows, params):
  source = {target: s for s, target in params['perm']}
  nothing = jnp.zeros_like(rows[0])
  return [rows[source[i]] if i in source else nothing for i in range(len(rows))]


def _gathered(rows, params):
  join = jnp.concatenate if params['tiled'] else jnp.stack
  return [join(rows, params['all_gather_dimension'])] * len(rows)


# Collectives: (an operand of each worker, parameters) -> a result of each.
RULES = {
  'psum': _sum,
  'pmax': _max,
  'ppermute': _permuted,
  'all_gather': _gathered,
}
_EQUAL = {'psum', 'pmax', 'all_gather'}  # Return the same to all.


def inner_program(eqn) -> ClosedJaxpr | None:
  """The program that an equation calls once with its operands, or None."""
  program = eqn.params.get('jaxpr') or eqn.params.get('call_jaxpr')
  if eqn.primitive.name in ('scan', 'reduce'):
    return None
  return program if isinstance(program, ClosedJaxpr) else None


def differing(jaxpr: Jaxpr, differ: Sequence[bool]) -> set[Var]:
  """Returns the values that differ between workers, also in inner programs.

  `jax.vmap` gives these values an axis of workers.

  Args:
    jaxpr: the program of one worker.
    differ: for each of its arguments, whether it differs.
  """
  found = {v for v, varies in zip(jaxpr.invars, differ, strict=True) if varies}
  differs = lambda v: not isinstance(v, Literal) and v in found
  for eqn in jaxpr.eqns:
    name, inputs = eqn.primitive.name, [*map(differs, eqn.invars)]
    programs, first = [inner_program(eqn)], 0
    if name == 'cond':
      programs, first = [*eqn.params['branches']], 1
    if None in programs or any(inputs[:first]):
      varies = (any(inputs) and name not in _EQUAL) or name == 'axis_index'
      found |= {v for v in eqn.outvars if varies}
    for program in filter(None, programs):
      found |= differing(program.jaxpr, inputs[first:])
      results = zip(eqn.outvars, program.jaxpr.outvars, strict=True)
      found |= {v for v, result in results if differs(result)}
  return found


def divides_by(eqn, numbers: Collection[Var]) -> bool:
  """Whether an equation divides an array by one of these numbers."""
  if eqn.primitive.name != 'div':
    return False
  x, divisor = eqn.invars
  of_array = bool(x.aval.shape) and not divisor.aval.shape
  floats = jnp.issubdtype(divisor.aval.dtype, jnp.floating)
  one_of_them = not isinstance(divisor, Literal) and divisor in numbers
  return of_array and floats and one_of_them
