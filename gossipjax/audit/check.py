"""Audits a strategy: its ledger against its compiled program, step by step."""

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import comparison
from gossipjax.audit.audited_steps import LOOKED_AT, audit_steps
from gossipjax.audit.harness import (
  Harness,
  billed,
  branches,
  compiled,
  make_harness,
  update_at,
)
from gossipjax.audit.row import Row
from gossipjax.audit.runtime_branches import paths_of_run
from gossipjax.audit.silence import unheard
from gossipjax.devices.inner_devices import ALONE, Inner
from gossipjax.errors import UserError

# Of gradients. A trigger may have thresholds between a large one and nothing.
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
  thousandth and a millionth of these, and last with none, in the state that the
  run before left. Another bill is a row of its own, as is one that does not
  agree beside one that does. Unless `by_state`, the step is a constant of the
  program, so that branches on it are known when it compiles.

  Args:
    strategy: all slots are audited, around a step of SGD.
    params: of one worker; only shapes and dtypes matter.
    workers: two or more, a device for each.
    steps: numbers of the steps.
    absent: workers that are missing in a last run. If there are any, all
      messages of all runs carry presence flags.
    state: what a model keeps besides parameters, likewise.
    inner: what the devices of a worker do; the strategy is what its
      `exchanging` returned.
    by_state: run all steps before each of `steps` too; else each step begins
      with the first state of the workers.

  Returns:
    One to five rows per step; where workers are several devices, one between
    workers and one within them for each.

  Raises:
    Unbalanced: a bill of bytes without rounds, or with fewer path_bytes.
    UserError: too few workers or devices, or a program that cannot be audited.
  """
  harness = make_harness(strategy, params, workers, state, inner)
  runs = _runs(workers, list(absent))
  first = harness.large, *runs[0][1:]
  steps_of = _played if by_state else _from_the_first
  rows = lambda full: [
    row
    for step, worker, *run in steps_of(harness, sorted(steps), first)
    for row in _rows(harness, step, worker, runs, full, *run)
  ]
  found = rows(None)
  if not comparison.settled(found, by_state):
    # At some steps large gradients do not make all talk.
    found = rows(comparison.fullest(found))
  return [x for row in found for x in comparison.levels(row, inner.devices)]


def _runs(workers: int, absent: list[int]) -> list[tuple]:
  """Of the runs of a step the scale of the gradients, and who is active."""
  if not absent:
    return [(scale,) for scale in _SCALES]
  everyone = np.ones(workers, bool)
  present = ~np.isin(np.arange(workers), absent)
  return [*((scale, everyone) for scale in _SCALES), (1, present)]


def _from_the_first(harness: Harness, steps: list[int], args: tuple):
  """Of each step its number, the first state of the workers, its program with
  the step as a constant, whether it branches, and how to find the control paths
  of a run."""
  for step in steps:
    update = update_at(harness, step)
    program, _ = whole = compiled(harness, update, *args)
    taken = paths_of_run(harness, update, whole, *args)
    yield step, harness.worker, program, branches(program), taken


def _played(harness: Harness, steps: list[int], args: tuple):
  """The same in the state that the steps before left, of one program."""

  def update(worker, grads, *active, step):
    return harness.update(worker, grads, step, True, *active)

  program, _ = whole = compiled(harness, update, *args, step=np.int32(0))
  taken = paths_of_run(harness, update, whole, *args, step=np.int32(0))
  worker, branching = harness.worker, branches(program)
  for begun, end in itertools.pairwise([0, *steps]):
    for step in range(begun, end):
      worker, _ = program(worker, *args, step=np.int32(step))
    at = {'step': np.int32(end)}
    its, find = (functools.partial(f, **at) for f in (program, taken))
    yield end, worker, its, branching, find


def _rows(
  harness: Harness, step: int, worker, runs, full, program, branching, taken
) -> list[Row]:
  result, state = list[Row](), worker
  for scale, *active in runs:
    begun = worker if 0 < scale < 1 else state
    args = begun, harness.gradients(scale), *active
    paths, decided = taken(*args)
    state, sent = program(*args)
    if not comparison.has_seconds(bill := billed(harness, sent)):
      raise Unbalanced(
        f'--audit: at step {step} a worker sends bytes in no round, or its '
        'path_bytes are fewer, so that modelled seconds are too short.'
      )
    row = comparison.compare(
      step,
      itertools.product(*paths),
      bill,
      full or (result[0] if result else None),
      functools.partial(unheard, decided, args, branching),
      harness.inner.devices,
    )
    # One that does not hold is never told by one that does.
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
    horizon: steps of the run; at most 3,000 are looked at.
    inner: as that of `audit`.

  Returns:
    A JSON object per row: bytes that the worker of `comparison.worst` sends.
    Of rows that differ in their step only, the first.

  Raises:
    Unbalanced: a ledger differs from the compiled program without a reason.
  """
  most = min(horizon, LOOKED_AT)
  steps, by_state = audit_steps(strategy, params, workers, most, state, inner)
  # The compiler drops messages that follow from the step alone: flags, say.
  for step_is_argument in [True] if by_state else [False, True]:
    found = audit(
      strategy, params, workers, steps, (), state, inner, step_is_argument
    )
    if comparison.settled(found, step_is_argument):
      break
  for row in found:
    if not comparison.holds(row):
      raise Unbalanced(f'--audit of {name}: {comparison.sentence(row)}.')
  told: dict[str, dict[str, Any]] = {}
  for line in map(comparison.as_json, found):
    told.setdefault(str(line | {'step': 0}), line)
  return [*told.values()]
