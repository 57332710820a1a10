"""The known runs nearest to a config, in sentences and a table."""

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from gossipjax.advice import known_runs
from gossipjax.advice.known_runs import Known
from gossipjax.comparison import scores


def nearest_runs(
  known: Sequence[Known],
  config: Mapping[str, Any],
  folders: Sequence[str] = (),
) -> tuple[str, list[dict[str, Any]]]:
  """Returns sentences about the nearest known runs, and a table of them.

  Runs that share neither the task nor the kind of model are not shown.

  Args:
    known: all known runs, including those of `folders`.
    config: the config that the user asks about.
    folders: workdirs of the user; a sentence names those without a shown run.
  """
  head, table = _nearest(known, config)
  shown = {row['from'] for row in table}
  sentences = [
    f'--known={folder}: {_not_shown([k for k in known if k.table == name])}\n'
    for folder in folders
    if (name := str(pathlib.Path(folder).expanduser())) not in shown
  ]
  return ''.join(sentences) + head, table


def _not_shown(runs: Sequence[Known]) -> str:
  """Why no run of a workdir is shown."""
  if runs:
    return (
      'not shown, since other runs are more like yours; these are '
      f'{runs[0].place}.'
    )
  return (
    'nothing is known from it; it needs a finished run of a variant with '
    'all_reduce, and of another strategy.'
  )


def _nearest(
  known: Sequence[Known], config: Mapping[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
  nearest = known_runs.nearest(known, config)
  if not nearest:
    return 'Known: nothing; no run is kept.', []
  place = known_runs.place(known_runs.identity(config))
  if known_runs.distance(nearest[0], config)[0] == known_runs.UNLIKE:
    return f'Known: no run of your model ({place}), nor of one like it.', []
  head = (
    f'Known of runs like yours ({place})'
    if known_runs.is_near(nearest[0], config)
    else f'Known: no run of your model ({place}); nearest: {nearest[0].place}'
  )
  labels = dict.fromkeys(scores.label(k.score) for k in nearest)
  table = [
    {
      'strategy': k.strategy,
      'arguments': k.arguments,
      'split': k.split,
      **{label: _score(k, label) for label in labels},
      'score of all-reduce': scores.as_text(k.score, k.dense),
      'steps to the target over those of all-reduce': _steps(k),
      'seeds': k.seeds,
      'from': k.table,
    }
    for k in nearest
  ]
  return head, table


def _score(known: Known, label: str) -> str:
  """The cell of a run in a score's column; '' if the run has another score."""
  matches = scores.label(known.score) == label
  return scores.as_text(known.score, known.value) if matches else ''


def _steps(known: Known) -> str:
  if math.isnan(known.missed):
    return 'not kept'
  if known.missed == 1:
    return 'never'
  ratio = known.relative_steps
  steps = 'not kept' if math.isnan(ratio) else f'{ratio:.3g}'
  missed = round(known.missed * known.seeds)
  return f'{steps}, never for {missed} of {known.seeds}' if missed else steps
