"""A module's `main(HOST:PORT, PROCESSES, PROCESS, ...)` in every namespace."""

import sys

from experiments.testbed import network
from gossipjax import launch

PORT = 7077


def run(workers: int, module: str, *arguments: str) -> int:
  """Runs `python -m module` in the namespaces of a `network`; the exit code."""
  coordinator = f'{network.address(0)}:{PORT}'
  return launch.run(network.inside(
      i, [sys.executable, '-u', '-m', module, coordinator, str(workers), str(i),
          *arguments]) for i in range(workers))
