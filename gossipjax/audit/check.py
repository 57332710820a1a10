"""Audits a strategy: its ledger against its compiled program, step by step."""

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import comparison
from gossipjax.audit.audited_steps import MAX_SEARCHED_STEPS, audit_steps
from gossipjax.audit.harness import (
  Harness,
  compiled,
  has_conditionals,
  make_harness,
  update_at,
  worker_traffic,
)
from gossipjax.audit.influence import lacks_influence
from gossipjax.audit.row import Row
from gossipjax.audit.runtime_branches import paths_of_run
from gossipjax.devices.inner_devices import ALONE, Inner
from gossipjax.errors import UserError

# Scales of gradients: some triggers fire only between large and zero ones.
_SCALES = 1, 1e-3, 1e-6, 0


class Unbalanced(UserError):
  """A ledger differs from the compiled program without a named reason."""


def audit(
  strategy: Strategy,
  params: Tree,
  workers: int,
  steps: Iterable[int],
  absent: Iterable[int] = (),
  state: Tree = (),
  inner: Inner = ALONE,
  by_state: bool = False,
) -> list[Row]:
  """Compiles and runs one update for each of `steps`.

  It runs with gradients so large that every worker communicates, with a
  thousandth and a millionth of these, and last with zero gradients in the state
  that the run before left. Runs with different bills get separate rows; so do
  runs of which only one agrees. Unless `by_state`, the step is a constant of
  the program, so that branches on it are resolved by the compiler.

  Args:
    strategy: all slots are audited, around a step of SGD.
    params: of one worker; only shapes and dtypes matter.
    workers: two or more, a device for each.
    steps: numbers of the steps.
    absent: workers that are absent in an additional last run. If there are any,
      all messages of all runs carry presence flags.
    state: what a model keeps besides parameters; only its shapes and dtypes.
    inner: what the devices of a worker do; the strategy is what its
      `exchanging` returned.
    by_state: also run all steps before each of `steps`; otherwise each step
      begins with the first state of the workers.

  Returns:
    One to five rows per step. If a worker is several devices, there is one for
    the bytes between workers and one for those within them in place of each.

  Raises:
    Unbalanced: a bill has bytes but no rounds, or fewer path_bytes than bytes.
    UserError: too few workers or devices, or a program that cannot be audited.
  """
  harness = make_harness(strategy, params, workers, state, inner)
  runs = _runs(workers, list(absent))
  first_args = harness.large, *runs[0][1:]
  steps_of = _played if by_state else _from_the_first
  rows = lambda full: [
    row
    for step, worker, *run in steps_of(harness, sorted(steps), first_args)
    for row in _rows(harness, step, worker, runs, full, *run)
  ]
  found = rows(None)
  if not comparison.is_conclusive(found, by_state):
    # At some steps not all workers send, even with large gradients.
    found = rows(comparison.fullest(found))
  return [x for row in found for x in comparison.levels(row, inner.devices)]


def _runs(workers: int, absent: list[int]) -> list[tuple]:
  """For each run of a step: the scale of the gradients, the active workers."""
  if not absent:
    return [(scale,) for scale in _SCALES]
  everyone = np.ones(workers, bool)
  present = ~np.isin(np.arange(workers), absent)
  return [*((scale, everyone) for scale in _SCALES), (1, present)]


def _from_the_first(harness: Harness, steps: list[int], args: tuple):
  """Yields for each step its number, the workers' first state, its program with
  the step as a constant, whether the program branches, and a function that
  finds the control paths of a run."""
  for step in steps:
    update = update_at(harness, step)
    program, _ = whole = compiled(harness, update, *args)
    find = paths_of_run(harness, update, whole, *args)
    yield step, harness.worker, program, has_conditionals(program), find


def _played(harness: Harness, steps: list[int], args: tuple):
  """Yields the same for the state after all earlier steps, with one program."""

  def update(worker, grads, *active, step):
    return harness.update(worker, grads, step, True, *active)

  program, _ = whole = compiled(harness, update, *args, step=np.int32(0))
  find = paths_of_run(harness, update, whole, *args, step=np.int32(0))
  worker, branching = harness.worker, has_conditionals(program)
  for begun, end in itertools.pairwise([0, *steps]):
    for step in range(begun, end):
      worker, _ = program(worker, *args, step=np.int32(step))
    at = {'step': np.int32(end)}
    bound, bound_find = (functools.partial(f, **at) for f in (program, find))
    yield end, worker, bound, branching, bound_find


def _rows(
  harness: Harness, step: int, worker, runs, full, program, branching, find
) -> list[Row]:
  result, state = list[Row](), worker
  for scale, *active in runs:
    start = worker if 0 < scale < 1 else state
    args = start, harness.gradients(scale), *active
    paths, decided = find(*args)
    state, sent = program(*args)
    if not comparison.has_valid_rounds(bill := worker_traffic(harness, sent)):
      raise Unbalanced(
        f'--audit: at step {step} a bill has bytes without a round, or fewer '
        'path_bytes than bytes, so that modelled seconds are too short.'
      )
    row = comparison.compare(
      step,
      itertools.product(*paths),
      bill,
      full or (result[0] if result else None),
      functools.partial(lacks_influence, decided, args, branching),
      harness.inner.devices,
    )
    # A row that holds must not hide one with the same bill that does not.
    if not any(
      (row.ledger == r.ledger).all()
      and comparison.holds(row) == comparison.holds(r)
      for r in result
    ):
      result.append(row)
  return result


def report(
  name: str,
  strategy: Strategy,
  params: Tree,
  state: Tree,
  workers: int,
  horizon: int,
  inner: Inner = ALONE,
) -> list[dict[str, Any]]:
  """Audits the steps of a run of `horizon` steps that `audit_steps` chooses.

  Args:
    name: of the variant, for a message.
    strategy: to audit.
    params, state: of one worker; only shapes and dtypes matter.
    workers: two or more, a device for each.
    horizon: steps of the run; at most the first 3,000 are considered.
    inner: as that of `audit`.

  Returns:
    A JSON object per row: bytes that the worker of `comparison.worst` sends.
    If rows differ only in their step, the first of them.

  Raises:
    Unbalanced: a ledger differs from the compiled program without a reason.
  """
  most = min(horizon, MAX_SEARCHED_STEPS)
  steps, by_state = audit_steps(strategy, params, workers, most, state, inner)
  # The compiler drops messages that depend on the step alone, such as flags.
  for step_is_argument in [True] if by_state else [False, True]:
    found = audit(
      strategy, params, workers, steps, (), state, inner, step_is_argument
    )
    if comparison.is_conclusive(found, step_is_argument):
      break
  for row in found:
    if not comparison.holds(row):
      raise Unbalanced(f'--audit of {name}: {comparison.sentence(row)}.')
  unique: dict[str, dict[str, Any]] = {}
  for line in map(comparison.as_json, found):
    unique.setdefault(str(line | {'step': 0}), line)
  return [*unique.values()]
