"""Trains a config's variants one after the other and compares them."""

import json
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ml_collections import ConfigDict

from gossipjax import audit
from gossipjax.commands import console
from gossipjax.comparison import figures, loggers, report, table, timelines
from gossipjax.comparison.summary import summarise
from gossipjax.config import resolve
from gossipjax.distributed import processes
from gossipjax.errors import UserError, nearest
from gossipjax.results import workdir
from gossipjax.simulation import simulate
from gossipjax.training import optimizer, worker_program
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Diverged
from gossipjax.training.record import Record
from gossipjax.training.train import train

Watch = Callable[[str, ConfigDict, Record], None]


def variants(config: ConfigDict) -> Iterator[tuple[str, ConfigDict]]:
  """The runs of a config: itself, or each variant on top of it."""
  base = {k: v for k, v in config.items() if k != 'variants'}
  if not config.get('variants'):
    yield config.strategy.name, ConfigDict(base)
  for name, changes in config.get('variants', {}).items():
    if not name.replace('_', '').replace('-', '').isalnum():
      raise UserError(
        f'config.variants: {name!r} names a folder; it may have '
        'letters, digits, _ and - only.'
      )
    yield name, ConfigDict(changed(base, changes, f'config.variants.{name}.'))


def changed(base: Any, changes: Any, where: str) -> dict[str, Any]:
  """A config with some changes; `where` they come from is for refusals."""
  result = dict(base)
  for k, value in changes.items():
    if k not in result:
      raise UserError(f'{where}{k} is unknown{nearest(k, result)}')
    kind = _kind(base, k)
    if not isinstance(value, (kind, int) if kind is float else kind):
      raise UserError(
        f'{where}{k}={value!r} has the wrong type; it takes {kind.__name__}.'
      )
    # Another strategy, task or optimizer brings all its own arguments.
    whole = not isinstance(value, ConfigDict) or 'name' in value
    result[k] = value if whole else changed(result[k], value, f'{where}{k}.')
  return result


def _kind(config: Any, key: str) -> type:
  """What a key takes; one that is None as yet knows it in a ConfigDict."""
  if config[key] is None and isinstance(config, ConfigDict):
    return config.get_type(key)
  return type(config[key])


def devices(configs: Iterable[ConfigDict]) -> int:
  """As many as are to be emulated; in virtual time all workers share one."""
  return max(
    1 if config.get('cluster') else config.workers for config in configs
  )


def check(config: ConfigDict) -> Any:
  """Refuses what would fail later, before anything is written.

  Returns:
    Shapes of the parameters.
  """
  at_least = {
    'workers': 1,
    'steps': 1,
    'batch_size': 1,
    'log_every': 1,
    'eval_every': 0,
    'checkpoint_every': 0,
  }
  for key, least in at_least.items():
    if config[key] < least:
      raise UserError(f'config.{key} is at least {least}, got {config[key]}.')
  # The cheap ones first: a task may have to be downloaded.
  resolve.links(config.link)
  resolve.strategy(config.strategy)
  optimizer.make(config.optimizer, config.steps)
  if not config.get('cluster'):
    return worker_program.rehearse(config)
  if processes.distributed():
    raise UserError('--distributed trains in real time; set config.cluster={}.')
  return simulate.rehearse(config)


def compare(
  config: ConfigDict,
  folder: pathlib.Path,
  resume: bool = False,
  audited: bool = False,
  watch: Watch = lambda *_: None,
  interrupted: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
  """Runs all variants, writes the folder's files, returns the summary.

  Args:
    config: see gossipjax/config/defaults.py.
    folder: the workdir.
    resume: continue where an earlier call of the same config stopped.
    audited: hold every variant's ledger against its compiled program.
    watch: called with each record as it comes.
    interrupted: asked after every step; True saves and stops.
  """
  runs = {name: (run, check(run)) for name, run in variants(config)}
  if audited and any(run.get('cluster') for run, _ in runs.values()):
    raise UserError('--audit is for lock-step programs; set config.cluster={}.')
  live = loggers.Live(folder, {name: run for name, (run, _) in runs.items()})
  processes.decide(lambda: workdir.claim(folder, config, resume))

  def show(*told):
    live(*told)
    watch(*told)

  with live:
    summaries = []
    for name, run in runs.items():
      summaries.append(
        run_one(name, *run, folder / name, audited, show, interrupted)
      )
      if len(runs) > 1 and (why := summaries[-1].get('diverged')):
        console.say(f'{name}: {why} The others go on.')
  if not processes.first():
    return {}
  if all(run.get('diverged') for run in summaries):
    raise Diverged(summaries[0]['diverged'])
  summary = {
    'config': config.to_dict(),
    'runs': summaries,
    **workdir.provenance(),
  }
  workdir.write(folder / 'summary.json', json.dumps(summary, indent=2))
  workdir.write(folder / 'comparison.md', table.markdown(summary))
  figures.draw(folder, summary)
  timelines.draw(folder, summary)
  report.write(folder, summary)
  return summary


def run_one(
  name: str,
  config: ConfigDict,
  shapes: Any,
  folder: pathlib.Path,
  audited: bool,
  watch: Watch,
  interrupted: Callable[[], bool],
) -> dict[str, Any]:
  """One variant, from where it stands; returns its summary, {} where
  another process writes it.

  That its loss is no number stops no other variant.

  Args:
    shapes: from `check`.
    folder: of this variant.
    others: as those of `compare`.
  """
  finished = folder / 'summary.json'
  if finished.exists():
    return json.loads(finished.read_text())
  processes.decide(lambda: folder.mkdir(parents=True, exist_ok=True))
  store, lines = Store(folder / 'checkpoints'), folder / 'records.jsonl'
  in_virtual_time, spans = bool(config.get('cluster')), []
  records = (
    simulate.simulate(config, store, interrupted, spans.extend)
    if in_virtual_time
    else train(config, store, interrupted, processes.meter())
  )
  if processes.first():
    workdir.keep_records(lines, store.last() or 0)
  diverged = ''
  try:
    for record in records:
      if processes.first():  # The others take part, that is all.
        workdir.append(lines, record)
        watch(name, config, record)
  except Diverged as error:
    diverged = workdir.told_divergence(error, store)
  if not processes.first():
    return {}
  last = (workdir.records(lines) or [None])[-1]
  summary = summarise(name, config, shapes, last, diverged)
  if in_virtual_time and not diverged:
    summary |= timelines.summarise(config, last)
    workdir.write(folder / timelines.FILE, json.dumps(spans))
  if audited:
    summary['audit'] = _audit(name, config, shapes)
  workdir.write(finished, json.dumps(summary, indent=2))
  return summary


def _audit(name: str, config: ConfigDict, shapes: Any) -> list[dict[str, Any]]:
  return audit.report(
    name,
    resolve.strategy(config.strategy),
    shapes,
    config.workers,
    config.steps,
  )
