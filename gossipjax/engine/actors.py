"""On which nodes actors of Ray run, and whether they have started."""

import time
from collections.abc import Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gossipjax.errors import UserError


def node(turn: int) -> Any:
  """Places a process on a node; `turn` counts through all nodes."""
  nodes = sorted(
    (node['NodeManagerAddress'], node['NodeID'])
    for node in ray.nodes()
    if node['Alive']
  )
  _, chosen = nodes[turn % len(nodes)]
  # With soft=True, Ray would fill one node while others are free.
  return NodeAffinitySchedulingStrategy(chosen, soft=False)


def started(starting: Mapping[tuple[str, int], Any], limit_s: float) -> None:
  """Waits until all processes have started.

  Args:
    starting: by name, a reference to the answer of each once it has started.
    limit_s: for all of them together.

  Raises:
    UserError: one of them has died, or is late.
  """
  left, until = {r: n for n, r in starting.items()}, time.monotonic() + limit_s
  while left:
    wait_s = max(0.0, until - time.monotonic())
    ready, _ = ray.wait([*left], timeout=wait_s)
    kind, i = left.pop(ready[0] if ready else next(iter(left)))
    if not ready:
      raise UserError(
        f'{kind} {i} did not start in {limit_s:g} s; use fewer workers or a '
        'smaller model.'
      )
    try:
      ray.get(ready)
    except (
      ray.exceptions.RayActorError,
      ray.exceptions.ActorUnschedulableError,  # Its node has left.
    ) as error:
      raise UserError(
        f'{kind} {i} died before its first step; {_why(error)}; --debug shows '
        'more.'
      ) from error


def _why(error: Exception) -> str:
  """A process's own error, or the likely cause if it was killed."""
  *_, last = [line.strip() for line in str(error).splitlines() if line.strip()]
  if 'creation task' in str(error):
    return last.removeprefix('gossipjax.errors.UserError: ').rstrip('.')
  return 'it may have run out of memory; use a smaller model or fewer workers'
