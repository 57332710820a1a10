"""Messages among the processes of a run and the one that starts them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gossipjax.collectives.bills import FLAG
from gossipjax.traffic import Traffic, unpack_traffic

WAIT_S = 60.0  # For an answer of a process, or until a server is back.
START_S = 300.0  # For a process to start and to compile.
BUSY = 'busy'  # The answer of a worker that waits for an answer itself.


class Gone(Exception):
  """A process does not answer a request."""


class Entry(NamedTuple):
  """A gradient that a worker has used.

  Attributes:
    workers: those that attended its round, itself first.
    loss: of the gradient's batch.
    bills: digits of the Traffic of each, see traffic.py.
    stale: versions of the model between its computation and its use.
    spans: (kind of timeline.KINDS, from_s, until_s), how it spent its time.
    refused: bytes of each message that the first other worker was too busy to
      take.
  """

  workers: list[int]
  loss: float
  bills: np.ndarray
  stale: int
  spans: list[tuple[str, float, float]]
  refused: list[int]

  @property
  def sent(self) -> Traffic:
    """Traffic of each, with refused messages and the flags that refuse them."""
    traffic = unpack_traffic(self.bills)
    if not self.refused:
      return traffic
    size, number = sum(self.refused), len(self.refused)
    pad = lambda mine, theirs: [mine, theirs, *[0] * len(self.workers)][
      : len(self.bills)
    ]
    extra = Traffic.of(
      pad(size, number * FLAG), pad(number, number), pad(number * FLAG, size)
    )
    counts: list[Any] = [np.asarray(count) for count in extra.counts()]
    return traffic + Traffic(*counts)


class Answer(NamedTuple):
  """What a process replies to another.

  Attributes:
    message: values that the other needs.
    version: how often others had changed its model before.
  """

  message: list[np.ndarray]
  version: int


def on_host(arrays: Sequence[jax.Array]) -> list[np.ndarray]:
  """Brings arrays to the host; those of a CPU need not be copied."""
  return [np.asarray(x) for x in arrays]
