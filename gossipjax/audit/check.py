"""A strategy's ledger against its compiled program, step by step."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import comparison
from gossipjax.audit.harness import Stage, at, compiled, set_up, shrunk
from gossipjax.audit.runtime_branches import witness
from gossipjax.errors import UserError

_FIRST = 16  # Steps that are always looked at if the program branches.
_MOST = 32  # Different bills.


class Unbalanced(UserError):
  """A ledger differs from the compiled program, and nothing explains it."""


def audit(
  strategy: Strategy,
  params: Tree,
  workers: int,
  steps: Iterable[int],
  absent: Iterable[int] = (),
) -> list[comparison.Row]:
  """Compiles and runs one update for each of `steps`.

  With gradients so loud that everyone talks, then with silent ones; that is a
  row of its own if the bill differs. The step is a constant of the program, so
  that the compiler takes the branches which this step takes.

  Args:
    strategy: what to audit: both slots, around a step of SGD.
    params: of one worker; only shapes and dtypes matter.
    workers: two or more, a device for each.
    steps: which.
    absent: workers that miss a third run. To allow for that, all messages
      carry presence flags.
  """
  stage = set_up(strategy, params, workers)
  runs = [(stage.loud,), (stage.silent,)]
  if absent := list(absent):
    everyone = np.ones(workers, bool)
    present = ~np.isin(np.arange(workers), absent)
    runs = [
      (stage.loud, everyone),
      (stage.silent, everyone),
      (stage.loud, present),
    ]
  return [row for step in steps for row in _audited(stage, step, runs)]


def _audited(stage: Stage, step: int, runs) -> list[comparison.Row]:
  update, worker, result = at(stage, step), stage.worker, []
  program, found = compiled(stage, update, *runs[0])
  taken = witness(stage, update, found, *runs[0])
  for args in runs:
    ways = taken(worker, *args)
    worker, sent = program(worker, *args)
    row = comparison.compare(step, ways, jax.device_get(sent), *result[:1])
    if not any((row.ledger == r.ledger).all() for r in result):
      result.append(row)
  return result


def audit_steps(
  strategy: Strategy, params: Tree, workers: int, horizon: int = 300
) -> list[int]:
  """Steps among the first `horizon` that are worth an audit.

  The first with each bill. If the step decides between ways to communicate
  and no bill is that of some way, the first few steps as well.
  """
  try:  # Bills change at the same steps for smaller parameters.
    return _steps(set_up(strategy, shrunk(params), workers), horizon)
  except UserError:  # Too small for a density, perhaps.
    return _steps(set_up(strategy, params, workers), horizon)


def _steps(stage: Stage, horizon: int) -> list[int]:
  program, found = compiled(
    stage,
    lambda worker, grads, step: stage.update(worker, grads, step),
    stage.loud,
    step=np.int32(0),
  )
  bills = {}
  for step in range(horizon if len(found) > 1 else min(_FIRST, horizon)):
    _, sent = program(stage.worker, stage.loud, step=np.int32(step))
    sent = jax.device_get(sent)
    bills.setdefault(np.asarray(sent.bytes).tobytes(), (step, sent))
    if len(bills) == _MOST:
      break
  chosen = {step for step, _ in bills.values()}
  billed = all(
    any(
      comparison.holds(comparison.compare(0, frozenset([way]), sent))
      for _, sent in bills.values()
    )
    for way in found
  )
  if not billed and found != compiled(stage, at(stage, 0), stage.loud)[1]:
    chosen |= set(range(min(_FIRST, horizon)))
  return sorted(chosen)


def report(
  name: str, strategy: Strategy, params: Tree, workers: int, horizon: int
) -> list[dict[str, Any]]:
  """`audit` of the steps worth it in a run of `horizon`, ready for JSON.

  Numbers are those of one worker, see `rows.worst`.

  Raises:
    Unbalanced: there is a difference that nothing explains.
  """
  steps = audit_steps(strategy, params, workers, min(horizon, 300))
  found = audit(strategy, params, workers, steps)
  for row in found:
    if not comparison.holds(row):
      raise Unbalanced(f'--audit of {name}: {comparison.sentence(row)}.')
  return [_json(row) for row in found]


def _json(row: comparison.Row) -> dict[str, Any]:
  i = comparison.worst(row)
  return {
    'step': row.step,
    'worker': i,
    'kinds': {kind: int(sent[i]) for kind, sent in row.kinds.items()},
    'compiled': int(row.compiled[i]),
    'ledger': int(row.ledger[i]),
    'reason': row.reason,
  }
