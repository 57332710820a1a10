"""Starts Ray on this host, or joins a Ray cluster that is running."""

import atexit
import contextlib
import os
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator

from absl import flags

from gossipjax.errors import UserError, require

_ADDRESS = flags.DEFINE_string(
  'address',
  '',
  'host:port of a Ray cluster, for config.engine=ray; else Ray runs on this '
  'host.',
)
# Bytes of the folder of temporary files: a socket's path may have 107, of which
# 76 are for
# /gj-12345678/session_2026-01-31_23-59-59_123456_1234567/sockets/plasma_store.
_MAX_FOLDER_BYTES = 31
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def address() -> str:
  """The value of --address; '' without it."""
  return _ADDRESS.value if flags.FLAGS.is_parsed() else ''


@contextlib.contextmanager
def connected() -> Iterator[None]:
  """Starts or joins Ray; in the end stops its processes, removes its files.

  Started on this host, it listens at 127.0.0.1 only, has no dashboard and sends
  no usage statistics.

  Raises:
    UserError: Ray is not installed, does not start in time, or runs in this
      process already; or there is no cluster at --address.
  """
  require('ray')
  os.environ['RAY_USAGE_STATS_ENABLED'] = '0'
  import ray

  if ray.is_initialized():
    raise UserError(
      'config.engine=ray starts and ends a Ray of its own, and this process '
      'has one already; call ray.shutdown() first, or start the run in '
      'another process.'
    )
  folder = _short_folder()
  try:
    with _own_signals():
      where = address()
      if where:
        _join(ray, where)
      else:
        _begin(ray, folder)
    yield
  finally:
    try:
      ray.shutdown()
    finally:
      shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
  """Restores the signal handlers, since Ray sets its own.

  Ray's processes block SIGHUP: when a terminal closes they get it, too, and the
  last checkpoint needs them.
  """
  # Python sets signal handlers in the main thread only.
  in_thread = threading.current_thread() is not threading.main_thread()
  numbers = () if in_thread else _SIGNALS
  handlers = {number: signal.getsignal(number) for number in numbers}
  blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
  try:
    yield
  finally:
    for number, handler in handlers.items():
      signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _short_folder() -> str:
  """Makes a folder with a path short enough for sockets in it."""
  long = len(os.fsencode(tempfile.gettempdir())) > _MAX_FOLDER_BYTES
  folder = tempfile.mkdtemp(prefix='gj-', dir='/tmp' if long else None)
  # A Ray that did not start ends its processes, which write there, at exit.
  atexit.register(shutil.rmtree, folder, ignore_errors=True)
  return folder


def _join(ray, where: str) -> None:
  try:
    ray.init(address=where, log_to_driver=False, logging_level='ERROR')
  except (ConnectionError, ValueError, RuntimeError) as error:
    if 'InvalidAuthToken' in f'{error} {error.__cause__}':
      raise UserError(
        f'--address={where}: that Ray cluster wants its token; set '
        'RAY_AUTH_MODE=token, and give the token in RAY_AUTH_TOKEN or '
        '~/.ray/auth_token.'
      ) from error
    if 'Version mismatch' in str(error):
      reason = ' '.join(str(error).split()).rstrip('.')
      raise UserError(f'--address={where}: {reason}.') from error
    raise UserError(
      f'--address={where}: there is no Ray cluster; `ray start --head` starts '
      'one.'
    ) from error


def _begin(ray, folder: str) -> None:
  # Ray forks only to start programs, which threads of JAX do not disturb.
  warnings.filterwarnings('ignore', 'os.fork', RuntimeWarning)
  try:
    ray.init(
      'local',  # Whatever RAY_ADDRESS says.
      num_cpus=1,
      include_dashboard=False,
      log_to_driver=False,
      logging_level='ERROR',
      object_store_memory=_store_bytes(),
      _node_ip_address='127.0.0.1',
      _temp_dir=folder,
      # Ray's default, 15, is almost the lowest priority.
      _system_config={'worker_niceness': 0},
    )
  except Exception as error:  # Ray names no kinds.
    reason = ' '.join(str(error).split()).rstrip('.')
    raise UserError(
      f'Ray did not start: {reason}. If this machine is busy, try again.'
    ) from error


def _store_bytes() -> int:
  """Size of the object store: 30 % of the free shared memory, 80 MB to 2 GB."""
  disk = os.statvfs('/dev/shm') if os.path.isdir('/dev/shm') else None
  free = disk.f_bavail * disk.f_frsize if disk else 2**30
  return int(max(80e6, min(2e9, 0.3 * free)))
