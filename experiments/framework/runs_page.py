"""The page of all kept runs, for mkdocs: docs/runs.js filters and sorts it.

A row is a training, averaged over its seeds. Rows come from experiments/runs
and from the comparisons that are kept under experiments/results.
"""

import json
import pathlib
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from experiments.framework import finding_files, step_times, workloads
from experiments.framework.result_store import (
  ResultStore,
  but_seed,
  once_per_seed,
)
from gossipjax.network import PRESETS
from gossipjax.results import workdir
from gossipjax.tasks.task import is_higher

COMPARISONS = ('quickstart', 'fashion_mnist', 'async_fashion_mnist')
NAME = 'runs.md'
DOCS = pathlib.Path(__file__).parents[2] / 'docs'
ASSETS = ('runs.css', 'runs.js')
Row = dict[str, Any]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
  """Adds the page to the navigation, after the first one."""
  config.nav.insert(1, {'All runs': NAME})
  return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Adds the page itself."""
  files.append(File.generated(config, NAME, content=page(rows())))
  return files


def rows(kept: ResultStore | None = None) -> list[Row]:
  """Returns all rows; `kept` defaults to all committed runs."""
  kept = kept or ResultStore()
  found = [row for name in COMPARISONS for row in _of_comparison(name)]
  for kind in kept.kinds():
    for row in _of_kept(kind, kept.lines(kind).values()):
      found.append(row | _computing(row, kept))
  return found


def _computing(row: Row, kept: ResultStore) -> Row:
  """Returns the computing seconds of a step: of the gradient and the strategy's
  coding, without coding if only the gradient was measured; None if it was not.
  """
  keys = step_times.keys(row['config'])
  gradient, coding = (kept.find(step_times.KIND, key) for key in keys)
  if gradient is None:
    return {'step_s': None, 'coded': False}
  seconds = [
    step_times.seconds(line['result']) for line in (gradient, coding) if line
  ]
  return {'step_s': sum(seconds), 'coded': coding is not None}


def _of_comparison(name: str) -> Iterator[Row]:
  summary = workdir.summary(finding_files.RESULTS / name)
  config = {k: v for k, v in summary['config'].items() if k != 'variants'}
  for run in summary['runs']:
    yield {
      'workload': name,
      'workers': summary['config']['workers'],
      'strategy': run['name'],
      'score': 'test_accuracy',
      'value': run['test_accuracy'],
      'higher': True,
      'bytes': run['bytes_sent'],
      'bytes_per_step': run['bytes_sent'] / run['steps'],
      'steps': run['steps'],
      # Summaries of older versions have fewer links.
      'seconds': {k: v for k, v in run['comm_s'].items() if k in PRESETS},
      'virtual_s': run.get('virtual_s'),
      'step_s': _computed(run),
      'coded': True,
      'seeds': [summary['config']['seed']],
      'commit': summary['commit'],
      'config': config | {'strategy': run.get('strategy', run['name'])},
      'command': f'python run.py --config=configs/{name}.py',
    }


def _computed(run: Mapping[str, Any]) -> float | None:
  """Returns the seconds of one worker's step, as all workers share one machine;
  None in virtual time or if the run was not timed."""
  if run.get('virtual_s') is not None or 'train_s' not in run:
    return None
  return run['train_s'] / run['steps'] / run['workers']


def _of_kept(kind: str, lines: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
  """Yields one row for all runs of a file that differ only in the seed."""
  workload = workloads.WORKLOADS.get(kind)
  metric = workload.metric if workload else 'test_accuracy'
  groups: dict[str, list[Mapping[str, Any]]] = {}
  for line in once_per_seed(lines):
    config = line['key'].get('config', {})
    if 'strategy' in config and _ended(line, metric):
      key = json.dumps(but_seed(config), sort_keys=True)
      groups.setdefault(key, []).append(line)
  for runs in groups.values():
    yield _row(kind, metric, runs)


def _ended(line: Mapping[str, Any], metric: str) -> bool:
  result = line['result']
  return not result.get('diverged') and bool(
    result.get('records') and result['records'][-1].get(metric) is not None
  )


def _row(kind: str, metric: str, runs: list[Mapping[str, Any]]) -> Row:
  ends = [run['result']['records'][-1] for run in runs]
  config = runs[0]['key']['config']
  mean = lambda name: statistics.fmean(end[name] for end in ends)
  on_validation = config.get('split', {}).get('holdout') == 'validation'
  return {
    'workload': f'{kind}, validation data' if on_validation else kind,
    'workers': config['workers'],
    'strategy': config['strategy']['name'],
    'score': metric,
    'value': mean(metric),
    'higher': is_higher(metric),
    'bytes': mean('most_bytes_sent'),
    # In virtual time seeds reach the target after different numbers of steps.
    'bytes_per_step': statistics.fmean(
      end['most_bytes_sent'] / end['step'] for end in ends
    ),
    'steps': mean('step'),
    'seconds': {
      link: statistics.fmean(run['result']['comm_s'][link] for run in runs)
      for link in PRESETS
      if all(link in run['result']['comm_s'] for run in runs)
    },
    'virtual_s': mean('virtual_s') if 'virtual_s' in ends[0] else None,
    'seeds': sorted(run['key']['config'].get('seed', 0) for run in runs),
    'commit': runs[0]['made_with']['commit'],
    'config': config,
    'command': f'python -m experiments.framework.repeat {kind} '
    f'{runs[0]["digest"]}',
  }


def page(found: list[Row]) -> str:
  """Returns the text of the page: its controls, and the rows as JSON."""
  data = json.dumps({'rows': found, 'links': list(PRESETS)})
  return PAGE.replace('DATA', data.replace('<', '\\u003c'))


PAGE = """---
hide:
  - navigation
  - toc
---
# All runs

Each row is a training that is kept in the repository, mean over its seeds.
Bytes are those of the worker that sends most. Seconds are those of the whole
run: computing, as measured on one CPU or as you set it, plus communication,
modelled for the link. The figure shows the rows of the table: no run beats
those on the line in both score and cost. Point at any other for its name.

<div id="runs-controls">
  <label>workload <select id="workload"></select></label>
  <label>workers <select id="workers"></select></label>
  <label>link <select id="link"></select></label>
  <label>a step computes for <select id="computing"></select></label>
  <label>against <select id="cost">
    <option value="seconds">seconds</option>
    <option value="bytes">bytes</option>
  </select></label>
</div>
<div id="front"></div>
<p id="nothing" hidden>No run matches.</p>
<div id="runs-table"></div>

<script type="application/json" id="runs-data">DATA</script>
<link rel="stylesheet" href="runs.css">
<script src="runs.js"></script>
"""
