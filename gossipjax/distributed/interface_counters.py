"""Bytes that left a network interface, from the kernel's counters.

  payload = bytes - 66 packets - 1448 retransmitted

Every packet that the kernel hands to an interface has 14 bytes of Ethernet, 20
of IPv4 and 32 of TCP (with time stamps) around its payload; an acknowledgement
is a packet with a payload of 0. The kernel counts bytes and packets, so segment
sizes and offload need not be known: a large segment that the card splits later
is one packet here. Retransmissions, after a full queue or a lost packet, carry
no new data; the kernel counts them in segments, of 1448 bytes for packets of
1500. Options that report losses (SACK), and IPv6 (20 bytes more per packet),
would count as payload.

Linux: Documentation/ABI/testing/sysfs-class-net-statistics; RFC 9293, 7323.
"""

import pathlib
from typing import NamedTuple

import numpy as np
from jax.experimental import multihost_utils

from gossipjax import executors
from gossipjax.errors import UserError
from gossipjax.traffic import Count

HEADERS = 14 + 20 + 32  # Bytes per packet.
SEGMENT = 1500 - 20 - 32  # Bytes of payload in a usual Ethernet packet.


class Counters(NamedTuple):
  """Counts of one interface, and retransmissions of its network namespace."""

  bytes: int
  packets: int
  retransmitted: int  # TCP segments.


def sent(interface: str) -> Counters:
  """The counters of an interface of this network namespace.

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
      f'--interface={interface} does not exist on this host; there are '
      f'{", ".join(known)}.'
    ) from error


def _retransmitted() -> int:
  lines = pathlib.Path('/proc/net/snmp').read_text().splitlines()
  names, values = (line.split() for line in lines if line.startswith('Tcp:'))
  return int(dict(zip(names, values, strict=True))['RetransSegs'])


def payload(before: Counters, after: Counters) -> int:
  """Bytes of payload sent between two readings, without retransmissions.

  Each retransmission counts as a full segment, so that the difference may be
  negative where little but heartbeats is sent; the result is then 0.
  """
  size, packets, resent = (b - a for a, b in zip(before, after, strict=True))
  return max(0, size - HEADERS * packets - SEGMENT * resent)


class Meter:
  """Counts bytes between `start` and `stop`; none without an interface."""

  def __init__(self, interface: str | None = None):
    self.interface = interface
    self._before: Counters | None = None
    if interface:
      sent(interface)  # An unknown interface is an error now.

  def start(self) -> None:
    """Starts to count; does nothing while counting."""
    if self.interface and self._before is None:
      # A process that is ahead may still send data of the last step.
      multihost_utils.sync_global_devices('wire')
      self._before = sent(self.interface)

  def stop(self) -> np.ndarray | None:
    """Bytes sent, i64[processes]; None without an interface."""
    if self._before is None:
      return None
    # All data have left once all processes have received them.
    multihost_utils.sync_global_devices('wire')
    size = payload(self._before, sent(self.interface))
    self._before = None
    return np.asarray(executors.gather(Count.of([size])))
