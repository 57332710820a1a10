"""Trains a config's variants one after the other and compares them."""

import contextlib
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from ml_collections import ConfigDict

from gossipjax import audit
from gossipjax.commands import console
from gossipjax.comparison import (
  event_log,
  finish,
  loggers,
  one_training,
  report_files,
  virtual_time,
)
from gossipjax.comparison.summary import summarise
from gossipjax.comparison.variant import Variant, check, check_shared
from gossipjax.config.variants import variants
from gossipjax.distributed import processes, stopping
from gossipjax.errors import UserError
from gossipjax.results import record_file, reservation, timeline_file, workdir
from gossipjax.training import durable_files, optimizer
from gossipjax.training.ledger import Diverged
from gossipjax.training.record import Record

Watch = Callable[[str, ConfigDict, Record], None]


def compare(
  config: ConfigDict,
  folder: pathlib.Path,
  resume: bool = False,
  audited: bool = False,
  watch: Watch = lambda *_: None,
  interrupted: Callable[[], bool] = lambda: False,
  command: str = '',
) -> dict[str, Any]:
  """Runs all variants, writes the folder's files, returns the summary.

  Args:
    config: see gossipjax/config/defaults.py.
    folder: the workdir.
    resume: continue where an earlier call of the same config stopped.
    audited: compare every variant's ledger with its compiled program.
    watch: called with each new record.
    interrupted: asked after every step; True saves and stops.
    command: the one that repeats the comparison, for its files.
  """
  tasks = {}
  runs = [check(name, run, tasks) for name, run in variants(config)]
  check_shared(config, runs)
  return of_variants(
    config, runs, folder, resume, audited, watch, interrupted, command
  )


def of_variants(
  config: ConfigDict,
  runs: Sequence[Variant],
  folder: pathlib.Path,
  resume: bool = False,
  audited: bool = False,
  watch: Watch = lambda *_: None,
  interrupted: Callable[[], bool] = lambda: False,
  command: str = '',
) -> dict[str, Any]:
  """Does what `compare` does; takes the config's checked runs, in order."""
  if audited:
    _check_audit(runs)
  live = loggers.Live(folder, {one.name: one.config for one in runs})
  higher = sorted({n for one in runs for n in one.run.task.higher_is_better})

  def show(*args):
    live(*args)
    watch(*args)

  def notify(sentence):
    console.say(sentence)
    log(sentence)

  summaries = []
  with contextlib.ExitStack() as stack:
    warnings = []
    lock = reservation.reserved(
      folder, config, resume, higher, command, lambda: _check(runs, folder)
    )
    processes.run_in_first(lambda: warnings.extend(stack.enter_context(lock)))
    hints = (optimizer.unreached(o.config.optimizer, o.run.steps) for o in runs)
    log = stack.enter_context(event_log.EventLog(folder))
    log(f'{"Goes on" if resume else "Begins"}: {command or "from Python"}')
    for sentence in dict.fromkeys([*warnings, *filter(None, hints)]):
      notify(sentence)
    stack.enter_context(live)
    report_files.announce(folder)
    for one in runs:
      log(f'{one.name} begins, or goes on where it was.')
      summaries.append(
        run_one(one, folder / one.name, audited, show, interrupted, notify)
      )
      log(event_log.ended(summaries[-1]))
      if len(runs) > 1 and (why := summaries[-1].get('diverged')):
        console.say(f'{one.name}: {why} The others go on.')
    _end(summaries)
    if not processes.is_first():
      return {}
    return finish.write(folder, config, summaries, higher, command)


def _check(runs: Sequence[Variant], folder: pathlib.Path) -> None:
  for one in runs:
    one_training.check(one, folder / one.name)


def _check_audit(runs: Sequence[Variant]) -> None:
  if any(one.run.cluster for one in runs):
    raise UserError('--audit is for lock-step programs; set config.cluster={}.')
  for one in runs:
    audit.check_devices(one.run.workers, one.run.inner.devices)


def _end(summaries: Sequence[dict[str, Any]]) -> None:
  """Ends what watches trainings; raises Diverged if all have diverged."""
  stopping.watch_no_more()
  all_diverged = lambda: all(run.get('diverged') for run in summaries)
  if processes.broadcast_from_first(all_diverged):
    if not processes.is_first():
      processes.leave(console.DIVERGED)
    raise Diverged(summaries[0]['diverged'])


def run_one(
  variant: Variant,
  folder: pathlib.Path,
  audited: bool,
  watch: Watch,
  interrupted: Callable[[], bool],
  notify: Callable[[str], None] = console.say,
) -> dict[str, Any]:
  """Trains one variant, from where an earlier call stopped.

  A run that diverges ends with a summary that says so, not with an error.

  Args:
    variant: from `check`.
    folder: of this variant.
    notify: called with a sentence about damaged files and dead processes.
    audited, watch, interrupted: see `compare`.

  Returns:
    Its summary; {} in a process that does not write it.
  """
  name, _, run, shapes = variant
  found = one_training.finished(folder, notify)
  if found and workdir.is_over(found, run.steps, run.cluster):
    if audited and 'audit' not in found:
      console.say(f'{name} is finished, and is not audited any more.')
    return found
  processes.run_in_first(lambda: workdir.begin(folder))
  spans, diverged = one_training.train(
    variant, folder, watch, interrupted, notify
  )
  if not processes.is_first():
    return {}
  last = (record_file.read(folder / workdir.RECORDS) or [None])[-1]
  summary = summarise(variant, last, diverged)
  if summary['diverged']:  # Else `trained` returns it.
    (folder / durable_files.MODEL).unlink(missing_ok=True)
  elif run.cluster:
    summary |= virtual_time.summarise(run, last)
    timeline_file.write(folder, spans)
  if audited:
    summary['audit'] = audit.report(
      name, run.strategy, *shapes, run.workers, run.steps, run.inner
    )
  workdir.write_summary(folder, summary)
  return summary
