"""Bytes that really left a network interface, by the kernel's counters.

  payload = bytes - 66 packets - 1448 retransmitted

since every packet that the kernel hands to an interface carries 14 bytes of
Ethernet, 20 of IPv4 and 32 of TCP (with time stamps) around its payload; a
bare acknowledgement is such a packet with a payload of 0. Both numbers are
counted, so segment sizes and offload need not be known: a large segment that
the card cuts later is one packet here. What TCP sends again, since a queue ran
over or a packet was lost, brings nothing new; the kernel counts it in segments,
of 1448 bytes where a packet has 1500. Options that report losses (SACK) and
IPv6 (20 bytes more a packet) would count as payload.

Linux: Documentation/ABI/testing/sysfs-class-net-statistics; RFC 9293, 7323.
"""

import pathlib
from typing import NamedTuple

import numpy as np
from jax.experimental import multihost_utils

from gossipjax import executors
from gossipjax.errors import UserError
from gossipjax.traffic import Count

HEADERS = 14 + 20 + 32  # Bytes a packet.
SEGMENT = 1500 - 20 - 32  # Bytes; of Ethernet's usual packets.


class Counters(NamedTuple):
  """Of one interface since it came up; segments of its network namespace."""

  bytes: int
  packets: int
  retransmitted: int  # TCP segments.


def sent(interface: str) -> Counters:
  """What has left an interface of this network namespace.

  Raises:
    UserError: there is no such interface.
  """
  folder = pathlib.Path('/sys/class/net') / interface / 'statistics'
  try:
    return Counters(
      int((folder / 'tx_bytes').read_text()),
      int((folder / 'tx_packets').read_text()),
      _retransmitted(),
    )
  except OSError as error:
    known = sorted(p.name for p in pathlib.Path('/sys/class/net').glob('*'))
    raise UserError(
      f"--interface={interface} is none of this host's: {', '.join(known)}."
    ) from error


def _retransmitted() -> int:
  lines = pathlib.Path('/proc/net/snmp').read_text().splitlines()
  names, values = (line.split() for line in lines if line.startswith('Tcp:'))
  return int(dict(zip(names, values, strict=True))['RetransSegs'])


def payload(before: Counters, after: Counters) -> int:
  """Bytes that left for the first time in between, without headers."""
  size, packets, again = (b - a for a, b in zip(before, after, strict=True))
  return size - HEADERS * packets - SEGMENT * again


class Meter:
  """Counts between `start` and `stop`; nothing where no interface is named."""

  def __init__(self, interface: str | None = None):
    self._interface = interface
    self._before: Counters | None = None
    if interface:
      sent(interface)  # Refuses now what would fail later.

  def start(self) -> None:
    """From now on; does nothing while running."""
    if self._interface and self._before is None:
      # Who is ahead of the others may still have some of the past to send.
      multihost_utils.sync_global_devices('wire')
      self._before = sent(self._interface)

  def stop(self) -> np.ndarray | None:
    """i64[processes]: what each has sent; None if nothing is counted."""
    if self._before is None:
      return None
    # Only when the others have got it all has it all left.
    multihost_utils.sync_global_devices('wire')
    mine = payload(self._before, sent(self._interface))
    self._before = None
    return np.asarray(executors.gather(Count.of([mine])))
