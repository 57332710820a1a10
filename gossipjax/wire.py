"""Bytes that really left a network interface, by the kernel's counters.

  payload = bytes - 66 packets

since every packet that the kernel hands to an interface carries 14 bytes of
Ethernet, 20 of IPv4 and 32 of TCP (with time stamps) around its payload; a
bare acknowledgement is such a packet with a payload of 0. Both numbers are
counted, so segment sizes and offload need not be known: a large segment that
the card cuts later is one packet here. Options that report losses (SACK) and
IPv6 (20 bytes more a packet) would count as payload.

Linux: Documentation/ABI/testing/sysfs-class-net-statistics; RFC 9293, 7323.
"""

import pathlib
from typing import NamedTuple

import numpy as np
from jax.experimental import multihost_utils

from gossipjax import spmd
from gossipjax.refusal import Refusal
from gossipjax.traffic import Count

HEADERS = 14 + 20 + 32  # Bytes a packet.


class Counters(NamedTuple):
  """Of one interface since it came up."""

  bytes: int
  packets: int


def sent(interface: str) -> Counters:
  """What has left an interface of this network namespace.

  Raises:
    Refusal: there is no such interface.
  """
  folder = pathlib.Path('/sys/class/net') / interface / 'statistics'
  try:
    return Counters(*(int((folder / f'tx_{name}').read_text())
                      for name in Counters._fields))
  except OSError as error:
    known = sorted(p.name for p in pathlib.Path('/sys/class/net').glob('*'))
    raise Refusal(f'--interface={interface} is none of this host\'s: '
                  f'{", ".join(known)}.') from error


def payload(before: Counters, after: Counters) -> int:
  """Bytes without headers that left in between."""
  return (after.bytes - before.bytes
          - HEADERS * (after.packets - before.packets))


class Meter:
  """Counts between `start` and `stop`; nothing where no interface is named."""

  def __init__(self, interface: str | None = None):
    self._interface, self._before = interface, None
    if interface:
      sent(interface)  # Refuses now what would fail later.

  def start(self) -> None:
    """From now on; does nothing while running."""
    if self._interface and self._before is None:
      self._before = sent(self._interface)

  def stop(self) -> np.ndarray | None:
    """i64[processes]: what each has sent; None if nothing is counted."""
    if self._before is None:
      return None
    # Only when the others have got it all has it all left.
    multihost_utils.sync_global_devices('wire')
    mine = payload(self._before, sent(self._interface))
    self._before = None
    return np.asarray(spmd.gather(Count.of([mine])))
