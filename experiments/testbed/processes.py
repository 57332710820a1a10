"""Runs the same program in every namespace: training, or measuring."""

import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from experiments.testbed import network
from experiments.testbed.link_shape import LinkShape
from gossipjax.distributed import launcher
from gossipjax.errors import UserError

PORT = 7077


def train(workers: int, link: LinkShape, arguments: list[str]) -> int:
  """Trains with a worker in each namespace; the exit code."""
  if not any(a.startswith('--workdir') for a in arguments):
    arguments = [*arguments, f'--workdir=runs/testbed-{time.time():.0f}']
  arguments = launcher.with_workers(arguments, workers)
  arguments.append(f'--interface={network.INTERFACE}')
  return _everywhere(
    workers,
    link,
    lambda coordinator, i: launcher.command(arguments, workers, i, coordinator),
  )


def run_module(workers: int, link: LinkShape, module: str, spec: Any) -> Any:
  """What `main(HOST:PORT, PROCESSES, PROCESS, SPEC, OUT)` of a module leaves in
  OUT, run in namespaces for SPEC (JSON).

  Raises:
    UserError: the network cannot be made, or a process failed.
  """
  with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / 'out.json'
    code = _everywhere(
      workers,
      link,
      lambda coordinator, i: [
        sys.executable,
        '-u',
        '-m',
        module,
        coordinator,
        str(workers),
        str(i),
        json.dumps(spec),
        str(out),
      ],
    )
    if code:
      raise UserError(
        f'{module} ended with exit code {code}; what its processes '
        'said stands above.'
      )
    return json.loads(out.read_text())


def _everywhere(
  workers: int, link: LinkShape, command: Callable[[str, int], list[str]]
) -> int:
  coordinator = f'{network.address(0)}:{PORT}'
  with network.network(workers, link):
    return launcher.run(
      network.in_namespace(
        i, ['taskset', '-c', _cores(i, workers), *command(coordinator, i)]
      )
      for i in range(workers)
    )


def _cores(worker: int, workers: int) -> str:
  """The cores of a worker, such as '2,3', since hosts share none.

  Threads of workers that may use all cores displace each other, and the workers
  wait longer.
  """
  cores = sorted(os.sched_getaffinity(0))
  share = len(cores) // workers
  chosen = (
    cores[worker * share : (worker + 1) * share]
    if share
    else [cores[worker % len(cores)]]
  )
  return ','.join(map(str, chosen))
