"""The shape of a link: its rate, delay and loss."""

import re
from typing import Any, NamedTuple

from gossipjax.errors import UserError

_BITS = {'': 1, 'k': 1e3, 'm': 1e6, 'g': 1e9}
_SECONDS = {'us': 1e-6, 'ms': 1e-3, 's': 1.0}
_MOST_BYTES_PER_S = 2**32  # A token bucket has its rate in 32 bits.


class LinkShape(NamedTuple):
  """The shape of every worker's link.

  Attributes:
    bytes_per_s: in each direction; None for as fast as the machine.
    delay_s: of what leaves the worker, so that a round trip takes two.
    loss: share of the packets that are dropped on their way in, [0, 1).
  """

  bytes_per_s: int | None = None
  delay_s: float = 0.0
  loss: float = 0.0


def parse(rate: str = '', delay: str = '', loss: float = 0.0) -> LinkShape:
  """A shape from the words of a command line.

  Args:
    rate: such as '100mbit' or '1gbit'; '' for as fast as the machine.
    delay: such as '0.2ms' or '30ms'; '' for none.
    loss: share of lost packets.

  Raises:
    UserError: no link has that rate, delay or loss.
  """
  bits = re.fullmatch(r'([1-9]\d*(?:\.\d+)?)([kmg]?)bit', rate)
  if rate and not bits:
    raise UserError(f'--rate={rate} is no rate; write 100mbit or 1gbit.')
  bytes_per_s = round(float(bits[1]) * _BITS[bits[2]] / 8) if bits else None
  if bits and bytes_per_s >= _MOST_BYTES_PER_S:
    raise UserError(
      f'--rate={rate} is too fast to be shaped; give at most 34gbit, or '
      'leave --rate out.'
    )
  time = re.fullmatch(r'(\d+(?:\.\d+)?)(us|ms|s)', delay)
  if delay and not time:
    raise UserError(f'--delay={delay} is no time; write 0.2ms or 30ms.')
  if not 0 <= loss < 1:
    raise UserError(f'--loss={loss} is a share, at least 0 and below 1.')
  delay_s = float(time[1]) * _SECONDS[time[2]] if time else 0.0
  return LinkShape(bytes_per_s, delay_s, loss)


def limit(
  where: Any, device: int, link: LinkShape, delay_s: float = 0.0
) -> None:
  """Limits an interface's rate by a token bucket; netem below it delays.

  Args:
    where: an IPRoute, of this machine or of a namespace.
    device: index of the interface.
    link: the shape.
    delay_s: that the kernel, which needs sch_netem, adds.
  """
  parent = {}
  if link.bytes_per_s:
    # What may pass at once: the bytes of a millisecond, or ten packets.
    burst = max(15_000, round(link.bytes_per_s * 1e-3))
    where.tc(
      'add',
      'tbf',
      index=device,
      handle='1:',
      rate=link.bytes_per_s,
      burst=burst,
      latency='400ms',
    )
    parent = {'parent': '1:'}
  if delay_s:
    delay_us = round(1e6 * delay_s)
    where.tc('add', 'netem', device, delay=delay_us, limit=100_000, **parent)
