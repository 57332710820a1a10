"""Which devices the workers run on."""

import jax

from gossipjax.errors import UserError


def of_process(
  num_workers: int, executor: str, per_worker: int
) -> list[jax.Device]:
  """The devices of all workers in a single process, those of a worker in a row.

  Args:
    num_workers: how many.
    executor: its name, for error messages.
    per_worker: devices of each worker.

  Raises:
    UserError: there are too few devices, or pmap gets several for a worker.
  """
  if executor == 'pmap' and per_worker > 1:
    raise UserError(
      f'executor=pmap has one device per worker, not devices_per_worker='
      f'{per_worker}; shard_map has any number.'
    )
  needed = num_workers * per_worker
  if jax.device_count() < needed:
    raise UserError(
      f'executor={executor} needs a device per worker: workers={num_workers}'
      f'{_several(per_worker)}, devices={jax.device_count()}; executor=vmap '
      'runs any number on one.'
    )
  return jax.devices()[:needed]


def over_processes(
  num_workers: int, executor: str, per_worker: int
) -> tuple[list[jax.Device], slice]:
  """The devices of all workers over several processes.

  Args:
    num_workers, executor, per_worker: as those of `of_process`.

  Returns:
    The devices in the order of the processes, so that each has consecutive
    workers; and the workers of this process.

  Raises:
    UserError: the executor runs in one process only, the number of workers does
      not fit the number of devices, or a worker would span processes.
  """
  if executor not in ('auto', 'shard_map'):
    raise UserError(
      f'executor={executor} runs in one process; shard_map runs in '
      f'{jax.process_count()}.'
    )
  if num_workers * per_worker != jax.device_count():
    raise UserError(
      f'workers={num_workers}{_several(per_worker)}, but '
      f'{jax.process_count()} processes have {jax.device_count()} devices; '
      + (
        'give as many workers as devices.'
        if per_worker == 1
        else 'workers * devices_per_worker must be the number of devices.'
      )
    )
  if jax.local_device_count() % per_worker:
    raise UserError(
      f'devices_per_worker={per_worker} has to divide the '
      f'{jax.local_device_count()} devices of each process; a worker is within '
      'one process.'
    )
  devices = sorted(jax.devices(), key=lambda d: (d.process_index, d.id))
  owners = [d.process_index for d in devices[::per_worker]]
  local = [i for i, owner in enumerate(owners) if owner == jax.process_index()]
  return devices, slice(local[0], local[-1] + 1)


def _several(per_worker: int) -> str:
  return f' of devices_per_worker={per_worker}' if per_worker > 1 else ''
