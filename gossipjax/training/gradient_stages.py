"""A gradient in stages: each ends when the gradients of a bucket are known.

The backward pass computes the gradients of the last layers first. It is one
program; its stages become programs of their own, so that an exchange can
overlap with the stages that follow. A value that several stages need is
computed by the first of them and kept, except random keys, which each stage
derives again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from gossipjax.aggregator import Tree
from gossipjax.collectives import WORKERS
from gossipjax.errors import UserError
from gossipjax.training import overlap_slot
from gossipjax.training.run import Run
from gossipjax.training.worker_program import example_shapes, worker_program
from gossipjax.transforms.traced import Values, equations, part


class Stage(NamedTuple):
  """A part of a program.

  Attributes:
    run: (arguments of the program, values of earlier stages) -> (results,
      values for later stages), all of them lists.
    needs: variables of the values that it takes from earlier stages.
    makes: variables of the values that it leaves for later stages.
    computes: whether it multiplies matrices, which takes time.
  """

  run: Callable[..., Values]
  needs: list[Var]
  makes: list[Var]
  computes: bool


class StagedGradient(NamedTuple):
  """A gradient that is cut into stages.

  Attributes:
    stages: in the order in which their gradients are known.
    order: the number of the bucket that each of them completes.
    members: of each bucket, the positions of its tensors among all gradients.
    forms: tree structures of (loss, state), and of the gradients.
  """

  stages: list[Stage]
  order: list[int]
  members: list[list[int]]
  forms: tuple[Any, Any]


def of_buckets(
  run: Run,
  gradient: Callable[..., Any],
  given: Tree,
  t: jax.Array,
  key: jax.Array,
) -> StagedGradient:
  """Cuts the gradient of a worker; the first stage also computes the loss.

  Args:
    run: a run whose strategy has buckets.
    gradient: (parameters, state, examples, t, key) -> (head, gradients), where
      the head is (loss, state).
    given: shapes of its first three arguments.
    t, key: any step and key.

  Raises:
    UserError: all buckets are known at the same time.
  """
  trace = jax.make_jaxpr(
    lambda given, t, key: gradient(*given, t, key),
    axis_env=[(WORKERS, run.workers)],
    return_shape=True,
  )
  closed, (head, grads) = trace(given, t, key)
  first = len(jax.tree.leaves(head))
  members = run.strategy.gradients.parts.of(grads)
  places = [[first + i for i in bucket] for bucket in members]
  ready_at = [ready(closed, bucket) for bucket in places]
  order = sorted(range(len(ready_at)), key=ready_at.__getitem__)
  groups = [places[b] for b in order]
  groups[0] = [*range(first), *groups[0]]
  cut = stages(closed, groups)
  if not any(stage.computes for stage in cut[1:]):
    raise UserError(
      'config.overlap: the gradients of all buckets are complete at the same '
      'time, so that nothing can overlap; use smaller buckets '
      '(strategy.granularity.name=layer, if the strategy has it) and '
      'config.accumulate=0, or config.overlap=False.'
    )
  forms = jax.tree.structure(head), jax.tree.structure(grads)
  return StagedGradient(cut, order, members, forms)


def check(run: Run, shapes: tuple[Tree, Tree]) -> None:
  """Checks that the gradient of a run can be cut, if the run will cut it.

  Args:
    run: what to train.
    shapes: of the parameters and of the state.

  Raises:
    UserError: see `of_buckets`.
  """
  if run.overlap and overlap_slot.slot(run.strategy) is None:
    gradient, given = worker_program(run).own_gradient, example_shapes(run)
    t, key = jnp.int32(0), jax.random.key(run.seed)
    of_buckets(run, gradient, (*shapes, given), t, key)


def ready(closed: ClosedJaxpr, results: Sequence[int]) -> int:
  """The number of a program's equations after which these results are known."""
  targets = _used([], [closed.jaxpr.outvars[i] for i in results])
  outputs = enumerate((eqn.outvars for eqn in closed.jaxpr.eqns), 1)
  return max((n for n, out in outputs if targets & {*out}), default=0)


def stages(closed: ClosedJaxpr, groups: Sequence[Sequence[int]]) -> list[Stage]:
  """Cuts a program into stages.

  Args:
    closed: the program.
    groups: for each stage, the positions of its results.
  """
  jaxpr = closed.jaxpr
  targets = [[jaxpr.outvars[i] for i in group] for group in groups]
  known, outputs, steps = {*jaxpr.invars, *jaxpr.constvars}, [], []
  for results in targets:
    steps.append(equations(jaxpr, results, known))
    outputs.append([v for eqn in steps[-1] for v in eqn.outvars if _lasts(v)])
    known |= {*outputs[-1]}
  cut: list[Stage] = []
  for n, results in enumerate(targets):
    used = _used(steps[n], results)
    later = set().union(*map(_used, steps[n + 1 :], targets[n + 1 :]))
    needs = [v for earlier in outputs[:n] for v in earlier if v in used]
    makes = [v for v in dict.fromkeys(outputs[n]) if v in later]
    run = part(closed, [*jaxpr.invars, *needs], [*results, *makes])
    computes = any(map(_multiplies, steps[n]))
    cut.append(Stage(run, needs, makes, computes))
  return cut


def _multiplies(eqn: JaxprEqn) -> bool:
  """Whether an equation, or one within it, is a product of matrices."""
  if eqn.primitive.name in ('dot_general', 'conv_general_dilated'):
    return True
  inner = (x for x in eqn.params.values() if isinstance(x, ClosedJaxpr | Jaxpr))
  return any(_multiplies(e) for program in inner for e in program.eqns)


def _lasts(v: Var) -> bool:
  """Whether a value can be a result of an executor's program; keys cannot."""
  aval: Any = v.aval
  return not jnp.issubdtype(aval.dtype, jax.dtypes.extended)


def _used(steps: list[Any], results: Sequence[Any]) -> set[Var]:
  """The values that equations and results refer to."""
  atoms = [*results, *(v for eqn in steps for v in eqn.invars)]
  return {v for v in atoms if not isinstance(v, Literal)}
