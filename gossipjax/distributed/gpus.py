"""Whether JAX can use the NVIDIA GPUs of this machine, and if not, why.

JAX goes on without them, on the CPU, unless JAX_PLATFORMS asks for them.
"""

import ctypes
import os
import traceback
from importlib import metadata
from typing import NamedTuple

import jax

from gossipjax.errors import UserError

# CUDA of the wheels -> the oldest driver for it.
# https://docs.jax.dev/en/latest/installation.html
DRIVERS = {12: 525, 13: 580}
INSTALL = 'pip install -r requirements.txt'  # With wheels for INSTALLED.
INSTALLED = 12


class GpuStatus(NamedTuple):
  """What this machine has.

  Attributes:
    driver: the CUDA that the driver supports, as 12.4; None without a driver.
    devices: GPUs that the driver shows.
    wheels: the CUDA of the wheels that are installed, 12 or 13.
    reason: why JAX has no GPU, in its words; '' if it has one.
  """

  driver: float | None
  devices: int
  wheels: tuple[int, ...]
  reason: str


def gpu_status() -> GpuStatus:
  """Looks at the driver, the wheels and JAX."""
  driver, devices = _driver()
  return GpuStatus(driver, devices, _wheels(), _reason())


def _driver() -> tuple[float | None, int]:
  try:
    library = ctypes.CDLL('libcuda.so.1')
  except OSError:
    return None, 0
  number = ctypes.c_int(0)
  library.cuDriverGetVersion(ctypes.byref(number))
  version = number.value // 1000 + number.value % 1000 / 100
  devices = ctypes.c_int(0)
  if library.cuInit(0) == 0:
    library.cuDeviceGetCount(ctypes.byref(devices))
  return version, devices.value


def _wheels() -> tuple[int, ...]:
  installed = []
  for cuda in DRIVERS:
    try:
      metadata.version(f'jax-cuda{cuda}-plugin')
      installed.append(cuda)
    except metadata.PackageNotFoundError:
      pass
  return tuple(installed)


def _reason() -> str:
  try:
    jax.devices('cuda')
  except (RuntimeError, AssertionError) as error:
    return ' '.join(str(error).split())[:300] or 'no reason given'
  return ''


def explanation(machine: GpuStatus) -> str:
  """Why JAX has no GPU, and what to do; '' if it has one."""
  if not machine.reason:
    return ''
  if machine.driver is None:
    return (
      'There is no NVIDIA driver (libcuda.so.1) on this machine; install one, '
      'or start the container with its GPUs, or run on a CPU with '
      'JAX_PLATFORMS=cpu.'
    )
  if not machine.devices:
    return (
      'The NVIDIA driver shows no GPU; check `nvidia-smi` and '
      'CUDA_VISIBLE_DEVICES, or run on a CPU with JAX_PLATFORMS=cpu.'
    )
  needed = min(machine.wheels, default=INSTALLED)
  if not machine.wheels and machine.driver >= needed:
    return (
      f'JAX is installed without CUDA; `{INSTALL}` adds its wheels for CUDA '
      f'{INSTALLED}.'
    )
  if machine.driver < needed:
    return (
      f'The NVIDIA driver supports CUDA {machine.driver:g}, and the wheels of '
      f'JAX need {needed}: install driver {DRIVERS[needed]} or newer'
      + _older_wheels(machine.driver)
    )
  return f'JAX finds no GPU: {machine.reason}'


def of_error(error: Exception) -> str:
  """Why JAX lacks a platform that JAX_PLATFORMS names; '' for other errors."""
  *_, last = traceback.extract_tb(error.__traceback__)
  # JAX raises this if only 'cuda' is asked for and its wheels are missing.
  bare = isinstance(error, AssertionError) and 'xla_bridge' in last.filename
  if not bare and 'Unable to initialize backend' not in str(error):
    return ''
  platforms = getattr(jax.config, 'jax_platforms', None) or 'cuda'
  if {'cuda', 'gpu'}.isdisjoint(platforms.split(',')):
    return (
      f'JAX lacks the platforms in JAX_PLATFORMS={platforms}; use cpu or cuda.'
    )
  return explanation(gpu_status()) or ' '.join(str(error).split())[:300]


def _older_wheels(driver: float) -> str:
  if driver < min(DRIVERS):
    return '.'
  newest = max(cuda for cuda in DRIVERS if cuda <= driver)
  return f", or the older wheels: pip install 'jax[cuda{newest}]'."


def require() -> None:
  """Raises a UserError if JAX has no GPU."""
  if why := explanation(gpu_status()):
    raise UserError(why)


def share_memory() -> None:
  """Lets several processes use one GPU, also those that this one starts.

  By default the first process of JAX takes three quarters of its memory. Has to
  be called before JAX uses a device.
  """
  os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')


def unused() -> str:
  """A sentence if JAX takes the CPU though the driver shows a GPU."""
  platforms = getattr(jax.config, 'jax_platforms', None)
  if jax.default_backend() != 'cpu' or platforms == 'cpu':
    return ''
  driver, devices = _driver()
  return explanation(gpu_status()) if driver and devices else ''
