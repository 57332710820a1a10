"""The cable between a worker's interface and the bridge, which may delay.

A pair of interfaces, one of them in the worker's namespace. A kernel with
sch_netem delays what leaves it. Elsewhere the pair is two TAP devices, joined
by programs of Debian's vde2 that wait in between:

  interface - vde_switch - wirefilter - vde_switch - interface on the bridge

They run in the namespace, so that they end with it. They have priority over
other processes, because a real cable needs no CPU time.
"""

import functools
import math
import pathlib
import shutil
import subprocess
import time
from typing import Any

from experiments.testbed.link_shape import LinkShape
from gossipjax.errors import UserError

MOST_BYTES_PER_S = 200e6 / 8  # Of vde2, as measured on two busy cores.
_PROGRAMS = ('vde_switch', 'wirefilter')
_SOCKETS = pathlib.Path('/run/gossipjax')
_START_S = 10.0  # For a program of vde2 to start.
_NO_NETEM = '--delay: this kernel has no sch_netem, and'


@functools.cache
def has_netem() -> bool:
  """Whether this kernel delays; tried where nobody is disturbed."""
  rule = 'tc qdisc add dev lo root netem delay 1ms'
  command = ['unshare', '--net', *rule.split()]
  return subprocess.run(command, capture_output=True).returncode == 0


def needs_vde2(link: LinkShape) -> bool:
  """Whether vde2 has to delay."""
  return bool(link.delay_s) and not has_netem()


def check(link: LinkShape) -> None:
  """Refuses a delay that neither the kernel nor vde2 gives.

  Raises:
    UserError: what to install, or which delay or rate to give.
  """
  if not needs_vde2(link):
    return
  missing = [tool for tool in _PROGRAMS if shutil.which(tool) is None]
  if missing:
    raise UserError(
      f'{_NO_NETEM} `{missing[0]}` is not installed; install vde2 (apt-get '
      'install vde2), or leave --delay out.'
    )
  if not pathlib.Path('/dev/net/tun').exists():
    raise UserError(
      f'{_NO_NETEM} vde2 needs /dev/net/tun; load that module (modprobe tun), '
      'or leave --delay out.'
    )
  milliseconds = 1e3 * link.delay_s
  if not math.isclose(milliseconds, round(milliseconds)):
    least = math.ceil(milliseconds)
    raise UserError(
      f'{_NO_NETEM} vde2 delays by whole milliseconds; give --delay={least}ms.'
    )
  if (link.bytes_per_s or 0) > MOST_BYTES_PER_S:
    raise UserError(
      f'{_NO_NETEM} vde2 carries 200 Mbit/s; give at most --rate=200mbit.'
    )


def lay(host: Any, space: str, interface: str, link: LinkShape) -> None:
  """Makes `interface` in a namespace, and its other end, named as that is.

  Args:
    host: an IPRoute of this machine.
    space: name of the namespace.
    interface: name of the interface in it.
    link: the shape; vde2 delays here, the kernel where it limits the rate.

  Raises:
    UserError: a program of vde2 does not start.
  """
  if not needs_vde2(link):
    peer = {'ifname': interface, 'net_ns_fd': space}
    host.link('add', ifname=space, kind='veth', peer=peer)
    return
  folder = _SOCKETS / space
  folder.mkdir(parents=True)
  inner, outer = folder / 'inner', folder / 'outer'
  for socket, device in ((inner, interface), (outer, space)):
    _start(space, 'vde_switch', '-s', str(socket), '-t', device, '-d')
  delay = f'LR{round(1e3 * link.delay_s)}'  # What leaves the worker waits.
  wire = ['-v', f'{inner}:{outer}', '-d', delay, '-M', str(folder / 'wire')]
  _start(space, 'wirefilter', *wire, '--daemon')
  _await(folder / 'wire')
  _to_host(space)


def remove(space: str) -> None:
  """Removes the sockets of a cable, whose programs have ended."""
  shutil.rmtree(_SOCKETS / space, ignore_errors=True)


def _start(space: str, *command: str) -> None:
  """Runs a program that goes on in the background of a namespace."""
  words = ['ip', 'netns', 'exec', space, 'nice', '-n', '-19', *command]
  done = subprocess.run(words, capture_output=True, text=True)
  if done.returncode:
    raise _start_error(f'`{command[0]}` said: {done.stderr.strip()}')


def _await(path: pathlib.Path) -> None:
  deadline = time.monotonic() + _START_S
  while not path.exists():
    if time.monotonic() > deadline:
      raise _start_error(f'there is no {path} after {_START_S:g} s')
    time.sleep(0.01)


def _to_host(space: str) -> None:
  """Brings the outer end out of the namespace."""
  from pyroute2 import NetNS  # Only whoever makes links has it.

  with NetNS(space, flags=0) as within, open('/proc/self/ns/net') as here:
    if not (found := within.link_lookup(ifname=space)):
      raise _start_error('it made no TAP device')
    within.link('set', index=found[0], net_ns_fd=here.fileno())


def _start_error(reason: str) -> UserError:
  return UserError(
    f'--delay: vde2 did not start ({reason}); leave --delay out.'
  )
