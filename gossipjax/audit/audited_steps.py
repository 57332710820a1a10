"""Which steps of a run an audit covers."""

from collections.abc import Callable
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
from gossipjax.audit.runtime_branches import branches_of_run
from gossipjax.devices.inner_devices import ALONE, Inner
from gossipjax.errors import UserError

_FIRST = 16  # Steps that are always audited if the program branches.
_MOST = 32  # Bills that differ.
# Steps of a run: 2 to 3 ms each on two cores, where branches are told 7 to 16.
LOOKED_AT = 3000


def audit_steps(
  strategy: Strategy,
  params: Tree,
  workers: int,
  horizon: int = LOOKED_AT,
  state: Tree = (),
  inner: Inner = ALONE,
) -> list[int]:
  """Steps among the first `horizon` that an audit should cover.

  These are the first step with each bill. If some control path has the bytes of
  no bill and the program branches on the step, also the first step with each
  choice of branches, and the first 16.
  """
  try:  # Bills change at the same steps for smaller parameters.
    small = make_harness(strategy, shrunk(params), workers, state, inner)
    return _steps(small, horizon)
  except UserError:  # Too small for a density, perhaps.
    harness = make_harness(strategy, params, workers, state, inner)
    return _steps(harness, horizon)


def _steps(harness: Harness, horizon: int) -> list[int]:
  update = lambda worker, grads, step: harness.update(worker, grads, step)
  program, paths = compiled(harness, update, harness.large, step=np.int32(0))
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
    chosen |= _first_of_branches(harness, update, horizon)
  return sorted(chosen)


def _first_of_branches(
  harness: Harness, update: Callable[..., Any], horizon: int
) -> set[int]:
  """The first step with each choice of branches."""
  taken = branches_of_run(harness, update, harness.large, step=np.int32(0))
  first: dict[str, int] = {}
  for step in range(horizon):
    branches = taken(harness.worker, harness.large, step=np.int32(step))
    of_devices = [sorted(mine.items()) for mine in branches]
    first.setdefault(repr(of_devices), step)
    if len(first) == _MOST:
      break
  return set(first.values())
