"""Which steps of a run an audit covers."""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import comparison
from gossipjax.audit.control_paths import Paths, alike_but_for_bits
from gossipjax.audit.harness import (
  Harness,
  compiled,
  has_conditionals,
  make_harness,
  shrunk,
  update_at,
  worker_traffic,
)
from gossipjax.audit.influence import shows_influence
from gossipjax.audit.runtime_branches import as_key, branches_of_run
from gossipjax.devices.inner_devices import ALONE, Inner
from gossipjax.errors import UserError
from gossipjax.local_step import Worker
from gossipjax.transforms.traced_collectives import kinds

_FIRST = 16  # Steps that are audited if some path matches no bill.
_BILLED = 64  # Steps whose branches are recorded if all paths match a bill.
_MOST = 32  # Different kinds of steps at most.
_FULL_MODEL = 128  # Steps of the full model, if a smaller one is no substitute.
# Steps of a run; each takes 2 to 3 ms on two cores, 7 to 16 with branches.
MAX_SEARCHED_STEPS = 3000


class Steps(NamedTuple):
  """Steps that an audit should cover.

  Attributes:
    numbers: of the steps, ascending.
    by_state: whether what a step sends also depends on the state of the
      workers, so that the audit has to run all steps before it.
  """

  numbers: list[int]
  by_state: bool


def audit_steps(
  strategy: Strategy,
  params: Tree,
  workers: int,
  horizon: int = MAX_SEARCHED_STEPS,
  state: Tree = (),
  inner: Inner = ALONE,
) -> Steps:
  """Chooses the steps among the first `horizon` that an audit should cover.

  It chooses the first step with each bill. In a program without branches it
  adds the first step at which a worker with a bill of zero affects another one
  (`influence.shows_influence`). If some control path matches no bill, and the
  program branches on the step or on the workers' data, it adds the first step
  with each choice of branches and bill, and the first 16 steps. If all paths
  match a bill, it adds those of the first 64 steps whose branches have several
  bills.

  The steps are found on a model of the same form with at most 32 entries along
  a dimension. If large tensors are exchanged in another way than its small
  ones, the first 128 steps of the whole model are searched, too.
  """
  make = functools.partial(
    make_harness, strategy, workers=workers, state=state, inner=inner
  )
  try:
    small = make(shrunk(params))
    steps = _steps(small, horizon)
  except UserError:  # Too small for a density, perhaps.
    return _steps(make(params), horizon)
  full = make(params)
  if _kinds(full) == _kinds(small):
    return steps  # Bills change at the same steps for smaller parameters.
  full_steps = _steps(full, min(horizon, _FULL_MODEL))
  numbers = sorted({*steps.numbers, *full_steps.numbers})
  return Steps(numbers, steps.by_state or full_steps.by_state)


def _kinds(harness: Harness) -> set[tuple[str, ...]]:
  """The kinds of collectives, branches and loops in an update."""
  update = lambda worker, grads, step: harness.update(worker, grads, step)
  trace = jax.make_jaxpr(harness.run(update))
  return kinds(trace(harness.worker, harness.large, step=np.int32(0)).jaxpr)


def _steps(harness: Harness, horizon: int) -> Steps:
  update = lambda worker, grads, step: harness.update(worker, grads, step)
  program, paths = compiled(harness, update, harness.large, step=np.int32(0))
  one_path = paths is not None and len(paths) == 1
  # With branches, workers on different ones would wait for each other.
  sends = paths is not None and any(paths) and not has_conditionals(program)
  bill = functools.partial(_bill, harness, program, sends)
  bills, by_state = _first_of_each(harness, bill, horizon)
  chosen, decides = {step for step, _ in bills}, False
  if _all_billed(harness, paths, [sent for _, sent in bills]):
    if not one_path:
      steps, decides = _by_branches(harness, update, min(horizon, _BILLED))
      counts = Counter(branches for _, branches in steps)
      # If the same branches have another bill, one of the bills may be wrong.
      chosen |= {step for step, branches in steps if counts[branches] > 1}
  else:
    first = update_at(harness, 0)
    of_first = lambda: compiled(harness, first, harness.large)[1]
    unknown = paths is None or by_state or alike_but_for_bits(paths)
    if unknown or paths != of_first():
      steps, decides = _by_branches(harness, update, horizon)
      chosen |= {*range(min(_FIRST, horizon))} | {step for step, _ in steps}
  return Steps(sorted(chosen), by_state or decides)


def _bill(harness: Harness, program, test_influence: bool, worker, step):
  """Runs a step. Its kind is its bill and, if `test_influence`, whether a
  worker with a bill of zero affects another one."""
  args, run = (worker, harness.large), functools.partial(program, step=step)
  after, sent = result = run(*args)
  sent = worker_traffic(harness, sent)
  sizes = np.asarray(sent.bytes)
  free = test_influence and shows_influence(run, args, result, sizes == 0, step)
  return after, (sizes.tobytes(), free), sent


def _by_branches(
  harness: Harness, update: Callable[..., Any], horizon: int
) -> tuple[list[tuple[int, Any]], bool]:
  """The first step with each choice of branches and bill, with the branches."""
  run = branches_of_run(harness, update, harness.large, step=np.int32(0))

  def choice(worker, step):
    (worker, sent), branches = run(worker, harness.large, step=step)
    key = str([*map(as_key, branches)])
    bill = np.asarray(worker_traffic(harness, sent).bytes).tobytes()
    return worker, (key, bill), key

  return _first_of_each(harness, choice, horizon)


def _first_of_each(
  harness: Harness, run: Callable[..., tuple[Worker, Any, Any]], horizon: int
) -> tuple[list[tuple[int, Any]], bool]:
  """Runs steps one after the other, until 32 kinds of steps are found.

  Args:
    harness: in which the steps run.
    run: `(worker, step) -> (the worker's next state, kind of step, result)`.
    horizon: number of steps to run.

  Returns:
    The first step of each kind with its result, and whether some kind depends
    on the state: the first state would have led to another kind at that step.
  """
  worker, first = harness.worker, dict[Any, tuple[int, Any]]()
  by_state = False
  for number in range(horizon):
    step = np.int32(number)
    worker, kind, result = run(worker, step)
    if kind in first:
      continue
    first[kind] = number, result
    by_state |= run(harness.worker, step)[1] != kind
    if len(first) == _MOST:
      break
  return [*first.values()], by_state


def _all_billed(harness: Harness, paths: Paths | None, bills: list) -> bool:
  """Whether the bytes of each control path match one of these bills."""
  devices = harness.inner.devices
  fits = lambda path, sent: comparison.holds(
    comparison.compare(0, [(path,) * devices], sent, devices=devices)
  )
  return paths is not None and all(
    any(fits(path, sent) for sent in bills) for path in paths
  )
