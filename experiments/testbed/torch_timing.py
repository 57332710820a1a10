"""PyTorch's own exchanges on the same links, written as its users would.

Called as timing.py; "what" is one of EXCHANGES. Needs torch.
"""

import json
import os
import pathlib
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from experiments.testbed.network import INTERFACE
from gossipjax.profiling.interleaved_timing import median_seconds

TURNS, ROWS = 5, 1000


def all_reduce(numbers: int) -> Callable[[], object]:
  """The dense mean."""
  x = torch.randn(numbers)
  return lambda: dist.all_reduce(x.clone())


def top_k(numbers: int, density: float = 0.001) -> Callable[[], object]:
  """Indices as torch.topk gives them, int64; gathered, added up."""
  x, k = torch.randn(numbers), max(1, round(density * numbers))

  def exchange():
    indices = torch.topk(x.abs(), k, sorted=False).indices
    values = x[indices]
    ranks = range(dist.get_world_size())
    all_values = [torch.empty_like(values) for _ in ranks]
    all_indices = [torch.empty_like(indices) for _ in ranks]
    dist.all_gather(all_values, values)
    dist.all_gather(all_indices, indices)
    return torch.zeros_like(x).index_add_(
      0, torch.cat(all_indices), torch.cat(all_values)
    )

  return exchange


def power_sgd(numbers: int, rank: int = 4) -> Callable[[], object]:
  """The hook of DistributedDataParallel, around a backward pass of no work."""
  layer = torch.nn.Linear(ROWS, max(1, numbers // ROWS), bias=False)
  model = DistributedDataParallel(layer, bucket_cap_mb=numbers)
  state = powerSGD_hook.PowerSGDState(
    None, matrix_approximation_rank=rank, start_powerSGD_iter=2
  )
  model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
  x = torch.randn(1, ROWS)

  def exchange():
    model.zero_grad()
    model(x).sum().backward()

  for _ in range(3):  # Dense until then.
    exchange()
  return exchange


EXCHANGES = {'all_reduce': all_reduce, 'topk': top_k, 'power_sgd': power_sgd}


def measure(what: str, numbers: int, arguments: dict) -> dict:
  """Median seconds from a common start; the slowest process counts."""
  exchange = EXCHANGES[what](numbers, **arguments)
  seconds = median_seconds(
    {'exchange': exchange}, TURNS, before=lambda name: dist.barrier()
  )
  slowest = torch.tensor(seconds['exchange'])
  dist.all_reduce(slowest, dist.ReduceOp.MAX)
  return {'what': what, 'numbers': numbers, 'seconds': slowest.item()}


def main(
  address: str, processes: str, process: str, spec: str, out: str
) -> None:
  """One of the processes."""
  os.environ['GLOO_SOCKET_IFNAME'] = INTERFACE
  dist.init_process_group(
    'gloo',
    init_method=f'tcp://{address}',
    world_size=int(processes),
    rank=int(process),
  )
  found = [measure(**exchange) for exchange in json.loads(spec)]
  if process == '0':
    pathlib.Path(out).write_text(json.dumps(found))
  dist.barrier()
  # Taking the group down can abort a process whose peer was a little faster.
  os._exit(0)


if __name__ == '__main__':
  main(*sys.argv[1:])
