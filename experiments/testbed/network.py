"""A slow network on one machine: a namespace per worker, joined by a bridge.

Every namespace has its own host name, address and shaped link, in both
directions, so that a process in it runs as on a host of its own. Nothing else
on this machine changes, and all is removed again.

pyroute2 makes and shapes the links. Two commands remain: `ip netns exec`, which
also mounts a namespace's own /etc/hosts, and `nft`, whose random drops pyroute2
cannot express.
"""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence

from filelock import FileLock, Timeout

from experiments.testbed import cable, link_shape
from experiments.testbed.link_shape import LinkShape
from gossipjax.errors import UserError

try:
  from pyroute2 import IPRoute, NetlinkError, NetNS, netns
except ImportError:  # `_alone` says what to install.
  netns = None

BRIDGE = 'gossip-br'
INTERFACE = 'eth0'  # A worker's link inside its namespace.
# A running testbed holds this lock; its end frees it, even if it is killed.
# While the lock is free, interfaces with these names are leftovers.
LOCK = pathlib.Path('/run/gossipjax-testbed.lock')
_BUSY = 'Another testbed runs on this machine; wait for its end, or stop it.'
_REFUSED = (
  'This kernel did not make the network ({error}); a container needs '
  'CAP_SYS_ADMIN and CAP_NET_ADMIN.'
)
_HOSTS = pathlib.Path('/etc/netns')  # Where `ip netns exec` looks.


def name(worker: int) -> str:
  """The name of a worker's namespace, and of its link on the bridge."""
  return f'gossip-w{worker}'


def address(worker: int) -> str:
  """The IP address of a worker's interface."""
  return f'10.77.0.{worker + 1}'


def in_namespace(worker: int, command: Sequence[str]) -> list[str]:
  """A command that runs `command` in a worker's namespace."""
  return ['ip', 'netns', 'exec', name(worker), *command]


@contextlib.contextmanager
def network(workers: int, link: LinkShape) -> Iterator[None]:
  """Makes the namespaces, and removes them whatever happens.

  Raises:
    UserError: no root, a program is missing, another testbed runs, a kernel
      without what the shape needs.
  """
  _check(workers, link)
  with _alone():
    _clear()
    try:
      _make(workers, link)
      yield
    finally:
      _clear()


def _check(workers: int, link: LinkShape) -> None:
  """Refuses, before anything is made, what would fail later."""
  if not 2 <= workers <= 200:
    raise UserError(f'--workers={workers}: a network has 2 to 200.')
  for tool, package in (
    ('ip', 'iproute2'),
    ('taskset', 'util-linux'),
    *([('nft', 'nftables')] if link.loss else ()),
  ):
    if shutil.which(tool) is None:
      raise UserError(
        f'The testbed needs `{tool}`; install {package} (apt-get '
        f'install {package}).'
      )
  cable.check(link)


def clean() -> list[str]:
  """Removes what a killed testbed has left, where none runs; its names."""
  with _alone():
    return _clear()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
  if os.geteuid() != 0:
    raise UserError(
      'The testbed makes network namespaces, which takes root; run it with '
      'sudo, or in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN.'
    )
  if netns is None:
    raise UserError(
      'The testbed needs pyroute2; python -m pip install -r '
      'requirements-dev.txt installs it.'
    )
  try:
    with FileLock(LOCK, timeout=0):
      yield
  except Timeout as error:
    raise UserError(_BUSY) from error


def _clear() -> list[str]:
  """Whatever has a testbed's names, of a start that broke off as well."""
  folders = {x.name for x in _HOSTS.glob('*')}
  named = re.compile(r'gossip-w\d+').fullmatch
  left = sorted(filter(named, folders | {*netns.listnetns()}))
  for space in left:
    _remove(space)
  return left + ([BRIDGE] if _delete(BRIDGE) else [])


def _make(workers: int, link: LinkShape) -> None:
  try:
    with IPRoute() as host:
      host.link('add', ifname=BRIDGE, kind='bridge')
      host.link('set', index=_index(host, BRIDGE), state='up')
      for worker in range(workers):
        _add(host, worker, link)
  except (NetlinkError, OSError) as error:
    raise UserError(_REFUSED.format(error=error)) from error


def _add(host, worker: int, link: LinkShape) -> None:
  """Makes a namespace, a pair of interfaces, and their shaping."""
  space = name(worker)
  folder = _HOSTS / space
  folder.mkdir(parents=True)
  # Gloo listens on the address that the host's own name resolves to.
  (folder / 'hosts').write_text(
    f'127.0.0.1 localhost\n{address(worker)} {socket.gethostname()}\n'
  )
  netns.create(space)
  cable.lay(host, space, INTERFACE, link)
  outer = _index(host, space)
  host.link('set', index=outer, master=_index(host, BRIDGE), state='up')
  link_shape.limit(host, outer, link)
  with NetNS(space, flags=0) as within:
    within.link('set', index=_index(within, 'lo'), state='up')
    inner = _index(within, INTERFACE)
    within.addr('add', index=inner, address=address(worker), prefixlen=24)
    within.link('set', index=inner, state='up')
    delay_s = 0.0 if cable.needs_vde2(link) else link.delay_s
    link_shape.limit(within, inner, link, delay_s)
  if link.loss:
    rules = (
      'add table ip loss; add chain ip loss drops { type filter hook input '
      'priority 0; }; add rule ip loss drops numgen random mod 100000 < '
      f'{round(1e5 * link.loss)} counter drop'
    )
    done = subprocess.run(
      in_namespace(worker, ['nft', rules]), capture_output=True, text=True
    )
    if done.returncode:
      raise UserError(f'nft cannot drop packets: {done.stderr.strip()}.')


def _remove(space: str) -> None:
  # First its processes, which would keep it alive without a name.
  for pid in netns.ns_pids().get(space, ()):
    with contextlib.suppress(ProcessLookupError):
      os.kill(pid, 9)
  _delete(space)
  with contextlib.suppress(FileNotFoundError):
    netns.remove(space)
  cable.remove(space)
  shutil.rmtree(_HOSTS / space, ignore_errors=True)


def _index(netlink, device: str) -> int:
  return netlink.link_lookup(ifname=device)[0]


def _delete(device: str) -> bool:
  """Removes an interface; whether there was one."""
  with IPRoute() as host:
    found = host.link_lookup(ifname=device)
    for index in found:
      with contextlib.suppress(NetlinkError):  # A TAP goes with its program.
        host.link('del', index=index)
  return bool(found)
