"""Programs as JAX traces them: replaces equations, cuts out parts."""

import contextlib
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import (
  ClosedJaxpr,
  Jaxpr,
  JaxprEqn,
  Literal,
  Var,
  jaxpr_as_fun,
)

from gossipjax.transforms.traced_collectives import opened, programs

Values = list[Any]  # Arrays or tracers.


class Rewriting(NamedTuple):
  """Which equations of a program are replaced, and by what.

  Attributes:
    concerns: whether an equation is one of these. Equations that contain none,
      which are most of a program, are executed as they were traced.
    replace: `(equation, operands, run) -> results`, of these equations and of
      those that contain some; `run(operands)` executes the equation. Equations
      inside branches, loops and called functions are replaced when `run`
      executes the equation that contains them.
  """

  concerns: Callable[[JaxprEqn], bool]
  replace: Callable[[JaxprEqn, Values, Callable[[Values], Values]], Values]


def replaced(
  program: Callable[..., Any],
  rewriting: Rewriting,
  axis_env: list[tuple[str, int]] | None = None,
) -> Callable[..., Any]:
  """A program in which some equations are replaced.

  Args:
    program: of arrays only.
    rewriting: which equations, and by what.
    axis_env: names and sizes of axes that the program refers to and that no
      caller defines.

  Returns:
    A function of the same positional arguments.
  """

  def run(*args):
    trace = jax.make_jaxpr(program, axis_env=axis_env, return_shape=True)
    closed, shapes = trace(*args)
    results = evaluate(closed, rewriting, jax.tree.leaves(args))
    return jax.tree.structure(shapes).unflatten(results)

  return run


def trip_count(equation: JaxprEqn) -> float:
  """How often a loop runs: infinity if data decide that, 0 if it is no loop."""
  if equation.primitive.name == 'while':
    return math.inf
  return equation.params['length'] if equation.primitive.name == 'scan' else 0


def unrolled(
  loop: JaxprEqn, operands: Values, rewriting: Rewriting, turns: int
) -> Values:
  """The results of a loop that is unrolled.

  Args:
    loop: an equation that runs once or more, see `trip_count`.
    operands: the operands of that equation.
    rewriting: of the equations of each turn.
    turns: how many to unroll; in a longer loop the last one of them stands for
      all further ones.
  """
  params = loop.params
  if loop.primitive.name == 'while':
    needed = params['cond_nconsts'] + params['body_nconsts']
    consts, carry = operands[params['cond_nconsts'] : needed], operands[needed:]
    for _ in range(turns):
      carry = evaluate(params['body_jaxpr'], rewriting, [*consts, *carry])
    return carry
  first, last = params['num_consts'], params['num_consts'] + params['num_carry']
  consts, carry, rows = operands[:first], operands[first:last], operands[last:]
  numbers = range(params['length'])[:: -1 if params['reverse'] else 1]
  outputs: list[Values] = []
  for i in numbers[:turns]:
    of_turn = [*consts, *carry, *(x[i] for x in rows)]
    results = evaluate(params['jaxpr'], rewriting, of_turn)
    carry, row = results[: params['num_carry']], results[params['num_carry'] :]
    outputs.append(row)
  places = np.minimum(range(len(numbers)), len(outputs) - 1)[:: numbers.step]
  stacked = map(jnp.stack, zip(*outputs, strict=True))
  return [*carry, *(x[places] for x in stacked)]


def depends_on_values(program: Any, *args: Any) -> bool:
  """Whether the results of a jitted program depend on its arguments' values.

  The compiler drops the arguments that the results do not depend on.

  Args:
    program: jitted.
    args: arguments, or their shapes and dtypes.
  """
  analysis = program.lower(*args).compile().memory_analysis()
  return analysis.argument_size_in_bytes > 0


def equations(
  jaxpr: Jaxpr, targets: Iterable[Any], given: Collection[Var]
) -> list[JaxprEqn]:
  """The equations that compute targets from given values, in their order."""
  needed = {v for v in targets if not isinstance(v, Literal)}
  found = []
  for eqn in reversed(jaxpr.eqns):
    if any(v in needed and v not in given for v in eqn.outvars):
      found.append(eqn)
      needed |= {v for v in eqn.invars if not isinstance(v, Literal)}
  return found[::-1]


def part(
  closed: ClosedJaxpr, given: list[Var], wanted: list[Any]
) -> Callable[..., Values]:
  """The part of a program between given values and results."""
  jaxpr = closed.jaxpr
  of_part = jaxpr.replace(
    invars=given,
    outvars=wanted,
    eqns=equations(jaxpr, wanted, {*given}),
    debug_info=jaxpr.debug_info.with_unknown_names(),
  )
  return jaxpr_as_fun(ClosedJaxpr(of_part, closed.consts))


def evaluate(closed: ClosedJaxpr, rewriting: Rewriting, args: Values) -> Values:
  """The results of a program in which equations are replaced."""
  known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
  known |= zip(closed.jaxpr.invars, args, strict=True)
  value = lambda atom: atom.val if isinstance(atom, Literal) else known[atom]
  for equation in closed.jaxpr.eqns:
    # The audit finds the sums that stand for a server by these names.
    scope = str(equation.source_info.name_stack)
    with jax.named_scope(scope) if scope else contextlib.nullcontext():
      results = _results(equation, rewriting, list(map(value, equation.invars)))
    known |= zip(equation.outvars, results, strict=True)
  return list(map(value, closed.jaxpr.outvars))


def _results(
  equation: JaxprEqn, rewriting: Rewriting, operands: Values
) -> Values:
  within = any(_has_some(opened(p), rewriting) for p in programs(equation))

  def run(operands: Values) -> Values:
    params = equation.params
    if within:
      params = {k: _inner(v, rewriting) for k, v in params.items()}
    primitive = equation.primitive
    results = primitive.bind(*operands, **primitive.get_bind_params(params))
    return results if primitive.multiple_results else [results]

  if within or rewriting.concerns(equation):
    return rewriting.replace(equation, operands, run)
  return run(operands)


def _has_some(jaxpr: Jaxpr, rewriting: Rewriting) -> bool:
  """Whether a program has equations, at any depth, that are replaced."""
  return any(
    rewriting.concerns(equation)
    or any(_has_some(opened(p), rewriting) for p in programs(equation))
    for equation in jaxpr.eqns
  )


def _inner(param: Any, rewriting: Rewriting) -> Any:
  """A parameter of an equation, with its inner programs rewritten."""
  if isinstance(param, ClosedJaxpr):
    if not _has_some(param.jaxpr, rewriting):
      return param
    run = lambda *args: evaluate(param, rewriting, list(args))
    return jax.make_jaxpr(run)(*param.in_avals)
  if isinstance(param, Jaxpr):
    return _inner(ClosedJaxpr(param, ()), rewriting).jaxpr
  if type(param) is tuple:  # The branches of a condition.
    return tuple(_inner(p, rewriting) for p in param)
  return param
