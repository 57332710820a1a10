"""A Ray cluster with a node in each namespace of the testbed."""

import contextlib
import secrets
import subprocess
import sys
import tempfile
import time

from experiments.testbed import network
from tests.support import program

PORT, LIMIT_S = 6399, 90


def environment():
  """Environment variables for all processes of a cluster, with its token."""
  return program.ENVIRONMENT | {
    'PYTHONPATH': str(program.ROOT),
    'RAY_AUTH_MODE': 'token',
    'RAY_AUTH_TOKEN': secrets.token_hex(32),
    'RAY_USAGE_STATS_ENABLED': '0',
    'RAY_worker_niceness': '0',  # Otherwise other work gets the cores first.
  }


@contextlib.contextmanager
def cluster(nodes, env):
  """Runs a Ray cluster in existing namespaces; yields its address."""
  address = f'{network.address(0)}:{PORT}'
  # A short path: the length of socket paths is limited.
  with tempfile.TemporaryDirectory(prefix='gj-') as folder:
    head = ('--head', f'--port={PORT}', '--include-dashboard=false')
    running = []
    try:
      for i in range(nodes):
        where = (*head, f'--temp-dir={folder}') if i == 0 else ()
        where = where or (f'--address={address}',)
        running.append(_node(i, env, where))
        _await(i + 1, address, env)
      yield address
    finally:
      for node in running:
        node.terminate()
      for node in running:
        node.wait(LIMIT_S)


def _node(i, env, where):
  words = [
    *(sys.executable, '-m', 'ray.scripts.scripts', 'start', '--block'),
    *('--num-cpus=1', '--object-store-memory=100000000'),
    f'--node-ip-address={network.address(i)}',
    *where,
  ]
  return subprocess.Popen(
    network.in_namespace(i, words),
    env=env,
    cwd=program.ROOT,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
  )


def _await(nodes, address, env):
  """Waits until the cluster has that many nodes."""
  count = (
    'import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False); '
    'print(sum(node["Alive"] for node in ray.nodes()))'
  )
  command = network.in_namespace(0, [sys.executable, '-c', count, address])
  until = time.monotonic() + LIMIT_S
  while time.monotonic() < until:
    done = subprocess.run(
      command, env=env, cwd=program.ROOT, capture_output=True, text=True
    )
    if done.stdout.strip() == str(nodes):
      return
  raise AssertionError(done.stderr)
