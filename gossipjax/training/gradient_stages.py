"""A gradient in stages: each ends when the gradients of a bucket are known.

The backward pass knows the gradients of the last layers first. It is one
program; its stages are programs of their own, so that an exchange can run
beside the stages that follow. A value that several stages need is computed by
the first of them and kept, except keys of random numbers, which each draws
again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from gossipjax.transforms.traced import Values, equations, part


class Stage(NamedTuple):
  """A part of a program.

  Attributes:
    run: (arguments of the program, values of earlier stages) -> (results,
      values for later stages), all of them lists.
    needs: names of the values that it takes.
    makes: names of those that it leaves.
    computes: whether it multiplies matrices, that is takes time.
  """

  run: Callable[..., Values]
  needs: list[Var]
  makes: list[Var]
  computes: bool


def ready(closed: ClosedJaxpr, results: Sequence[int]) -> int:
  """After how many of the program's equations some of its results are known."""
  wanted = {closed.jaxpr.outvars[i] for i in results}
  made = enumerate((eqn.outvars for eqn in closed.jaxpr.eqns), 1)
  return max((n for n, out in made if wanted & {*out}), default=0)


def stages(closed: ClosedJaxpr, groups: Sequence[Sequence[int]]) -> list[Stage]:
  """Cuts a program.

  Args:
    closed: the program.
    groups: for each stage, the positions of its results.
  """
  jaxpr = closed.jaxpr
  wanted = [[jaxpr.outvars[i] for i in group] for group in groups]
  given, made, steps = {*jaxpr.invars, *jaxpr.constvars}, [], []
  for results in wanted:
    steps.append(equations(jaxpr, results, given))
    made.append([v for eqn in steps[-1] for v in eqn.outvars if _lasts(v)])
    given |= {*made[-1]}
  found: list[Stage] = []
  for n, results in enumerate(wanted):
    mine = _used(steps[n], results)
    later = set().union(*map(_used, steps[n + 1 :], wanted[n + 1 :]))
    needs = [v for before in made[:n] for v in before if v in mine]
    makes = [v for v in dict.fromkeys(made[n]) if v in later]
    run = part(closed, [*jaxpr.invars, *needs], [*results, *makes])
    computes = any(map(_multiplies, steps[n]))
    found.append(Stage(run, needs, makes, computes))
  return found


def _multiplies(eqn: JaxprEqn) -> bool:
  """Whether an equation, or one within it, is a product of matrices."""
  if eqn.primitive.name in ('dot_general', 'conv_general_dilated'):
    return True
  inner = (x for x in eqn.params.values() if isinstance(x, ClosedJaxpr | Jaxpr))
  return any(_multiplies(one) for program in inner for one in program.eqns)


def _lasts(v: Var) -> bool:
  """Whether a value can be the result of a program of all workers."""
  aval: Any = v.aval
  return not jnp.issubdtype(aval.dtype, jax.dtypes.extended)


def _used(steps: list[Any], results: Sequence[Any]) -> set[Var]:
  """The values that equations and results refer to."""
  atoms = [*results, *(v for eqn in steps for v in eqn.invars)]
  return {v for v in atoms if not isinstance(v, Literal)}
