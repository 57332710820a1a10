"""Programs as JAX traces them: replaces equations, cuts out parts."""

import contextlib
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

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

Values = list[Any]  # Arrays or tracers.
# (equation, operands, run) -> results; `run(operands)` executes the equation.
Replace = Callable[[JaxprEqn, Values, Callable[[Values], Values]], Values]


def replaced(
  program: Callable[..., Any],
  replace: Replace,
  axis_env: list[tuple[str, int]] | None = None,
) -> Callable[..., Any]:
  """A program in which `replace` decides what each equation returns.

  Equations inside branches, loops and called functions are replaced when `run`
  executes the equation that contains them.

  Args:
    program: of arrays only.
    replace: `(equation, operands, run) -> results`.
    axis_env: names and sizes of axes that the program refers to and that no
      caller defines.

  Returns:
    A function of the same positional arguments.
  """

  def run(*args):
    trace = jax.make_jaxpr(program, axis_env=axis_env, return_shape=True)
    closed, shapes = trace(*args)
    results = evaluate(closed, replace, jax.tree.leaves(args))
    return jax.tree.structure(shapes).unflatten(results)

  return run


def trip_count(equation: JaxprEqn) -> float:
  """How often a loop runs: infinity if data decide that, 0 if it is no loop."""
  if equation.primitive.name == 'while':
    return math.inf
  return equation.params['length'] if equation.primitive.name == 'scan' else 0


def unrolled(
  loop: JaxprEqn, operands: Values, replace: Replace, turns: int
) -> Values:
  """The results of a loop that is unrolled.

  Args:
    loop: an equation that runs once or more, see `trip_count`.
    operands: the operands of that equation.
    replace: decides about the equations of each turn, as in `replaced`.
    turns: how many to unroll; in a longer loop the last one of them stands for
      all further ones.
  """
  params = loop.params
  if loop.primitive.name == 'while':
    needed = params['cond_nconsts'] + params['body_nconsts']
    consts, carry = operands[params['cond_nconsts'] : needed], operands[needed:]
    for _ in range(turns):
      carry = evaluate(params['body_jaxpr'], replace, [*consts, *carry])
    return carry
  first, last = params['num_consts'], params['num_consts'] + params['num_carry']
  consts, carry, rows = operands[:first], operands[first:last], operands[last:]
  numbers = range(params['length'])[:: -1 if params['reverse'] else 1]
  outputs: list[Values] = []
  for i in numbers[:turns]:
    of_turn = [*consts, *carry, *(x[i] for x in rows)]
    results = evaluate(params['jaxpr'], replace, of_turn)
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


def evaluate(closed: ClosedJaxpr, replace: Replace, args: Values) -> Values:
  """The results of a program in which `replace` decides as in `replaced`."""
  known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
  known |= zip(closed.jaxpr.invars, args, strict=True)
  value = lambda atom: atom.val if isinstance(atom, Literal) else known[atom]
  for equation in closed.jaxpr.eqns:
    # The audit finds the sums that stand for a server by these names.
    scope = str(equation.source_info.name_stack)
    with jax.named_scope(scope) if scope else contextlib.nullcontext():
      results = _results(equation, replace, list(map(value, equation.invars)))
    known |= zip(equation.outvars, results, strict=True)
  return list(map(value, closed.jaxpr.outvars))


def _results(equation: JaxprEqn, replace: Replace, operands: Values) -> Values:
  primitive = equation.primitive

  def run(operands: Values) -> Values:
    params = {k: _inner(v, replace) for k, v in equation.params.items()}
    results = primitive.bind(*operands, **primitive.get_bind_params(params))
    return results if primitive.multiple_results else [results]

  return replace(equation, operands, run)


def _inner(param: Any, replace: Replace) -> Any:
  """A parameter of an equation, with its inner programs rewritten."""
  if isinstance(param, ClosedJaxpr):
    run = lambda *args: evaluate(param, replace, list(args))
    return jax.make_jaxpr(run)(*param.in_avals)
  if isinstance(param, Jaxpr):
    return _inner(ClosedJaxpr(param, ()), replace).jaxpr
  if type(param) is tuple:  # The branches of a condition.
    return tuple(_inner(p, replace) for p in param)
  return param
