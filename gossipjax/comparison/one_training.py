"""The training of a variant: in lock-step, in virtual time or on an engine."""

import contextlib
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from ml_collections import ConfigDict

from gossipjax.commands import console
from gossipjax.comparison.summary import divergence
from gossipjax.comparison.variant import Variant
from gossipjax.distributed import processes
from gossipjax.engine import training as engine
from gossipjax.errors import UserError
from gossipjax.results import record_file, workdir
from gossipjax.simulation import dry_run, simulate
from gossipjax.training import checkpoint, checkpoint_form, worker_program
from gossipjax.training import train as lock_step
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Diverged
from gossipjax.training.record import Record

CHECKPOINTS = 'checkpoints'


def check(variant: Variant, folder: pathlib.Path) -> None:
  """Checks, before anything is written, that a variant can go on.

  Args:
    variant: what to train.
    folder: of the variant.

  Raises:
    UserError: its newest checkpoint has other arrays; or it ended after fewer
      steps, or damaged, and has no checkpoint.
  """
  found = finished(folder, lambda _: None)
  place = checkpoint.newest(folder / CHECKPOINTS)
  steps, cluster = variant.run.steps, variant.run.cluster
  if found and not place and not workdir.is_over(found, steps, cluster):
    raise UserError(
      f'{folder} ended after {found["steps"]} steps, and no checkpoint is left '
      f'from which it could go on to {steps}; name another folder.'
    )
  if place:
    state_shapes = (
      dry_run.state_shapes
      if variant.run.cluster
      else worker_program.state_shapes
    )
    checkpoint_form.check(place, state_shapes(variant.run, variant.shapes))


def finished(
  folder: pathlib.Path, notify: Callable[[str], None]
) -> dict[str, Any] | None:
  """The summary of a finished variant; None if its training has to continue,
  which also restores files that were damaged since.

  Args:
    folder: of the variant.
    notify: called with a sentence about a damaged file.

  Raises:
    UserError: a file is damaged, and there is no checkpoint.
  """
  try:
    return workdir.summary(folder)
  except UserError as error:
    fault = str(error).partition(';')[0]
    if not (place := checkpoint.newest(folder / CHECKPOINTS)):
      raise UserError(
        f'{fault}; there is no checkpoint to restore it from: delete {folder}, '
        'and the same command runs it again.'
      ) from error
    notify(f'{fault}; it is restored from the checkpoint {place}.')
    return None


def train(
  variant: Variant,
  folder: pathlib.Path,
  watch: Callable[[str, ConfigDict, Record], None],
  interrupted: Callable[[], bool],
  notify: Callable[[str], None],
) -> tuple[list, str]:
  """Trains a variant and writes its records.

  Args:
    variant: what to train.
    folder: of the variant.
    watch: called with its name, its config and each record.
    interrupted: asked after every step; True stops the run.
    notify: called with a sentence about processes that died.

  Returns:
    What the workers in virtual time, or on an engine, did at first; and why the
    run diverged, '' if it did not.
  """
  name, config, run, _ = variant
  path = folder / workdir.RECORDS
  store = Store(folder / CHECKPOINTS, path)
  spans: list = []
  meter = processes.meter()
  if run.engine:
    records = engine.train(
      config, run, store, interrupted, spans.extend, notify
    )
  elif run.cluster:
    records = simulate.simulate(run, store, interrupted, spans.extend)
  else:
    records = lock_step.train(run, store, interrupted, meter)
  if processes.is_first():
    restored = record_file.restore(path, store.records())
    warning = _part_of_wire(record_file.read(path), meter.interface)
    for sentence in filter(None, [*store.damaged, restored, warning]):
      console.say(
        f'{sentence} The run continues after step {store.last() or 0}.'
      )
  try:
    # If writing fails, an engine ends its processes before the error shows.
    with contextlib.closing(records):
      for record in records:
        if processes.is_first():  # Only the first of several processes writes.
          record_file.append(path, record)
          watch(name, config, record)
  except Diverged as error:
    return spans, divergence(error, store)
  return spans, ''


def _part_of_wire(records: Sequence[Record], interface: str | None) -> str:
  """A sentence if the interface is read in only a part of the steps."""
  if not records or (records[-1].wire_bytes is None) == (interface is None):
    return ''
  return (
    '--interface was not given for all of the run, so wire bytes are left out '
    'from here on.'
  )
