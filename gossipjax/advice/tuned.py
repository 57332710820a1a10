"""Writes the best of the pilots as a config for `run.py`."""

import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from gossipjax.advice.ranking import Rank
from gossipjax.results import workdir
from gossipjax.tuning import config_source


def write(
  path: pathlib.Path,
  config: ConfigDict,
  runs: Mapping[str, ConfigDict],
  ranks: Sequence[Rank],
) -> None:
  """Writes a comparison of the ranked strategies, each at its best rate.

  Args:
    path: of the Python file.
    config: the config that the user asked about.
    runs: its variants, and others that were tried, by name.
    ranks: of the last round.
  """
  base = config.copy_and_resolve_references()
  names = [rank.candidate.name for rank in ranks]
  with base.ignore_type(), base.unlocked():
    base.variants = ConfigDict(
      {name: _changes(runs[name], config) for name in names}, sort_keys=False
    )
  best = {
    rank.candidate.name: {'optimizer.learning_rate': rank.candidate.rate}
    for rank in ranks
  }
  doc = 'What `advise` tried longest, each at its best learning rate.'
  text = config_source.source(config_source.pin(base, best), doc)
  workdir.write(path, text)


def _changes(run: ConfigDict, config: ConfigDict) -> ConfigDict:
  """Returns the strategy of a variant, and all other keys that it changes."""
  changes = {
    key: run[key]
    for key in run
    if key not in ('variants', 'seeds') and run[key] != config.get(key)
  }
  return ConfigDict({'strategy': run.strategy, **changes}, sort_keys=False)
