"""Runs run.py as users do: a process with an exit code and output.

Processes are forked from one that has imported everything but started nothing,
which saves each of them three seconds of imports.
"""

import multiprocessing
import os
import pathlib
import resource
import runpy
import signal
import subprocess
import sys
from typing import IO, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = (
  '--config=configs/default.py',
  '--config.steps=4',
  '--config.log_every=2',
  '--config.eval_every=2',
)
# An environment in which programs compile in two thirds of the time.
QUICKLY = {'JAX_DISABLE_MOST_OPTIMIZATIONS': '1'}
_FORK = multiprocessing.get_context('forkserver')
_FORK.set_forkserver_preload(
  [
    'gossipjax.comparison.compare',
    'gossipjax.comparison.figures',
    'gossipjax.comparison.progress',
    'gossipjax.comparison.report',
    'gossipjax.comparison.timelines',
    'gossipjax.commands.command_line',
    'gossipjax.config.defaults',
    'matplotlib.backends.backend_agg',
    'rich.progress',
  ]
)


class Ended(NamedTuple):
  """How a process ended; the code is -n if signal n killed it."""

  code: int
  out: str
  err: str


class Running:
  """A process that was started by `start`."""

  def __init__(self, process, folder: pathlib.Path):
    self._process, self._folder = process, folder
    self.pid = process.pid

  def send(self, number: int) -> None:
    """Sends it a signal, unless it has ended."""
    if self._process.is_alive():
      os.kill(self.pid, number)

  def alive(self) -> bool:
    """Whether it still runs."""
    return self._process.is_alive()

  def end(self, limit_s: float | None = None) -> Ended | None:
    """Waits for its end; after `limit_s` kills it and returns None."""
    self._process.join(limit_s)
    if self.alive():
      self.send(signal.SIGKILL)
      self._process.join()
      return None
    return Ended(
      self._process.exitcode,
      *((self._folder / name).read_text() for name in ('out', 'err')),
    )


def start(
  folder: pathlib.Path,
  *args: str,
  module: str = '',
  max_file_bytes: int | None = None,
  **environment: str | None,
) -> Running:
  """Starts run.py with these arguments.

  Args:
    folder: where its output goes; made if it is not there.
    *args: what follows `python run.py`.
    module: to be run with `python -m` instead of run.py.
    max_file_bytes: no file may grow larger.
    **environment: variables on top of this process's; None removes one.
  """
  folder.mkdir(parents=True, exist_ok=True)
  process = _FORK.Process(
    target=_become, args=(folder, args, module, max_file_bytes, environment)
  )
  process.start()
  return Running(process, folder)


def run(folder: pathlib.Path, *args: str, **settings) -> Ended:
  """Starts run.py as `start` does, and waits for its end."""
  return start(folder, *args, **settings).end()


def _become(folder, args, module, max_file_bytes, environment):
  for name, value in {'NPROC': None, **environment}.items():
    os.environ.pop(name, None)
    if value is not None:
      os.environ[name] = value
  if QUICKLY.items() <= environment.items():  # JAX was imported before.
    jax.config.update('jax_disable_most_optimizations', True)
  for name, number in (('out', 1), ('err', 2)):
    file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, number)
  if max_file_bytes is not None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes,) * 2)
  os.chdir(ROOT)
  sys.argv = [module or 'run.py', *args]
  if module:
    runpy.run_module(module, run_name='__main__', alter_sys=True)
  else:
    runpy.run_path('run.py', run_name='__main__')


# For processes that are not forked; NPROC would set how many threads they have.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != 'NPROC'} | {
  'JAX_PLATFORMS': 'cpu',
  'PYTHONPATH': 'tests',
}


def module(
  output: IO[str] | int, *words: str, **environment: str
) -> subprocess.Popen:
  """Starts `python -m WORDS` with nothing forked.

  Args:
    output: for stdout and stderr: a file, or `subprocess.PIPE`.
    *words: the module and its arguments.
    **environment: further variables.
  """
  return subprocess.Popen(
    [sys.executable, '-m', *words],
    text=True,
    cwd=ROOT,
    env=ENVIRONMENT | environment,
    stdout=output,
    stderr=subprocess.STDOUT,
  )


def really(*args: str, **environment: str) -> Ended:
  """Runs `python run.py ARGS` without forking: slower, but as users do."""
  kept = {k: v for k, v in os.environ.items() if k != 'NPROC'}
  done = subprocess.run(
    [sys.executable, 'run.py', *args],
    text=True,
    cwd=ROOT,
    capture_output=True,
    env=kept | environment,
  )
  return Ended(done.returncode, done.stdout, done.stderr)


def arrays(
  checkpoints: pathlib.Path, step: int | None = None
) -> dict[str, np.ndarray]:
  """Reads all arrays of a checkpoint by path; of the newest without a step."""
  if step is None:
    step = max(int(p.name) for p in checkpoints.iterdir())
  place, reader = checkpoints / str(step) / 'workers', ocp.PyTreeCheckpointer()
  plain = jax.tree.map(
    lambda _: ocp.RestoreArgs(restore_type=np.ndarray),
    dict(reader.metadata(place).item_metadata.tree),
  )
  found = reader.restore(place, restore_args=plain)
  return {
    jax.tree_util.keystr(path): np.asarray(leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(found)
  }
