"""Columns that only some comparisons have in their table."""

from collections.abc import Sequence
from typing import Any

from gossipjax import network
from gossipjax.comparison.units import count, duration, size


def per_step(sent: float | None, run: dict[str, Any]) -> str:
  """Bytes per step; '' if they were not counted, or no step was done."""
  return size(sent / run['steps']) if sent is not None and run['steps'] else ''


def exchanges(run: dict[str, Any]) -> dict[str, str]:
  """How often a run exchanged; runs of older versions did not count that."""
  if run.get('exchanges') is None:
    return {}
  done, steps = count(run['exchanges']), count(run['steps'])
  return {'exchanges': f'{done} in {steps} steps'}


def local(
  run: dict[str, Any], runs: Sequence[dict[str, Any]]
) -> dict[str, str]:
  """A column if workers of any run form groups."""
  if not any(r.get('bytes_local') for r in runs):
    return {}
  sent = run.get('bytes_local')
  return {'sent within groups per step': per_step(sent, run)}


def inner(
  run: dict[str, Any], runs: Sequence[dict[str, Any]]
) -> dict[str, str]:
  """A column if workers of any run are several devices."""
  if not any(r.get('bytes_inner') for r in runs):
    return {}
  sent = run.get('bytes_inner')
  return {'sent within a worker per step': per_step(sent, run)}


def evaluation(
  run: dict[str, Any], runs: Sequence[dict[str, Any]]
) -> dict[str, str]:
  """A column if models of any run keep a state that is averaged for scores."""
  if not any(r.get('bytes_evaluation') for r in runs):
    return {}
  sent = run.get('bytes_evaluation')
  return {'sent in all to evaluate': size(sent) if sent else ''}


def hidden(
  run: dict[str, Any], runs: Sequence[dict[str, Any]], link: str
) -> dict[str, str]:
  """A column if any run overlaps its exchanges with computing."""
  if not any(r.get('hidden_s') for r in runs):
    return {}
  seconds = (run.get('hidden_s') or {}).get(link)
  text = '' if seconds is None else duration(seconds)
  return {'communication hidden by computing (model)': text}


def inner_seconds(
  run: dict[str, Any], summary: dict[str, Any]
) -> dict[str, str]:
  """A column if workers of any run are several devices."""
  if not any(r.get('inner_s') for r in summary['runs']):
    return {}
  link = summary['config'].get('inner_link') or network.INNER
  name = link if isinstance(link, str) else 'custom'
  seconds = run.get('inner_s')
  column = f'communication within a worker on {name} (model)'
  return {column: duration(seconds) if seconds else ''}


def wire(run: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, str]:
  """A column if interface counters were read."""
  if not any(r.get('wire_bytes') for r in runs):
    return {}
  sent = run.get('wire_bytes')
  return {'sent per step (wire)': per_step(sent, run)}


def level(row: dict[str, Any], summary: dict[str, Any]) -> dict[str, str]:
  """A column if workers of any run are several devices."""
  rows = [row for run in summary['runs'] for row in run.get('audit', ())]
  if not any(other.get('within') for other in rows):
    return {}
  where = 'within a worker' if row.get('within') else 'between workers'
  return {'where bytes are sent': where}
