"""Runs in virtual time: their part of the summary, table and notes."""

from collections.abc import Sequence
from typing import Any

from gossipjax.simulation import goal
from gossipjax.training.record import Record
from gossipjax.training.run import Run


def summarise(run: Run, last: Record) -> dict[str, Any]:
  """Returns the additional entries of a run in virtual time in summary.json.

  `ended` is part of a sentence if the run had a target or lost a worker,
  otherwise ''. `target_s` is None if no target was reached.

  Args:
    run: the run, in virtual time.
    last: the last record.
  """
  wanted = goal.of_run(run)
  reached = wanted is not None and wanted.reached(last)
  ended, target = '', ''
  if wanted:
    named = '' if wanted.score == 'accuracy' else f'{wanted.score} of '
    target = f'{named}{wanted.value:g}'
  if last.lost_worker is not None:
    first = '' if last.step else ', before its first step was done'
    ended = f'waited for worker {last.lost_worker} until the time-out{first}'
  elif reached:
    ended = f'reached {target} by its evaluation at {last.virtual_s:.4g} s'
  elif wanted:
    ended = f'never reached {target} in {last.step} steps'
  return {
    'engine': run.engine,
    'faults': last.faults,
    'virtual_s': last.virtual_s,
    'ended': ended,
    'target_s': last.virtual_s if reached else None,
    'staleness': last.staleness,
    'waiting_s': max(last.waiting_s),
    'link_utilisation': last.link_utilisation,
  }


HEADINGS = ('virtual time', 'staleness', 'longest wait', 'busiest link')
NOTE = """
Virtual time is modelled from the cluster of the config; the training and the
bytes sent are real. Under config.engine the time is measured, without that of
evaluations and checkpoints. Staleness: versions of the model between the
computation of a gradient and its use, mean since the record before the last.
Longest wait: the largest share of virtual time that a worker waited. Busiest
link: the largest share of virtual time that a link carried bytes.
Communication: the largest sum over workers of the transfers that a worker waits
for; it computes on during a transfer that another worker starts. On a link
that is shared fairly, what a transfer takes longer than alone is a wait. Where
no worker waits and there is a server, held-out figures are those of its model,
not of the mean; elsewhere the mean is over the workers that are up.
"""


def cells(
  run: dict[str, Any], runs: Sequence[dict[str, Any]]
) -> dict[str, str]:
  """Returns a run's cells, by heading; {} if no run is in virtual time.

  Args:
    run: its entry in summary.json.
    runs: the entries of all runs of the comparison.
  """
  if not any('virtual_s' in other for other in runs):
    return {}
  if 'virtual_s' not in run:
    return dict.fromkeys(HEADINGS, '')
  waited = run['waiting_s'] / run['virtual_s'] if run['virtual_s'] else 0.0
  texts = (
    f'{run["virtual_s"]:.4g} s' + ' measured' * bool(run.get('engine')),
    f'{run["staleness"]:.2f}',
    f'{100 * waited:.1f} %',
    '' if (used := run['link_utilisation']) is None else f'{100 * used:.1f} %',
  )
  return dict(zip(HEADINGS, texts, strict=True))


def note(summary: dict[str, Any]) -> str:
  """Markdown after the table: explains its columns, and says how runs ended."""
  runs = [run for run in summary['runs'] if 'virtual_s' in run]
  ends = [
    f'- {run["name"]} {run["ended"]}.' for run in runs if run.get('ended')
  ]
  return '\n'.join([NOTE, *ends, '']) if runs else ''
