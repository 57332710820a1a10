"""Several processes that train together, each with its share of the workers.

All run the same program. Only the first writes and prints; it sends its
decisions about files to the others.
"""

import faulthandler
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import jax
import numpy as np
from absl import flags
from jax.experimental import multihost_utils

from gossipjax.distributed import coordinator, interface_counters
from gossipjax.distributed.constants import HEARTBEAT_S, PEER_LOST
from gossipjax.errors import USER_ERROR_EXIT, UserError

_DISTRIBUTED = flags.DEFINE_bool(
  'distributed',
  False,
  'Run as one of several processes. SLURM and Open MPI 4 are detected; '
  'elsewhere, as under Open MPI 5, give the next three flags.',
)
_COORDINATOR = flags.DEFINE_string(
  'coordinator', None, 'host:port of process 0.'
)
_NUM_PROCESSES = flags.DEFINE_integer('num_processes', None, 'Their number.')
_PROCESS_ID = flags.DEFINE_integer('process_id', None, 'Which one, from 0.')
_INTERFACE = flags.DEFINE_string(
  'interface',
  None,
  'Network interface whose counters fill the column of wire bytes, such as '
  'eth0; processes on one host share them.',
)
_HEARTBEAT_S = flags.DEFINE_integer(
  'heartbeat_s',
  HEARTBEAT_S,
  'Seconds of silence after which a process is lost.',
)
_STEP_TIMEOUT_S = flags.DEFINE_integer(
  'step_timeout_s',
  300,
  'Seconds that a step may take, compiling included, '
  'before its process gives up.',
)

# How Gloo, NCCL and the coordinator report a lost peer.
_GONE = re.compile(
  'Connection closed by peer|Connection reset by peer|[Tt]imed out|'
  'heartbeat timeout|Broken pipe|NCCL error|No route to host'
)


def join() -> bool:
  """Joins the other processes with --distributed, before the backend starts.

  If another process does not join in time, this one ends at once.

  Returns:
    Whether this process is one of several.

  Raises:
    UserError: a flag is wrong or lacks --distributed, nothing says which the
      other processes are, or the address of process 0 is invalid or in use.
    SystemExit: process 0 does not answer.
  """
  identity = _COORDINATOR, _NUM_PROCESSES, _PROCESS_ID
  values = _COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value
  if not _DISTRIBUTED.value:
    for flag in (*identity, _HEARTBEAT_S, _STEP_TIMEOUT_S):
      if flag.present:
        raise UserError(f'--{flag.name} needs --distributed.')
    return False
  _check_flags()
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  faulthandler.disable()  # Else it prints stacks when JAX exits.
  # Otherwise gRPC asks http_proxy or https_proxy for the coordinator.
  os.environ.setdefault('grpc_proxy', '')
  coordinator.join_processes(*values, _STEP_TIMEOUT_S.value, _HEARTBEAT_S.value)
  return True


def _check_flags() -> None:
  for flag in (_HEARTBEAT_S, _STEP_TIMEOUT_S, _NUM_PROCESSES):
    if flag.value is not None and flag.value < 1:
      raise UserError(f'--{flag.name} must be at least 1, got {flag.value}.')
  number, count = _PROCESS_ID.value, _NUM_PROCESSES.value
  if None not in (number, count) and not 0 <= number < count:
    raise UserError(
      f'--process_id={number} is not one of 0 to {count - 1}, those of '
      f'--num_processes={count}.'
    )


def meter() -> interface_counters.Meter:
  """The meter of --interface.

  Raises:
    UserError: there is one process, or no such interface.
  """
  if distributed():
    return interface_counters.Meter(_INTERFACE.value)
  if flags.FLAGS.is_parsed() and _INTERFACE.value:
    raise UserError(
      '--interface counts what processes send each other; it needs '
      '--distributed.'
    )
  return interface_counters.Meter()


def is_first() -> bool:
  """Whether this process writes and prints for all."""
  return not distributed() or jax.process_index() == 0


def run_in_first(action: Callable[[], object]) -> None:
  """Runs `action` in the first process; its UserError ends all processes.

  Raises:
    UserError: in the first process; the others end at once, without a message.
  """
  refusal = None
  if is_first():
    try:
      action()
    except UserError as error:
      refusal = error
  refused = distributed() and multihost_utils.broadcast_one_to_all(
    np.int32(refusal is not None)
  )
  if refusal:
    raise refusal
  if refused:
    leave(USER_ERROR_EXIT)


def broadcast_from_first(number: Callable[[], int]) -> int:
  """Returns `number()` of the first process, which alone calls it; an int32."""
  value = number() if is_first() else 0
  if not distributed():
    return value
  return int(multihost_utils.broadcast_one_to_all(np.int32(value)))


def abandon(error: Exception) -> None:
  """Ends one of several processes after an error; else does nothing.

  Its exit code is PEER_LOST if the error says so, else 1.
  """
  if not distributed():
    return
  match = _GONE.search(str(error))
  if match:
    print(
      f'Process {jax.process_index()}: a peer or the link to it is gone '
      f'({match.group()}); --resume continues from the '
      'last checkpoint.',
      file=sys.stderr,
    )
  # JAX raises some of Gloo's errors as ValueError. In another library's error
  # the words of _GONE may mean something else.
  of_gloo = isinstance(error, ValueError) and 'Gloo' in str(error)
  of_jax = of_gloo or isinstance(error, jax.errors.JaxRuntimeError)
  if not (match and of_jax):
    traceback.print_exception(error)
  leave(PEER_LOST if match else 1)


def leave(code: int) -> NoReturn:
  """Ends this process at once, although others may wait for it."""
  if distributed():
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
  sys.exit(code)


def step_timeout_s() -> int:
  """Seconds that a step may take."""
  return _STEP_TIMEOUT_S.value


def distributed() -> bool:
  """Whether this process is one of several."""
  return flags.FLAGS.is_parsed() and _DISTRIBUTED.value
