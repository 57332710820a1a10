"""The records of many runs as one pandas frame."""

import hashlib
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from gossipjax.results import reader


def load(*workdirs: str | pathlib.Path) -> pd.DataFrame:
  """Reads the records of finished and running comparisons.

  Returns:
    See `of_runs`.

  Raises:
    UserError: see `reader.read`.
  """
  return of_runs(reader.read(*workdirs))


def of_runs(runs: Sequence[reader.Run]) -> pd.DataFrame:
  """Joins the records of at least one run.

  Returns:
    A row per record. The columns are those of `record_file.columns`, after
      workdir, run: names of the comparison and of the variant.
      strategy, task: their names.
      config: eight hex digits, equal for runs that differ in the seed only.
      workers, batch_size, seed: as in the config.
      finished: whether the run is.
    Text columns are categories, in the order of `runs`. What a run does not
    have is NaN.
  """
  facts = pd.DataFrame([_facts(run) for run in runs])
  for name, values in facts.items():
    if isinstance(values[0], str):
      facts[name] = pd.Categorical(values, values.unique())
  records = [pd.DataFrame(run.records) for run in runs]
  each = facts.index.repeat([len(rows) for rows in records])
  return pd.concat(
    [
      facts.loc[each].reset_index(drop=True),
      pd.concat(records, ignore_index=True),
    ],
    axis=1,
  )


def _facts(run: reader.Run) -> dict[str, Any]:
  config = run.config
  return {
    'workdir': str(run.workdir),
    'run': run.name,
    'strategy': config['strategy']['name'],
    'task': config['task']['name'],
    'config': _fingerprint(config),
    'workers': config['workers'],
    'batch_size': config['batch_size'],
    'seed': config['seed'],
    'finished': run.summary is not None,
  }


def _fingerprint(config: dict[str, Any]) -> str:
  but_seed = {k: v for k, v in config.items() if k not in ('seed', 'log')}
  text = json.dumps(but_seed, sort_keys=True)
  return hashlib.sha1(text.encode()).hexdigest()[:8]
