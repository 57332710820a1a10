"""Audits a strategy: its ledger against its compiled program, step by step."""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import comparison
from gossipjax.audit.harness import (
  Harness,
  billed,
  compiled,
  make_harness,
  shrunk,
  update_at,
)
from gossipjax.audit.runtime_branches import paths_of_run
from gossipjax.devices.inner_devices import ALONE, Inner
from gossipjax.errors import UserError

_FIRST = 16  # Steps that are always audited if the program branches.
_MOST = 32  # Bills that differ.
_LOOKED_AT = 3000  # Steps of a run: 2 to 3 ms each on two cores.


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
) -> list[comparison.Row]:
  """Compiles and runs one update for each of `steps`.

  It runs with gradients so large that every worker communicates, then with
  gradients of zero, which is a row of its own if its bill is another, or only
  one of the two agrees. The step is a constant of the program, so that branches
  on the step are known when it compiles.

  Args:
    strategy: all slots are audited, around a step of SGD.
    params: of one worker; only shapes and dtypes matter.
    workers: two or more, a device for each.
    steps: numbers of the steps.
    absent: workers that are missing in a third run. If there are any, all
      messages of all runs carry presence flags.
    state: what a model keeps besides parameters, likewise.
    inner: what the devices of a worker do; the strategy is what its
      `exchanging` returned.

  Returns:
    One to three rows per step; where workers are several devices, one between
    workers and one within them for each.

  Raises:
    UserError: too few workers or devices, or a program that cannot be audited.
  """
  harness = make_harness(strategy, params, workers, state, inner)
  runs: list[tuple] = [(harness.large,), (harness.zero,)]
  if absent := list(absent):
    everyone = np.ones(workers, bool)
    present = ~np.isin(np.arange(workers), absent)
    runs = [
      (harness.large, everyone),
      (harness.zero, everyone),
      (harness.large, present),
    ]
  return [
    level
    for step in steps
    for row in _rows(harness, step, runs)
    for level in comparison.levels(row, inner.devices)
  ]


def _rows(harness: Harness, step: int, runs) -> list[comparison.Row]:
  update, worker = update_at(harness, step), harness.worker
  result: list[comparison.Row] = []
  program, paths = compiled(harness, update, *runs[0])
  taken = paths_of_run(harness, update, paths, *runs[0])
  for args in runs:
    ways = itertools.product(*taken(worker, *args))
    worker, sent = program(worker, *args)
    row = comparison.compare(
      step,
      ways,
      billed(harness, sent),
      result[0] if result else None,
      devices=harness.inner.devices,
    )
    # One that does not hold is never told by one that does.
    if not any(
      (row.ledger == r.ledger).all()
      and comparison.holds(row) == comparison.holds(r)
      for r in result
    ):
      result.append(row)
  return result


def audit_steps(
  strategy: Strategy,
  params: Tree,
  workers: int,
  horizon: int = _LOOKED_AT,
  state: Tree = (),
  inner: Inner = ALONE,
) -> list[int]:
  """Steps among the first `horizon` that an audit should cover.

  These are the first step with each bill. If the program branches on the step
  and some control path has the bytes of no bill, the first 16 as well.
  """
  try:  # Bills change at the same steps for smaller parameters.
    small = make_harness(strategy, shrunk(params), workers, state, inner)
    return _steps(small, horizon)
  except UserError:  # Too small for a density, perhaps.
    harness = make_harness(strategy, params, workers, state, inner)
    return _steps(harness, horizon)


def _steps(harness: Harness, horizon: int) -> list[int]:
  program, paths = compiled(
    harness,
    lambda worker, grads, step: harness.update(worker, grads, step),
    harness.large,
    step=np.int32(0),
  )
  bills = {}
  branches = paths is None or len(paths) > 1
  for step in range(horizon if branches else min(_FIRST, horizon)):
    _, sent = program(harness.worker, harness.large, step=np.int32(step))
    sent = billed(harness, sent)
    bills.setdefault(np.asarray(sent.bytes).tobytes(), (step, sent))
    if len(bills) == _MOST:
      break
  chosen = {step for step, _ in bills.values()}
  devices = harness.inner.devices
  all_billed = paths is not None and all(
    any(
      comparison.holds(
        comparison.compare(0, [(path,) * devices], sent, devices=devices)
      )
      for _, sent in bills.values()
    )
    for path in paths
  )
  first = update_at(harness, 0)
  if not all_billed and (
    paths is None or paths != compiled(harness, first, harness.large)[1]
  ):
    chosen |= set(range(min(_FIRST, horizon)))
  return sorted(chosen)


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
  most = min(horizon, _LOOKED_AT)
  steps = audit_steps(strategy, params, workers, most, state, inner)
  found = audit(strategy, params, workers, steps, state=state, inner=inner)
  for row in found:
    if not comparison.holds(row):
      raise Unbalanced(f'--audit of {name}: {comparison.sentence(row)}.')
  told: dict[str, dict[str, Any]] = {}
  for line in map(comparison.as_json, found):
    told.setdefault(str(line | {'step': 0}), line)
  return [*told.values()]
