"""What is known of a config's strategies from kept runs, in words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gossipjax.advice import known_runs
from gossipjax.advice.known_runs import Known
from gossipjax.comparison import scores


def told(
  known: Sequence[Known], config: Mapping[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
  """What is known: a sentence about the distance, and a table.

  Runs that share neither task nor kind of model are not shown.
  """
  nearest = known_runs.nearest(known, config)
  if not nearest:
    return 'Known: nothing; no run is kept.', []
  mine = known_runs.place(known_runs.identity(config))
  if known_runs.distance(nearest[0], config)[0] == known_runs.UNLIKE:
    return f'Known: no run of your model ({mine}), nor of one like it.', []
  head = (
    f'Known of runs like yours ({mine})'
    if known_runs.is_near(nearest[0], config)
    else f'Known: no run of your model ({mine}); nearest: {nearest[0].place}'
  )
  table = [
    {
      'strategy': k.strategy,
      'split': k.split,
      scores.label(k.score): scores.told(k.score, k.value),
      'score of all-reduce': scores.told(k.score, k.dense),
      'steps to the target over those of all-reduce': _steps(k),
      'seeds': k.seeds,
      'from': k.table,
    }
    for k in nearest
  ]
  return head, table


def _steps(known: Known) -> str:
  if math.isnan(known.missed):
    return 'not kept'
  if known.missed == 1:
    return 'never'
  ratio = known.relative_steps
  steps = 'not kept' if math.isnan(ratio) else f'{ratio:.3g}'
  missed = round(known.missed * known.seeds)
  return f'{steps}, never for {missed} of {known.seeds}' if missed else steps
