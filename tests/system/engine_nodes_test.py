"""config.engine='ray' on a cluster: a node per namespace, at 100 Mbit/s."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip('ray')

from experiments.testbed import link_shape, network
from tests.support import engine_interface_bytes, program, ray_nodes
from tests.system.testbed_test import pytestmark  # noqa: F401

NODES = 3  # For two workers and a server.


@pytest.fixture(scope='module')
def nodes():
  """A function that runs a Python command in the first node's namespace.

  It replaces {} in the command by the cluster's address.
  """
  env = ray_nodes.environment()

  def run(*words, **changes):
    command = [word.format(address) for word in words]
    return subprocess.run(
      network.in_namespace(0, [sys.executable, *command]),
      env=env | changes,
      cwd=program.ROOT,
      capture_output=True,
      text=True,
    )

  with (
    network.network(NODES, link_shape.parse('100mbit')),
    ray_nodes.cluster(NODES, env) as address,
  ):
    yield run


@pytest.fixture(scope='module')
def sent(nodes):
  """By method, (kind, number, bytes by ledger, by counters) of each process."""
  done = nodes(
    '-m', 'tests.support.engine_interface_bytes', '{}', network.INTERFACE
  )
  assert done.returncode == 0, done.stderr
  return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize('method', engine_interface_bytes.METHODS)
def test_bytes_that_leave_a_namespace_agree_with_the_ledger(sent, method):
  """To 2 %: Ray frames messages, and its nodes send heartbeats."""
  *_, ledger, wire = zip(*sent[method], strict=True)
  assert min(ledger) > 4e6
  np.testing.assert_allclose(wire, ledger, rtol=0.02)


def test_a_run_joins_a_cluster_and_leaves_it_running(nodes, tmp_path):
  words = [
    '--config=configs/default.py:pairwise_gossip',
    '--config.engine=ray',
    '--config.workers=3',
    '--config.steps=20',
    '--address={}',
  ]
  for turn in range(2):  # The first must not stop the cluster.
    done = nodes('run.py', *words, f'--workdir={tmp_path}/{turn}')
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / f'{turn}/pairwise_gossip/records.jsonl').read_text()
    last = json.loads(lines.splitlines()[-1])
    assert last['step'] == 20 and min(last['bytes_sent']) > 0


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'RAY_AUTH_TOKEN': 'f' * 64}, 'wants its token'),
    ({'RAY_AUTH_MODE': 'disabled'}, 'set RAY_AUTH_MODE=token'),
  ],
)
def test_a_wrong_or_missing_token_ends_with_an_error_message(
  nodes, tmp_path, changes, message
):
  words = ['--config=configs/default.py:pairwise_gossip', '--address={}']
  done = nodes(
    'run.py',
    *words,
    '--config.engine=ray',
    f'--workdir={tmp_path}/run',
    RAY_gcs_rpc_server_reconnect_timeout_s='1',
    RAY_NUM_REDIS_GET_RETRIES='2',  # 20 seconds by default.
    **changes,
  )
  assert done.returncode == 2 and message in done.stderr, done.stderr
