"""Merges runs that differ only in the seed: means and standard deviations."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gossipjax.config.variants import without_seed
from gossipjax.results.record_file import SCORES
from gossipjax.results.standard_error import deviation


def summary(found: dict[str, Any]) -> dict[str, Any]:
  """The summary of a comparison with one entry per variant.

  Numbers are means over seeds, None if a seed has none; `sd` has the sample
  standard deviation of each score, for two seeds or more. A variant of which a
  seed diverged has the entry of its first seed, marked as diverged. A summary
  without `config.seeds` is returned as it is.

  Args:
    found: as in summary.json.
  """
  if not found['config'].get('seeds'):
    return found
  groups: dict[str, list[dict[str, Any]]] = {}
  for run in found['runs']:
    groups.setdefault(variant(run), []).append(run)
  return found | {'runs': [_merged(name, g) for name, g in groups.items()]}


def variant(entry: Mapping[str, Any]) -> str:
  """The name of an entry of `runs`, without the seed; see `reader.Run`."""
  return without_seed(entry['name'], entry.get('seed'))


def _merged(name: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
  diverged = sum(bool(run.get('diverged')) for run in runs)
  if diverged:
    reason = f'diverged with {diverged} of {len(runs)} seeds.'
    return runs[0] | {'name': name, 'diverged': reason}
  mean = dict(runs[0])
  sd = {}
  for key, value in runs[0].items():
    values = [run.get(key) for run in runs]
    if isinstance(value, dict) and key in ('comm_s', 'hidden_s'):
      mean[key] = {
        k: statistics.fmean(v[k] for v in values if v) for k in value
      }
    elif all(_is_number(v) for v in values):
      mean[key] = statistics.fmean(values)
      if key.startswith(SCORES) and len(runs) > 1:
        sd[key] = deviation(values)
    elif any(_is_number(v) for v in values):
      mean[key] = None
  return mean | {'name': name, 'sd': sd}


def _is_number(value: Any) -> bool:
  return isinstance(value, int | float) and not isinstance(value, bool)
