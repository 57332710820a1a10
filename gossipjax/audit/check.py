"""Audits a strategy: its ledger against its compiled program, step by step."""

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
  compiled,
  make_harness,
  update_at,
)
from gossipjax.audit.runtime_branches import paths_of_run
from gossipjax.devices.inner_devices import ALONE, Inner
from gossipjax.errors import UserError


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
  steps = audit_steps(strategy, params, workers, most, state, inner)
  found = audit(strategy, params, workers, steps, state=state, inner=inner)
  for row in found:
    if not comparison.holds(row):
      raise Unbalanced(f'--audit of {name}: {comparison.sentence(row)}.')
  told: dict[str, dict[str, Any]] = {}
  for line in map(comparison.as_json, found):
    told.setdefault(str(line | {'step': 0}), line)
  return [*told.values()]
