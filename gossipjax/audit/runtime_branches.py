"""Records at run time which branches of data-dependent conditionals are taken.

The text of a compiled program lists all branches. If data select one, only a
run shows which branch, and thus which collectives, it takes.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.extend.core import JaxprEqn

from gossipjax.audit.control_paths import Paths, TooManyPaths
from gossipjax.audit.harness import Harness, compiled, executable
from gossipjax.collectives import INNER
from gossipjax.transforms import traced
from gossipjax.transforms.traced_collectives import opened, programs, sending

# (number of the conditional, index of its branch) -> index to use instead. If
# that is a Python int, the branch itself replaces the conditional.
Decide = Callable[[int, jax.Array], jax.Array | int]
Branches = dict[int, set[int]]  # Branches taken, by number of the conditional.
_MOST_TURNS = 256  # Most turns of a loop that is unrolled.


def branches_of_run(
  harness: Harness, program: Callable[..., Any], *args: Any, **shared: Any
) -> Callable[..., tuple[Any, list[Branches]]]:
  """Finds the branches that a run of a program takes.

  Args:
    harness: in which the program runs.
    program: of one worker.
    args, shared: example arguments of the program after the worker.

  Returns:
    `(worker, *args, **shared) -> (result of the program, branches)`, where
    branches has for each device of a worker the indices of the branches that
    the run takes, by the number of the conditional.
  """
  indices: list[Branches] = [{} for _ in range(harness.inner.devices)]
  record = _deciding(program, _record(indices))
  recording, _ = executable(harness, record, *args, **shared)

  def run(worker, *args, **shared):
    for of_device in indices:
      of_device.clear()
    result = jax.block_until_ready(recording(worker, *args, **shared))
    jax.effects_barrier()
    return result, [dict(of_device) for of_device in indices]

  return run


def paths_of_run(
  harness: Harness,
  program: Callable[..., Any],
  whole: tuple[Any, Paths | None],
  *args: Any,
  **shared: Any,
) -> Callable[..., tuple[tuple[Paths, ...], Any]]:
  """Finds the control paths that a run of a program takes.

  Each device has a single path, unless a loop of more than 256 turns has a
  conditional that takes several branches. The devices of a worker may differ if
  each holds a shard. The program is run once more to record the indices of its
  branches; then it is compiled with these branches in place of conditionals.

  Args:
    harness: in which the program runs.
    program: of one worker.
    whole: what `compiled` returns for it.
    args, shared: example arguments of the program after the worker.

  Returns:
    `(worker, *args, **shared) -> (paths of each device of a worker, program)`
    for a run with these arguments. The program is that of all workers. If the
    devices agree on the branches, it takes these branches for any arguments.
  """
  _, paths = whole
  if paths is not None and len(paths) == 1:
    found = (paths,) * harness.inner.devices
    return lambda *_, **shared: (found, functools.partial(whole[0], **shared))
  branches = branches_of_run(harness, program, *args, **shared)
  cache: dict[str, tuple[Any, Paths]] = {}

  def run(worker, *args, **shared) -> tuple[tuple[Paths, ...], Any]:
    _, indices = branches(worker, *args, **shared)
    of_devices = [(as_key(i), i) for i in indices]
    for key, recorded in of_devices:
      if key not in cache:
        repeating = _deciding(program, _repeat(recorded))
        repeated, repeated_paths = compiled(harness, repeating, *args, **shared)
        cache[key] = repeated, _of_both(paths, repeated_paths)
    programs, found = zip(*(cache[key] for key, _ in of_devices), strict=True)
    chosen = programs[0] if len({*programs}) == 1 else whole[0]
    return found, functools.partial(chosen, **shared)

  return run


def as_key(branches: Branches) -> str:
  """A text that is equal for equal branches."""
  return str([(k, sorted(taken)) for k, taken in sorted(branches.items())])


def _of_both(paths: Paths | None, repeated: Paths | None) -> Paths:
  """The paths of a program that are also paths of its repetition."""
  if paths is None and repeated is None:
    raise TooManyPaths(
      'audit finds too many control paths in a step to compare, since loops '
      'take several branches; audit a config with fewer branches in loops.'
    )
  if paths is None or repeated is None:
    return paths or repeated or frozenset()
  return paths & repeated or paths


def _record(indices: list[Branches]) -> Decide:
  """Keeps the index of a branch, and adds it to the indices of this device."""

  def decide(number: int, index: jax.Array) -> jax.Array:
    device = lax.axis_index(INNER) if len(indices) > 1 else 0
    jax.debug.callback(
      lambda i, value: indices[i].setdefault(number, set()).add(value.item()),
      device,
      index,
    )
    return index

  return decide


def _repeat(indices: Branches) -> Decide:
  """Replaces the index of a branch by the recorded one if there is only one."""

  def decide(number: int, index: jax.Array) -> jax.Array | int:
    # Keeps the computation of the index, and its collectives, in the program.
    jax.debug.callback(lambda value: None, index)
    recorded = indices.get(number, set())
    return next(iter(recorded)) if len(recorded) == 1 else index

  return decide


def _deciding(
  program: Callable[..., Any], decide: Decide
) -> Callable[..., Any]:
  """A program whose conditionals use the index that `decide` returns. Loops
  around conditionals that communicate are unrolled, so that each turn
  decides."""

  def run(*args, **shared):
    numbers = itertools.count()

    def replace(equation, operands, run):
      turns = traced.trip_count(equation)
      if 0 < turns <= _MOST_TURNS and _talks_in_branches(equation):
        return traced.unrolled(equation, operands, rewriting, turns)
      if not _is_conditional(equation):
        return run(operands)
      index, *rest = operands
      taken = decide(next(numbers), index)
      if not isinstance(taken, int):
        return run([taken, *rest])
      return _branch(equation.params['branches'], taken, rest, rewriting)

    rewriting = traced.Rewriting(_is_conditional, replace)
    of_args = functools.partial(program, **shared)
    return traced.replaced(of_args, rewriting)(*args)

  return run


def _is_conditional(equation: JaxprEqn) -> bool:
  return equation.primitive.name == 'cond'


def _branch(branches, taken: int, operands: list, rewriting) -> list:
  """The results of one branch. The other branches are only traced, because the
  numbering counts their conditionals, too."""
  for number, branch in enumerate(branches):
    run = functools.partial(traced.evaluate, branch, rewriting)
    if number == taken:
      results = run(operands)
    else:
      jax.eval_shape(run, operands)
  return results


def _talks_in_branches(equation: JaxprEqn) -> bool:
  """Whether a branch inside an equation communicates."""
  if _is_conditional(equation):
    return any(any(sending(opened(b))) for b in programs(equation))
  inner = (e for called in programs(equation) for e in opened(called).eqns)
  return any(map(_talks_in_branches, inner))
