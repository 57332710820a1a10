"""Sends records to TensorBoard and to Weights & Biases while training.

These logs are never read; results come from records.jsonl.
"""

import os
import pathlib
import uuid
from collections.abc import Callable

import msgspec
from ml_collections import ConfigDict

from gossipjax.errors import UserError, missing, nearest
from gossipjax.training.record import Record

Show = Callable[[int, dict[str, float]], None]


class Live:
  """A `watch` of compare() that logs each run to the logs in its config.log.

  TensorBoard's logs are in the run's folder, `<workdir>/<run>/tensorboard`.
  W&B's runs belong to the project $WANDB_PROJECT (default: gossipjax) and, with
  WANDB_MODE=offline, are in <workdir>/wandb.

  Args:
    folder: the workdir.
    configs: of the runs, by name.

  Raises:
    UserError: a config asks for an unknown log, or for one whose package is
      not installed.
  """

  def __init__(self, folder: pathlib.Path, configs: dict[str, ConfigDict]):
    self._folder = folder
    self._run: str | None = None
    self._show, self._close = [], []
    for config in configs.values():
      for key, enabled in config.get('log', {}).items():
        if key not in _LOGS:
          raise UserError(f'config.log.{key} is unknown{nearest(key, _LOGS)}')
        if enabled and (sentence := missing(key)):
          raise UserError(f'config.log.{key} needs an extra. {sentence}')

  def __enter__(self) -> 'Live':
    return self

  def __exit__(self, *_) -> None:
    self._end()

  def __call__(self, name: str, config: ConfigDict, record: Record) -> None:
    """Logs a record; the first record of another run closes the open logs."""
    if name != self._run:
      self._end()
      self._run = name
      for key, begin in _LOGS.items():
        if config.get('log', {}).get(key):
          show, close = begin(self._folder, name, config, record.step)
          self._show.append(show)
          self._close.append(close)
    for show in self._show:
      show(record.step, scalars(record))

  def _end(self) -> None:
    for close in self._close:
      close()
    self._show, self._close = [], []


def scalars(record: Record) -> dict[str, float]:
  """The fields of a record that are not None; of a list, its largest value."""
  found = {}
  for key, value in msgspec.structs.asdict(record).items():
    if isinstance(value, dict):
      stem = '' if key == 'scores' else f'{key}/'
      found |= {f'{stem}{name}': number for name, number in value.items()}
    elif value is not None and key != 'step':
      found[key] = max(value) if isinstance(value, list) else value
  return found


def _tensorboard(
  folder: pathlib.Path, name: str, config: ConfigDict, step: int
) -> tuple[Show, Callable[[], None]]:
  import tensorboardX

  del config
  # A resumed run repeats steps; TensorBoard drops those logged before.
  writer = tensorboardX.SummaryWriter(
    str(folder / name / 'tensorboard'), purge_step=step
  )

  def show(step, values):
    for key, value in values.items():
      writer.add_scalar(key, value, step)
    writer.flush()

  return show, writer.close


def _wandb(
  folder: pathlib.Path, name: str, config: ConfigDict, step: int
) -> tuple[Show, Callable[[], None]]:
  import wandb

  del step
  # A resumed run continues its log; a run in a new folder begins another.
  id_file = folder / name / 'wandb-id'
  if not id_file.exists():
    id_file.write_text(uuid.uuid4().hex)
  run = wandb.init(
    project=os.environ.get('WANDB_PROJECT', 'gossipjax'),
    group=folder.name,
    name=name,
    dir=str(folder),
    config=config.to_dict(),
    resume='allow',
    id=id_file.read_text(),
  )
  return lambda step, values: run.log(values, step=step), run.finish


_LOGS = {'tensorboard': _tensorboard, 'wandb': _wandb}
