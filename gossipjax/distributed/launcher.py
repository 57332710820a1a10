"""Starts several processes on this host and ends them together.

Their output is printed with the number of the process in front. SIGINT, SIGTERM
and SIGHUP reach them as SIGTERM. All processes end when one of them fails or
hangs, and when the launcher dies, see lifeline.py.
"""

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence

from gossipjax.distributed import allocator, failures, lifeline
from gossipjax.distributed.constants import PEER_LOST
from gossipjax.distributed.echo import Echo, end, print_line
from gossipjax.errors import UserError

# Numbers of the GPUs of this host that a process may see; ignored on CPUs.
DEVICES = 'JAX_LOCAL_DEVICE_IDS'
GRACE_S = 10  # For the other processes to end, once one has.
SILENT_S = 2  # Without output, after a process has ended.
START_S = 5  # Of silence that is allowed beyond the heartbeat.


def with_workers(arguments: Sequence[str], processes: int) -> list[str]:
  """Arguments of `run`, with a worker per process unless they set workers."""
  # absl takes flags with one hyphen, too.
  if any(word.lstrip('-').startswith('config.workers') for word in arguments):
    return list(arguments)
  return [*arguments, f'--config.workers={processes}']


def command(
  arguments: Sequence[str],
  processes: int,
  process: int,
  coordinator: str,
) -> list[str]:
  """The command line of one of several processes that train together.

  Args:
    arguments: flags of `python -m gossipjax run`.
    processes: how many there are.
    process: the number of this one, from 0.
    coordinator: host:port of process 0.
  """
  return [
    sys.executable,
    '-u',
    '-m',
    'gossipjax',
    'run',
    '--distributed',
    f'--coordinator={coordinator}',
    f'--num_processes={processes}',
    f'--process_id={process}',
    *arguments,
  ]


def run(
  commands: Iterable[Sequence[str]],
  grace_s: float = GRACE_S,
  heartbeat_s: float = math.inf,
  devices: int = 1,
) -> int:
  """Runs commands together until all have ended; when one fails, ends all.

  Args:
    commands: of the processes.
    grace_s: for the others to end, once one has failed.
    heartbeat_s: of silence, after which a process counts as lost; infinite
      for commands other than `command`, which send no heartbeat.
    devices: GPUs of each process, unless JAX_LOCAL_DEVICE_IDS names some.

  Returns:
    0, or the exit code of the first that failed.

  Raises:
    UserError: the system cannot start so many processes.
  """
  commands = list(commands)
  lifelines, running, echoes = _all_started(commands, devices)
  signals = _Signals(running)
  try:
    silent = lambda: lifelines.silent(heartbeat_s + START_S)
    failed, stuck = failures.first_failure(running, silent)
    if failed is not None and not stuck:
      stuck = failures.hanging(running, grace_s)
      failed = failures.cause(running, failed)
  finally:
    lifelines.close()
    for process in running:
      _kill(process)
    signals.give_back()
    end(echoes, SILENT_S)
  if failed is None:
    return 0
  if not signals.received:
    print_line(failures.sentence(running, failed, stuck), sys.stderr)
  code = running[failed].wait()
  if failures.is_lost(running, failed, stuck) and not signals.received:
    return PEER_LOST
  code = code if code > 0 else 128 - code
  # The processes got SIGTERM, whichever signal the launcher got.
  by_signal = signals.received and code == 128 + signal.SIGTERM
  return 128 + signals.received if by_signal else code


def _all_started(
  commands: Sequence[Sequence[str]], devices: int
) -> tuple[lifeline.Lifelines, list[subprocess.Popen], list[Echo]]:
  """Starts all processes; kills them if one cannot be started."""
  running: list[subprocess.Popen] = []
  echoes: list[Echo] = []
  try:
    lifelines = lifeline.Lifelines(len(commands))
    for i, command in enumerate(commands):
      running.append(_start(command, i, lifelines.theirs[i], devices))
      echoes.append(Echo(i, running[i]))
  except (OSError, RuntimeError) as error:  # The second: no thread.
    for process in running:
      _kill(process)
    raise UserError(
      f'Process {len(running)} of {len(commands)} could not be started '
      f'({error}); start fewer, or raise `ulimit -n` and `ulimit -u`.'
    ) from error
  return lifelines, running, echoes


def _start(
  command: Sequence[str], number: int, end: socket.socket, devices: int
) -> subprocess.Popen:
  """Starts a process with its end of a lifeline and with GPUs of its own."""
  gpus = range(number * devices, (number + 1) * devices)
  environment = (
    allocator.environment()
    | {DEVICES: ','.join(map(str, gpus))}
    | os.environ
    | {lifeline.VARIABLE: str(end.fileno())}
  )
  # In its own session: ctrl-C in a terminal reaches the launcher only.
  process = subprocess.Popen(
    command,
    stdout=subprocess.PIPE,
    start_new_session=True,
    stderr=subprocess.STDOUT,
    env=environment,
    pass_fds=[end.fileno()],
  )
  end.close()
  return process


def _kill(process: subprocess.Popen) -> None:
  """Kills a process, and those that it has started in its session."""
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(process.pid, signal.SIGKILL)


class _Signals:
  """Sends all processes SIGTERM at the first signal, SIGKILL at the second."""

  def __init__(self, running: Sequence[subprocess.Popen]):
    self.received, self._running = 0, running
    self._before = {
      number: signal.signal(number, self._receive)
      for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
      if signal.getsignal(number) is not signal.SIG_IGN  # As by nohup.
    }

  def give_back(self) -> None:
    """Restores the signal handlers from before."""
    for number, before in self._before.items():
      signal.signal(number, before or signal.SIG_DFL)

  def _receive(self, number, frame) -> None:
    del frame
    stop = _kill if self.received else subprocess.Popen.terminate
    for process in self._running:
      stop(process)
    self.received = number
