"""A round of few workers as one plain program, without an axis of workers.

The program of one worker is evaluated once per worker. The index of a worker,
and values known before a round, become constants, so that the program shows
which values of one worker reach which results of another.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal, Var

from gossipjax.engine import collective_rules
from gossipjax.transforms.traced import equations

Value = Any  # An array, a tracer or a `Filled`.
Values = list[Value]
# Primitives that compute each entry from the entries in the same place.
_ELEMENTWISE = {
  *('add', 'and', 'convert_element_type', 'eq', 'ge', 'gt', 'le', 'lt', 'max'),
  *('min', 'mul', 'ne', 'not', 'or', 'rem', 'select_n', 'sub'),
}
_SMALL = 4096  # Entries of a constant that is computed while tracing.


class Filled(NamedTuple):
  """A constant array with equal entries."""

  value: Any  # Of one entry.
  shape: tuple[int, ...]


class Plan(NamedTuple):
  """How a program is evaluated.

  Attributes:
    differ: its values that differ between workers.
    branching: whether unknown conditions remain in a round of one worker; if
      False, all branches are computed, which shows what each needs.
  """

  differ: set[Var]
  branching: bool


def unroll(
  one: Callable[..., Any],
  arguments: Callable[[Values], list[Values]],
  collect: Callable[[list[Values]], Values],
  given: Sequence[Any],
  axis: str,
  differ: Sequence[bool],
  branching: bool = False,
) -> ClosedJaxpr:
  """Traces the round as one program of arrays.

  Args:
    one: program of a worker, of arrays, along an axis of the workers.
    arguments: arguments of the round -> arguments of each worker.
    collect: results of each worker -> results of the round, in their order.
    given: shapes and dtypes of the round's arguments.
    axis: name of the axis.
    differ: which arguments of a worker are its own; all share the others.
    branching: see `Plan`.
  """
  rows = arguments(list(given))
  closed = jax.make_jaxpr(one, axis_env=[(axis, len(rows))])(*rows[0])
  plan = Plan(collective_rules.differing(closed.jaxpr, differ), branching)
  everyone = lambda *given: [
    _array(x) for x in collect(_evaluate(closed, arguments(list(given)), plan))
  ]
  traced = jax.make_jaxpr(everyone)(*given)
  jaxpr, unnamed = traced.jaxpr, traced.jaxpr.debug_info.with_unknown_names()
  needed = equations(jaxpr, jaxpr.outvars, ())
  jaxpr = jaxpr.replace(eqns=needed, debug_info=unnamed)
  return ClosedJaxpr(jaxpr, traced.consts)


def _evaluate(
  closed: ClosedJaxpr, rows: Sequence[Values], plan: Plan
) -> list[Values]:
  """The results of each worker."""
  jaxpr = closed.jaxpr
  values = [
    dict(zip(jaxpr.constvars, closed.consts, strict=True))
    | dict(zip(jaxpr.invars, row, strict=True))
    for row in rows
  ]
  value = lambda row, atom: atom.val if isinstance(atom, Literal) else row[atom]
  for eqn in jaxpr.eqns:
    operands = [[value(row, atom) for atom in eqn.invars] for row in values]
    found = _results(eqn, operands, plan)
    for row, results in zip(values, found, strict=True):
      row.update(zip(eqn.outvars, results, strict=True))
  return [[value(row, atom) for atom in jaxpr.outvars] for row in values]


def _results(eqn, rows: list[Values], plan: Plan) -> list[Values]:
  name, params = eqn.primitive.name, eqn.params
  if name in collective_rules.RULES:
    arrays = zip(*([*map(_array, row)] for row in rows), strict=True)
    found = [collective_rules.RULES[name](each, params) for each in arrays]
    return [list(row) for row in zip(*found, strict=True)]
  if name == 'axis_index':
    return [[np.int32(i)] for i in range(len(rows))]
  if name == 'cond':
    return _branch(params['branches'], rows, plan)
  if (inner := collective_rules.inner_program(eqn)) is not None:
    return _evaluate(inner, rows, plan)
  bind = _divide if collective_rules.divides_by(eqn, plan.differ) else _bind
  return [bind(eqn, row) for row in rows]


def _divide(eqn, operands: Values) -> Values:
  """Divides by a number with the rounding of several workers at once."""
  x, divisor = operands
  if _is_known(divisor):
    return _bind(eqn, operands)
  # For several workers, XLA multiplies by the reciprocals of their numbers; for
  # one worker it does so only if nothing else uses the number.
  return [lax.mul(_array(x), jnp.full(x.shape, 1 / divisor))]


def _branch(branches: Sequence[ClosedJaxpr], rows: list[Values], plan: Plan):
  """The results of the branch taken, selected from all if it is not known."""
  which = [row[0] for row in rows]
  if all(map(_is_known, which)) and len({int(_entry(i)) for i in which}) == 1:
    taken = branches[int(_entry(which[0]))]
    return _evaluate(taken, [row[1:] for row in rows], plan)
  if plan.branching and len(rows) == 1:
    run = lambda branch: (
      lambda *operands: [
        _array(x) for x in _evaluate(branch, [list(operands)], plan)[0]
      ]
    )
    operands = map(_array, rows[0][1:])
    return [list(lax.switch(which[0], [*map(run, branches)], *operands))]
  plan = plan._replace(branching=False)
  every = [_evaluate(b, [row[1:] for row in rows], plan) for b in branches]
  return [
    [
      lax.select_n(jnp.asarray(_array(i)), *map(_array, cases))
      if not all(case is cases[0] for case in cases)
      else cases[0]
      for cases in zip(*(found[r] for found in every), strict=True)
    ]
    for r, i in enumerate(which)
  ]


def _bind(eqn, operands: Values) -> Values:
  """Evaluates an equation of one worker, to a constant where possible."""
  name, aval = eqn.primitive.name, eqn.outvars[0].aval
  if name == 'select_n' and _is_uniform(operands[0]):
    return [operands[1 + int(_entry(operands[0]))]]
  if name in ('and', 'or') and aval.dtype == bool:
    for known, other in (operands, operands[::-1]):
      if _is_uniform(known):
        decides = bool(_entry(known)) == (name == 'or')
        return [known if decides else other]
  known = all(map(_is_known, operands))
  if name == 'broadcast_in_dim' and known and _is_uniform(operands[0]):
    return [Filled(_entry(operands[0]), aval.shape)]
  params = eqn.primitive.get_bind_params(eqn.params)
  run = functools.partial(eqn.primitive.bind, **params)
  if name in _ELEMENTWISE and all(map(_is_uniform, operands)):
    with jax.ensure_compile_time_eval():
      entry = run(*map(jnp.asarray, map(_entry, operands)))
    return [Filled(entry, aval.shape) if aval.shape else entry]
  if known and all(v.aval.size <= _SMALL for v in eqn.outvars):
    with jax.ensure_compile_time_eval():
      results = run(*map(_array, operands))
  else:
    results = run(*map(_array, operands))
  return list(results) if eqn.primitive.multiple_results else [results]


def _is_known(x: Value) -> bool:
  return not isinstance(x, jax.core.Tracer)


def _is_uniform(x: Value) -> bool:
  """Whether all entries are known and equal."""
  return _is_known(x) and (isinstance(x, Filled) or np.size(x) == 1)


def _entry(x: Value) -> Any:
  if isinstance(x, Filled):
    return x.value
  with jax.ensure_compile_time_eval():
    return jnp.reshape(x, ())


def _array(x: Value) -> Any:
  return jnp.full(x.shape, x.value) if isinstance(x, Filled) else x
