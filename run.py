"""Trains a model under one or several communication strategies.

    python run.py --config=configs/quickstart.py
    python run.py --config=configs/cifar10.py:gtopk --config.workers=4

Leaves records, tables and figures in --workdir (default: runs/NAME-TIME).
"""

import pathlib
import signal
import time

# Imports take seconds, in which ctrl-C is to end it and not to show a
# traceback; `guarded` replaces this.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from absl import app, flags
from ml_collections import config_flags

from gossipjax import executors
from gossipjax.commands import console
from gossipjax.comparison import progress
from gossipjax.comparison.compare import compare, devices, variants
from gossipjax.distributed import processes
from gossipjax.errors import UserError
from gossipjax.results import workdir

config_flags.DEFINE_config_file('config', None, 'What to run.')
_WORKDIR = flags.DEFINE_string('workdir', None, 'Where results go.')
_RESUME = flags.DEFINE_bool('resume', False, 'Continue the run in --workdir.')
_AUDIT = flags.DEFINE_bool(
  'audit', False, 'Hold every bill against the compiled program.'
)


def main(argv, interrupted):
  del argv
  if _RESUME.value and _WORKDIR.value is None:
    raise UserError('--resume needs --workdir, the folder of the run.')
  config, name = console.config()
  if not processes.distributed():
    executors.emulate(devices(run for _, run in variants(config)))
  elif _WORKDIR.value is None or _AUDIT.value:
    raise UserError(
      '--distributed needs --workdir, a folder that all processes '
      'see, and no --audit, which compiles for one.'
    )
  folder = pathlib.Path(
    _WORKDIR.value or f'runs/{name}-{time.strftime("%Y%m%d-%H%M%S")}'
  )
  if _RESUME.value:
    processes.decide(lambda: workdir.needs(folder))
  with progress.Bar() as bar:
    summary = compare(
      config,
      folder,
      _RESUME.value,
      _AUDIT.value,
      watch=bar.show,
      interrupted=interrupted,
    )
  if processes.first():
    progress.show(summary, folder)


if __name__ == '__main__':
  app.run(console.guarded(main), flags_parser=console.parse)
