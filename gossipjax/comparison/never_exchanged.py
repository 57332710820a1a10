"""Runs that sent nothing, since their period is longer than their training.

The workers of such a run train alone: its figures do not show its strategy.
"""

from collections.abc import Iterable

from gossipjax.results.reader import Run

SEVERAL = 4  # Periods that are enough to show what a strategy does.


def period(runs: Iterable[Run]) -> int | None:
  """The shortest period of a strategy if it is longer than the training.

  Args:
    runs: of a strategy, one for each seed.

  Returns:
    Steps; None if the period is not longer, or any of the runs sent anything.
  """
  found = None
  for run in runs:
    strategy = run.config['strategy']
    periods = [v for k, v in strategy.items() if k.endswith('period') and v]
    found = min(periods, default=0)
    if found <= run.config['steps'] or run.records['bytes_sent'][-1]:
      return None
  return found
