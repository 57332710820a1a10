"""Runs that sent nothing, often since their period is longer than the training.

The workers of such a run train alone: its figures do not show its strategy.
"""

from collections.abc import Iterable

from gossipjax.results.reader import Run

SEVERAL = 4  # Periods that are enough to show what a strategy does.


def period(runs: Iterable[Run]) -> int | None:
  """The shortest period of a strategy that never sent anything.

  Args:
    runs: of a strategy, one for each seed.

  Returns:
    Steps; 0 if no period is known that is longer than the training; None if any
    of the runs sent something or has one worker, or if there is no run.
  """
  found = None
  for run in runs:
    if run.records['bytes_sent'][-1] or run.config['workers'] == 1:
      return None
    strategy = run.config['strategy']
    periods = [v for k, v in strategy.items() if k.endswith('period') and v]
    found = min(periods, default=0)
    if found <= run.config['steps']:
      found = 0
  return found
