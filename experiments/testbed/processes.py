"""A module's `main(HOST:PORT, PROCESSES, PROCESS, SPEC, OUT)`, everywhere."""

import json
import pathlib
import sys
import tempfile
from typing import Any

from experiments.testbed import network
from gossipjax import launch
from gossipjax.refusal import Refusal

PORT = 7077


def measured(workers: int, link: network.Shape, module: str, spec: Any) -> Any:
  """What `python -m module` leaves in OUT, run in namespaces for SPEC (JSON).

  Raises:
    Refusal: the network cannot be made, or a process failed.
  """
  with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / 'out.json'
    with network.network(workers, link):
      code = _run(workers, module, json.dumps(spec), str(out))
    if code:
      raise Refusal(f'{module} ended with exit code {code}; what its processes '
                    'said stands above.')
    return json.loads(out.read_text())


def _run(workers: int, module: str, *arguments: str) -> int:
  coordinator = f'{network.address(0)}:{PORT}'
  return launch.run(network.inside(
      i, [sys.executable, '-u', '-m', module, coordinator, str(workers), str(i),
          *arguments]) for i in range(workers))
