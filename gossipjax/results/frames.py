"""The records, or the audited bytes, of many runs as one pandas frame."""

import hashlib
import json
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from gossipjax.errors import UserError
from gossipjax.results import reader, total_time


def load(*workdirs: str | pathlib.Path) -> pd.DataFrame:
  """Reads the records of finished and running comparisons.

  Returns:
    See `of_runs`. A run that diverged before its first record has a row of step
    0 without figures; all counts are floats then.

  Raises:
    UserError: see `reader.read`.
  """
  return of_runs(reader.read(*workdirs, lost=True))


def of_runs(runs: Sequence[reader.Run]) -> pd.DataFrame:
  """Joins the records of at least one run.

  Returns:
    A row per record. The columns are those of `record_file.columns`, after
      workdir, run: names of the comparison and of the run.
      variant: the name of the run, without the seed.
      strategy, task: their names.
      config: eight hex digits, equal for runs that differ only in the seed.
      workers, batch_size, seed: as in the config.
      finished: whether the run has finished.
      diverged: whether the run diverged, and ended there.
      total_s, computing_s, communication_s: for config.link, see `total_time`.
    If a run's `config.cluster` has a link of its own, `comm_LINK_s` is called
    `comm_cluster_s`. Text columns are categories, in the order of `runs`.
    Values that a run does not have are NaN. `attrs['higher_is_better']` lists
    scores of which large values are good, see `analysis.higher_is_better`.
  """
  facts = pd.DataFrame([_facts(run) for run in runs])
  for name, values in facts.items():
    if isinstance(values[0], str):
      facts[name] = pd.Categorical(values, values.unique())
  records = [pd.DataFrame(_records(run)) for run in runs]
  index = facts.index.repeat([len(rows) for rows in records])
  frame = pd.concat(
    [
      facts.loc[index].reset_index(drop=True),
      pd.concat(records, ignore_index=True),
    ],
    axis=1,
  )
  frame.attrs['higher_is_better'] = sorted(
    {n for run in runs for n in run.higher}
  )
  return frame


def _records(run: reader.Run) -> dict[str, Any]:
  """The columns of a run; of one without records only its step, 0."""
  found, link = dict(run.records), f'comm_{total_time.link_name(run.config)}_s'
  if len(found) > 1:
    found |= total_time.columns(run)
  own_link = total_time.has_own_link(run.config)
  renamed = lambda name: 'comm_cluster_s' if own_link and name == link else name
  return {renamed(name): column for name, column in found.items()}


def one_per_step(frame: pd.DataFrame) -> pd.DataFrame:
  """The records of a frame; of two for the same run and step, only the last.

  A run that stalls in virtual time ends with a second record of its last step.
  """
  return frame.drop_duplicates(['workdir', 'run', 'step'], keep='last')


def _facts(run: reader.Run) -> dict[str, Any]:
  config = run.config
  return {
    'workdir': str(run.workdir),
    'run': run.name,
    'variant': run.variant,
    'strategy': config['strategy']['name'],
    'task': config['task']['name'],
    'config': _fingerprint(config),
    'workers': config['workers'],
    'batch_size': config['batch_size'],
    'seed': config['seed'],
    'finished': run.summary is not None,
    'diverged': bool((run.summary or {}).get('diverged')),
  }


def _fingerprint(config: dict[str, Any]) -> str:
  but_seed = {k: v for k, v in config.items() if k not in ('seed', 'log')}
  text = json.dumps(but_seed, sort_keys=True)
  return hashlib.sha1(text.encode()).hexdigest()[:8]


def ledgers(*workdirs: str | pathlib.Path) -> pd.DataFrame:
  """Logical, compiled and wire bytes that a worker sent in a step.

  Returns:
    A row per audited step, and a row per run whose interface counters were
    read: it has the mean over all steps, and the last `step`. Columns: workdir,
    run, step, worker, within (whether the bytes are those between the devices
    of a worker), logical_bytes, compiled_bytes, wire_bytes, and the reason for
    a difference, '' for none. Bytes that were not counted are NaN.

  Raises:
    UserError: as for `load`, or there is no such run.
  """
  rows = [
    {'workdir': str(run.workdir), 'run': run.name, **row}
    for run in reader.read(*workdirs)
    for row in _ledger(run)
  ]
  if not rows:
    raise UserError(
      'No finished run counted compiled bytes or those of an interface; run '
      'with --audit, or with --interface.'
    )
  return pd.DataFrame(
    rows,
    columns=[
      'workdir',
      'run',
      'step',
      'worker',
      'within',
      *(f'{kind}_bytes' for kind in ('logical', 'compiled', 'wire')),
      'reason',
    ],
  )


def _ledger(run: reader.Run) -> Iterator[dict]:
  for row in (run.summary or {}).get('audit', []):
    yield {
      'within': False,
      **row,
      'logical_bytes': row['ledger'],
      'compiled_bytes': row['compiled'],
    }
  step, sent, wire = (
    run.records.get(name, [math.nan])[-1]
    for name in ('step', 'bytes_sent', 'wire_bytes')
  )
  if not math.isnan(wire):
    yield {
      'step': step,
      'within': False,
      'reason': '',
      'logical_bytes': sent / step,
      'wire_bytes': wire / step,
    }
