"""A slow network on one machine: a namespace per worker, joined by a bridge.

Every namespace has its own host name, address and shaped link, in both
directions, so that processes in them are as good as hosts. Nothing else on
this machine is touched, and all of it goes again.
"""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gossipjax.errors import UserError

BRIDGE = 'gossip-br'
INTERFACE = 'eth0'  # What a worker's link is called inside its namespace.
_HOSTS = pathlib.Path('/etc/netns')  # Where `ip netns exec` looks.
_BITS = {'': 1, 'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12}


class Shape(NamedTuple):
  """Of every worker's link.

  Attributes:
    rate: in each direction, as `tc` writes it, such as '1gbit'; '' for as fast
      as the machine.
    delay: of each direction, such as '0.2ms'; '' for none.
    loss: share of the packets that get lost on their way in, [0, 1).
  """

  rate: str = ''
  delay: str = ''
  loss: float = 0.0


def shape(rate: str = '', delay: str = '', loss: float = 0.0) -> Shape:
  """A shape, or a refusal of what no link can be."""
  if rate and not re.fullmatch(r'[1-9]\d*(\.\d+)?[kmgt]?bit', rate):
    raise UserError(f'--rate={rate} is no rate; write 100mbit or 1gbit.')
  if delay and not re.fullmatch(r'\d+(\.\d+)?(us|ms|s)', delay):
    raise UserError(f'--delay={delay} is no time; write 0.2ms or 30ms.')
  if not 0 <= loss < 1:
    raise UserError(f'--loss={loss} is a share, at least 0 and below 1.')
  return Shape(rate, delay, loss)


def name(worker: int) -> str:
  """Of a worker's namespace."""
  return f'gossip-w{worker}'


def address(worker: int) -> str:
  """Of a worker's interface."""
  return f'10.77.0.{worker + 1}'


def inside(worker: int, command: Sequence[str]) -> list[str]:
  """A command to be run in a worker's namespace."""
  return ['ip', 'netns', 'exec', name(worker), *command]


@contextlib.contextmanager
def network(workers: int, link: Shape) -> Iterator[None]:
  """Sets up the namespaces and takes them down, come what may.

  Raises:
    UserError: no root, no iproute2, names that exist, a kernel without what the
      shape needs.
  """
  check(workers, link)
  try:
    _run('ip', 'link', 'add', BRIDGE, 'type', 'bridge')
    _run('ip', 'link', 'set', BRIDGE, 'up')
    for worker in range(workers):
      _add(worker, link)
    yield
  finally:
    for worker in range(workers):
      _remove(worker)
    _run('ip', 'link', 'del', BRIDGE, check=False)


def check(workers: int, link: Shape) -> None:
  """Refuses what would fail half-way."""
  if not 2 <= workers <= 200:
    raise UserError(f'--workers={workers}: a network has 2 to 200.')
  if os.geteuid() != 0:
    raise UserError(
      'The testbed makes network namespaces, which takes root; run '
      'it with sudo, or in a container with CAP_SYS_ADMIN and '
      'CAP_NET_ADMIN.'
    )
  for tool, package in (
    ('ip', 'iproute2'),
    ('tc', 'iproute2'),
    ('taskset', 'util-linux'),
    *([('nft', 'nftables')] if link.loss else ()),
  ):
    if shutil.which(tool) is None:
      raise UserError(
        f'The testbed needs `{tool}`; install {package} (apt-get '
        f'install {package}).'
      )
  taken = {*_run('ip', 'netns', 'list').split()} & {
    name(i) for i in range(workers)
  }
  if taken or _exists(BRIDGE):
    raise UserError(
      f'{", ".join(sorted(taken)) or BRIDGE} exists already: '
      'another testbed runs, or one was killed; `python -m '
      'experiments.testbed --clean` removes what it left.'
    )


def clean() -> list[str]:
  """Removes what a killed testbed has left; returns the names."""
  found = re.findall(r'gossip-w(\d+)', _run('ip', 'netns', 'list'))
  for worker in map(int, found):
    _remove(worker)
  left = [name(int(worker)) for worker in found]
  if _exists(BRIDGE):
    _run('ip', 'link', 'del', BRIDGE)
    left.append(BRIDGE)
  return left


def _add(worker: int, link: Shape) -> None:
  """A namespace, a pair of interfaces, and their shaping."""
  space, outside = name(worker), name(worker)
  folder = _HOSTS / space
  folder.mkdir(parents=True)
  # Gloo listens on the address that the host's own name resolves to.
  (folder / 'hosts').write_text(
    f'127.0.0.1 localhost\n{address(worker)} {socket.gethostname()}\n'
  )
  _run('ip', 'netns', 'add', space)
  _run(
    'ip',
    'link',
    'add',
    outside,
    'type',
    'veth',
    'peer',
    'name',
    INTERFACE,
    'netns',
    space,
  )
  _run('ip', 'link', 'set', outside, 'master', BRIDGE, 'up')
  within = lambda *command: _run(*inside(worker, command))
  within('ip', 'link', 'set', 'lo', 'up')
  within('ip', 'addr', 'add', f'{address(worker)}/24', 'dev', INTERFACE)
  within('ip', 'link', 'set', INTERFACE, 'up')
  _shape(lambda *command: within('tc', *command), INTERFACE, link)
  _shape(lambda *command: _run('tc', *command), outside, link)
  if link.loss:
    within(
      'nft',
      f'add table ip loss; add chain ip loss drops {{ type filter '
      'hook input priority 0; }; add rule ip loss drops numgen random mod '
      f'100000 < {round(1e5 * link.loss)} counter drop',
    )


def _shape(tc, device: str, link: Shape) -> None:
  """Rate by a token bucket, delay by netem below it."""
  parent = ['root']
  if link.rate:
    tc(
      'qdisc',
      'add',
      'dev',
      device,
      *parent,
      'handle',
      '1:',
      'tbf',
      'rate',
      link.rate,
      'burst',
      str(_burst_bytes(link.rate)),
      'latency',
      '400ms',
    )
    parent = ['parent', '1:']
  if link.delay:
    try:
      tc(
        'qdisc',
        'add',
        'dev',
        device,
        *parent,
        'netem',
        'delay',
        link.delay,
        'limit',
        '100000',
      )
    except UserError as error:
      raise UserError(
        f'--delay={link.delay}: this kernel has no sch_netem '
        f'({error}); leave --delay out.'
      ) from error


def _burst_bytes(rate: str) -> int:
  """What may pass at once: a millisecond's worth, or ten packets."""
  number, scale = re.fullmatch(r'([\d.]+)(.?)bit', rate).groups()
  return max(15_000, round(float(number) * _BITS[scale] / 8 * 1e-3))


def _remove(worker: int) -> None:
  # Deleting a namespace with processes in it would leave it without a name.
  for pid in _run('ip', 'netns', 'pids', name(worker), check=False).split():
    with contextlib.suppress(ProcessLookupError):
      os.kill(int(pid), 9)
  _run('ip', 'link', 'del', name(worker), check=False)
  _run('ip', 'netns', 'del', name(worker), check=False)
  shutil.rmtree(_HOSTS / name(worker), ignore_errors=True)


def _exists(device: str) -> bool:
  return pathlib.Path('/sys/class/net', device).exists()


def _run(*command: str, check: bool = True) -> str:
  done = subprocess.run(command, capture_output=True, text=True)
  if check and done.returncode:
    raise UserError(
      f'`{" ".join(command)}` failed: {done.stderr.strip().splitlines()[-1:]}.'
    )
  return done.stdout
