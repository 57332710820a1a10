"""Seconds that traffic takes on a link, by the alpha-beta model."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gossipjax.config import ranges
from gossipjax.errors import UserError, nearest
from gossipjax.traffic import Traffic


class Link(NamedTuple):
  """The link of each worker (Hockney, 1994).

  Attributes:
    latency_s: seconds per round, alpha.
    bytes_per_s: bytes, not bits, in each direction, 1 / beta; may be infinite.
    full_duplex: whether both directions have that rate at the same time.
    group: the link between workers of a group, for strategies with groups;
      None: this link.
  """

  latency_s: float
  bytes_per_s: float
  full_duplex: bool = True
  group: 'Link | None' = None


def link(
  latency_s: float, bytes_per_s: float, full_duplex: bool = True
) -> Link:
  """A link of given latency and rate; fields as in `Link`.

  Raises:
    UserError: a value that no link can have.
  """
  ranges.check({'latency_s': latency_s, 'bytes_per_s': bytes_per_s}, 'link.')
  return Link(latency_s, bytes_per_s, full_duplex)


def with_group(slow: Link, fast: Link) -> Link:
  """Returns the link `slow` with the link `fast` inside groups of workers.

  Raises:
    UserError: a link is not full duplex; received bytes are not counted
      separately for groups.
  """
  if not (slow.full_duplex and fast.full_duplex):
    raise UserError(
      'config.group_link needs links that carry both directions at the same '
      'time; set full_duplex=True.'
    )
  return slow._replace(group=fast)


def read(path: str) -> Link:
  """Reads a measured link from JSON with latency_s and bytes_per_s.

  Raises:
    UserError: the file is missing or is no link.
  """
  try:
    with pathlib.Path(path).open('rb') as file:
      entries = json.loads(file.read(_LARGEST))
  except OSError as error:
    raise UserError(f'link={path}: {error.strerror}.') from error
  except (ValueError, RecursionError) as error:
    raise UserError(f'link={path} is no JSON file ({error}).') from error
  if not isinstance(entries, dict):
    raise UserError(f'link={path} is not a link; it needs {_NEEDED}.')
  for key in (key for key in entries if key not in _KINDS):
    raise UserError(f'link={path}: {key} is unknown{nearest(key, _KINDS)}')
  values = {'full_duplex': True} | entries
  for key, kinds in _KINDS.items():
    value = values.get(key)
    if not isinstance(value, kinds) or (
      isinstance(value, bool) and kinds is not bool
    ):
      raise UserError(
        f'link={path}: {key} is {value!r}; a link needs {_NEEDED}.'
      )
  return link(**{key: values[key] for key in _KINDS})


def facts(link: Link) -> dict[str, Any]:
  """Returns what a file of `read` holds of a link; `group` is left out."""
  return {key: getattr(link, key) for key in _KINDS}


_LARGEST = 10**6  # Bytes of a file that are read.
_KINDS: dict[str, Any] = {
  'latency_s': int | float,
  'bytes_per_s': int | float,
  'full_duplex': bool,
}
_NEEDED = (
  'the numbers latency_s and bytes_per_s, and may have full_duplex, true or '
  'false'
)


PRESETS = {
  # Fitted to 32 hosts by Shi et al., 2019 (arXiv:1901.04359), section IV.
  '1gbe': Link(latency_s=0.436e-3, bytes_per_s=1 / 9e-9),
  # Nominal rates below, with latencies usual for the kind of link.
  '10gbe': Link(latency_s=50e-6, bytes_per_s=10e9 / 8),
  '100g': Link(latency_s=5e-6, bytes_per_s=100e9 / 8),
  'nvlink': Link(latency_s=2e-6, bytes_per_s=300e9),
  'wan': Link(latency_s=30e-3, bytes_per_s=100e6 / 8),
}


INNER = 'nvlink'  # Between the devices of a worker, unless a config sets it.


def seconds(link: Link, traffic: Traffic) -> np.ndarray:
  """Modelled seconds of each step, f64[steps].

  Workers step together, so that the slowest one determines the time.

  Args:
    link: the link of each worker, and of the server if there is one.
    traffic: with leading axes [workers, steps].
  """
  rounds, path = np.asarray(traffic.rounds), busiest(link, traffic)
  within: Any = 0.0
  if fast := link.group:
    local_rounds, local_path = traffic.local_rounds, traffic.local_path_bytes
    rounds = rounds - np.asarray(local_rounds)
    within = np.asarray(local_rounds) * fast.latency_s
    within = within + np.asarray(local_path) / fast.bytes_per_s
  between = rounds * link.latency_s + path / link.bytes_per_s
  return (between + within).max(axis=0)


def waited_seconds(
  exchange_s: Sequence[float], step_s: float, late: int
) -> float:
  """Modelled seconds that workers wait during the given steps and after them.

  Exchange t starts after the computation of step t, and after exchange t - 1.
  Its result is needed at the end of step t + late, or at once if late is 0. The
  rest of an exchange overlaps with computation.

  Args:
    exchange_s: seconds of the exchange of each step, 0 where there is none.
    step_s: seconds of the computation of a step.
    late: steps from the start of an exchange to its arrival; 0: workers wait.
  """
  now, ends = 0.0, [0.0] * late
  for t, seconds in enumerate(exchange_s):
    now += step_s
    if late:
      now = max(now, ends[t])
    ends.append(max(now, ends[-1] if ends else 0.0) + seconds)
    if not late:
      now = ends[-1]
  return max([now, *ends[-1:]]) - step_s * len(exchange_s)


def inner_seconds(link: Link, traffic: Traffic, devices: int) -> np.ndarray:
  """Modelled seconds of exchanges within a worker in each step, f64[steps].

  Args:
    link: the link between the devices of a worker.
    traffic: with leading axes [workers, steps].
    devices: per worker; all send the same number of bytes, in rings.
  """
  rounds = np.asarray(traffic.inner_rounds)
  path = np.asarray(traffic.inner) / devices * (1 if link.full_duplex else 2)
  return (rounds * link.latency_s + path / link.bytes_per_s).max(axis=0)


def busiest(link: Link, traffic: Traffic) -> np.ndarray:
  """Bytes on the busiest link of each round, added up, i64[workers, steps].

  Bytes within groups are left out if groups have a link of their own. A link
  that is not full duplex carries at least the sum of sent and received bytes.
  """
  path = np.asarray(traffic.path_bytes)
  if link.group:
    return path - np.asarray(traffic.local_path_bytes)
  if link.full_duplex:
    return path
  both = np.asarray(traffic.bytes) + np.asarray(traffic.received)
  return np.maximum(path, both)
