"""Compares one step of a ledger with the compiled program."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gossipjax.audit.row import DevicePaths, Row, make_row
from gossipjax.traffic import Traffic

# A bill is a sum: it does not say which part of a message is unpaid, so the
# audit cannot check that this part has no effect.
_SHORT_BILL = (
  '; bill every message. A bill may leave out a part of the messages of a '
  'worker only if another audited step bills all messages of all workers. Let '
  'the step choose what travels, the same for all workers, or mask the whole '
  'exchange of a worker'
)


def holds(row: Row) -> bool:
  """Whether the ledger equals the compiled bytes after correction."""
  return bool((row.ledger == row.explained).all())


def worst(row: Row) -> int:
  """The worker with the largest difference; among equals, the one that sends
  the most compiled bytes beyond its ledger, then the most compiled bytes."""
  return max(
    range(len(row.ledger)),
    key=lambda i: (
      abs(row.ledger[i] - row.explained[i]),
      row.compiled[i] - row.ledger[i],
      row.compiled[i],
    ),
  )


def sentence(row: Row) -> str:
  """Describes the `worst` worker of a row in one sentence."""
  i, because = worst(row), f' ({row.reason})' if row.reason else ''
  verdict = 'which agrees' if holds(row) else 'which DIFFERS without a reason'
  kinds = (
    ', '.join(f'{kind} {sent[i]:,}' for kind, sent in sorted(row.kinds.items()))
    or 'nothing'
  )
  whom = 'among its devices ' * row.within
  return (
    f'at step {row.step} worker {i} sends {whom}{row.ledger[i]:,} bytes by the '
    f'ledger and {row.compiled[i]:,} compiled ({kinds}'
    + f' in one of {row.paths} control paths' * (row.paths > 1)
    + f'), {verdict}{because}'
    + _SHORT_BILL * bool(0 < row.ledger[i] < row.explained[i])
  )


def has_valid_rounds(sent: Traffic) -> bool:
  """Whether each worker that sends bytes has at least one round, and path_bytes
  no fewer than its bytes: modelled seconds need both. Leaves are [workers]."""
  sends, rounds, path = map(
    np.asarray, (sent.bytes, sent.rounds, sent.path_bytes)
  )
  return bool(((sends == 0) | ((rounds > 0) & (path >= sends))).all())


def as_json(row: Row) -> dict[str, Any]:
  """A row as a JSON object: the bytes of its `worst` worker."""
  i = worst(row)
  return {
    'step': row.step,
    'worker': i,
    'kinds': {kind: int(sent[i]) for kind, sent in row.kinds.items()},
    'compiled': int(row.compiled[i]),
    'ledger': int(row.ledger[i]),
    'reason': row.reason,
    **({'within': True} if row.within else {}),
  }


def levels(row: Row, devices: int) -> list[Row]:
  """Splits a row of `compare` into one of bytes between workers and one of
  bytes within them; for one device per worker, the row stays whole."""
  if devices == 1:
    return [row]
  workers = len(row.ledger) // 2
  cut = lambda x, part: x[:workers] if part == 0 else x[workers:]
  return [
    row._replace(
      kinds={k: c for k, v in row.kinds.items() if (c := cut(v, part)).any()},
      compiled=cut(row.compiled, part),
      explained=cut(row.explained, part),
      ledger=cut(row.ledger, part),
      reason='' if part else row.reason,
      within=bool(part),
    )
    for part in range(2)
  ]


def compare(
  step: int,
  candidates: Iterable[DevicePaths],
  sent: Traffic,
  full: Row | None = None,
  lacks_influence: Callable[[np.ndarray], bool] = lambda silent: False,
  devices: int = 1,
) -> Row:
  """Compares a ledger with the control path that fits it best.

  A ledger of zero bytes is accepted as `masked` although bytes move: in a
  lock-step program a silent worker's message moves, and is ignored.

  Args:
    step: to write into the row.
    candidates: control paths that a run of the compiled program may have taken.
    sent: the ledger of that run, leaves [workers].
    full: the row of a run of the same program in which all workers sent. With
      it, a ledger may be smaller anywhere if as many bytes move as in that run.
    lacks_influence: whether these workers, bool[workers], affect no other.
    devices: of a worker. If there are several, the arrays of the row are
      i64[2 workers]: bytes between workers, then bytes within them.

  Returns:
    The row of a candidate that agrees; if none does, that of the nearest one.
  """
  rows = [make_row(step, candidate, sent, devices) for candidate in candidates]
  rows = [row._replace(paths=len(rows)) for row in rows]
  for row in rows:
    if holds(row):
      return row
  silent = np.asarray(sent.bytes) == 0
  for row in rows:
    if _may_be_masked(row, silent, full) and lacks_influence(silent):
      because = ', '.join(filter(None, [row.reason, 'masked']))
      return row._replace(explained=row.ledger, reason=because)
  return min(rows, key=lambda row: np.abs(row.ledger - row.explained).sum())


def _may_be_masked(row: Row, silent: np.ndarray, full: Row | None) -> bool:
  """Whether a ledger is below the compiled bytes only where that is allowed."""
  billed = np.ones(len(row.ledger), bool)
  billed[: len(silent)] = ~silent
  if (row.ledger == row.explained)[billed].all():
    return True
  if full is None or not holds(full):
    return False
  gaps = full.ledger - row.ledger
  same = row.compiled == full.compiled  # Else a branch may hide some bytes.
  return bool(gaps.any() and (gaps >= 0).all() and same.all())


def is_conclusive(rows: list[Row], by_state: bool) -> bool:
  """Whether a `full` row from another step could not change the verdict.

  If the step is a constant, the compiler drops messages that all workers ignore
  at this step. So if all workers pay for only a part of what moves, the rest is
  used, and the ledger is wrong.
  """

  def free(row: Row) -> bool:
    alike = (row.ledger == row.ledger[0]).all() and row.ledger[0] > 0
    return bool(alike and (row.compiled > row.ledger).all())

  short = [row for row in rows if not holds(row)]
  return not short or (not by_state and any(map(free, short)))


def fullest(rows: list[Row]) -> Row | None:
  """The unmasked row with the largest ledger, in which each worker's bytes are
  its most in any row with the same compiled bytes."""
  unmasked = [row for row in rows if 'masked' not in row.reason]
  largest = max(unmasked, key=lambda row: row.ledger.sum(), default=None)
  if largest is None:
    return None
  ledgers = [r.ledger for r in rows if (r.compiled == largest.compiled).all()]
  return largest._replace(ledger=np.max(ledgers, axis=0))
