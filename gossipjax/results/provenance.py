"""Provenance of the files of a workdir: commit, versions and devices."""

import functools
import os
import pathlib
import platform
import re
import subprocess
from importlib import metadata
from typing import Any

import jax

from gossipjax.results import machine

# Gives the commit if the code is a copy without Git: an image, an archive.
VARIABLE = 'GOSSIPJAX_COMMIT'
PACKAGES = ('jax', 'jaxlib', 'flax', 'optax', 'numpy', 'orbax-checkpoint')


def of_this_process() -> dict[str, Any]:
  """Commit, versions, devices and settings of this process.

  The commit is followed by '(modified)' if a Python file differs from it; it is
  that of the first call, since a checkout may change while a process trains.
  """
  return {
    'commit': commit(),
    'python': platform.python_version(),
    'versions': {name: metadata.version(name) for name in PACKAGES},
    'devices': [str(d) for d in jax.devices()],
    'processes': jax.process_count(),
    'device_kind': jax.devices()[0].device_kind,
    'cores': usable_cores(),
    'processor': processor(),
    'settings': machine.settings(),
  }


@functools.cache
def commit() -> str:
  """The commit of this code, looked up once in a process."""
  git = ('git', '-C', os.path.dirname(__file__))
  try:
    # The code may be installed inside another project's repository.
    tracked = [*git, 'ls-files', '--error-unmatch', __file__]
    subprocess.check_output(tracked, stderr=subprocess.DEVNULL)
    found = subprocess.check_output(
      [*git, 'rev-parse', 'HEAD'], text=True, stderr=subprocess.DEVNULL
    )
    # Only changed code counts, not results that are about to be committed.
    changed = [*git, 'status', '--porcelain', '--', ':(top)*.py']
    dirty = subprocess.check_output(changed, text=True)
  except (OSError, subprocess.CalledProcessError):
    found, dirty = os.environ.get(VARIABLE) or 'unknown', ''
  return found.strip() + (' (modified)' if dirty.strip() else '')


def usable_cores() -> int | None:
  """How many cores this process may use."""
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count()


def processor() -> str:
  """The model of the CPU; '' if the system hides it. The last bits of a product
  depend on it, because cache sizes determine the order of sums."""
  try:
    text = pathlib.Path('/proc/cpuinfo').read_text()
  except OSError:
    return platform.processor()
  names = ('model name', 'cpu family', 'model', 'stepping')
  fields = dict(
    re.findall(r'^([\w ]+?)\s*: (.*)$', text.split('\n\n')[0], re.M)
  )
  return ', '.join(f'{k} {fields[k]}' for k in names if k in fields)
