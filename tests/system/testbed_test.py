"""Network namespaces on this machine: bytes counted at a worker's interface.

They require root and iproute2; without these, the tests are skipped.
"""

import csv
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from experiments.testbed import cable, calibrate, link_shape, network
from experiments.testbed.timing import Timing
from gossipjax.errors import UserError
from gossipjax.network import Link
from tests.support import interface_bytes, program
from tests.system.own_task_test import CONFIG, TASKS
from tests.system.processes_test import GOSSIP, in_the_midst


def allowed() -> bool:
  """Whether network namespaces can be made here; in containers often not."""
  if os.geteuid() != 0 or shutil.which('tc') is None:
    return False
  make, remove = (
    ['ip', 'netns', verb, f'probe-{os.getpid()}'] for verb in ('add', 'del')
  )
  return all(
    subprocess.run(command, capture_output=True).returncode == 0
    for command in (make, remove)
  )


pytestmark = pytest.mark.skipif(
  not allowed(), reason='network namespaces take root and iproute2'
)
# Bytes of a ring that implements a sum at a server, over the bytes billed.
RING = 2 * (interface_bytes.WORKERS - 1) / interface_bytes.WORKERS


def in_namespaces(folder, names, **link) -> dict:
  """Results of WORKERS processes, each behind its own link.

  `lost` is the packets dropped at each interface; None for a link without loss.
  """
  with network.network(interface_bytes.WORKERS, link_shape.parse(**link)):
    running = [
      subprocess.Popen(
        network.in_namespace(
          i,
          [
            sys.executable,
            '-m',
            'tests.support.interface_bytes',
            f'{network.address(0)}:7077',
            str(i),
            str(folder),
            network.INTERFACE,
            *names,
          ],
        ),
        cwd=program.ROOT,
        text=True,
        env=program.ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
      )
      for i in range(interface_bytes.WORKERS)
    ]
    outputs = [process.communicate()[0] for process in running]
    lost = (
      [_lost(i) for i in range(interface_bytes.WORKERS)]
      if 'loss' in link
      else None
    )
  assert not any(p.returncode for p in running), '\n'.join(outputs)
  return pickle.loads((folder / 'found').read_bytes()) | {'lost': lost}


def _lost(worker: int) -> int:
  """Packets dropped at this worker's interface."""
  rules = subprocess.run(
    network.in_namespace(worker, ['nft', 'list', 'ruleset']),
    capture_output=True,
    text=True,
    check=True,
  ).stdout
  return int(re.search(r'counter packets (\d+)', rules)[1])


@pytest.fixture(scope='module')
def found(tmp_path_factory):
  return in_namespaces(
    tmp_path_factory.mktemp('wired'), interface_bytes.STRATEGIES
  )


@pytest.mark.parametrize('name', [*interface_bytes.STRATEGIES][:-1])
def test_bytes_that_leave_the_interface_match_the_ledger(found, name):
  """Within 2 %: Gloo adds some 100 bytes to every message."""
  _, ledger, wire = found[name]
  factor = RING if name == 'elastic' else 1
  np.testing.assert_allclose(wire, factor * ledger, rtol=0.02)


def test_a_strategy_that_bills_fewer_bytes_than_it_sends_is_detected(found):
  _, claimed, wire = found['liar']
  assert (claimed == found['all_reduce'][1] // 2).all()
  with pytest.raises(AssertionError):
    np.testing.assert_allclose(wire, claimed, rtol=0.02)


@pytest.mark.skipif(shutil.which('nft') is None, reason='loss takes nftables')
def test_lost_packets_are_sent_again_and_change_no_bit_of_the_result(
  found, tmp_path
):
  lossy = in_namespaces(tmp_path, ['gossip'], loss=0.02)
  np.testing.assert_array_equal(
    lossy['gossip'][0]['dense'], found['gossip'][0]['dense']
  )
  assert min(lossy['lost']) > 0
  np.testing.assert_allclose(*lossy['gossip'][1:], rtol=0.02)


@pytest.fixture
def delayed():
  """A link with 10 ms each way at 100 Mbit/s, by the kernel or by vde2."""
  link = link_shape.parse('100mbit', '10ms')
  try:
    cable.check(link)
  except UserError as error:
    pytest.skip(str(error))
  return link


def test_a_delay_applies_each_way_and_the_rate_limit_still_holds(delayed):
  words = [sys.executable, '-m', 'tests.support.round_trips']
  with network.network(2, delayed):
    server = subprocess.Popen(network.in_namespace(1, words), cwd=program.ROOT)
    client = network.in_namespace(0, [*words, network.address(1)])
    done = subprocess.run(
      client, cwd=program.ROOT, capture_output=True, text=True, check=True
    )
    assert server.wait() == 0
  found = json.loads(done.stdout)
  # The minimum, as other load on this machine only adds to it. vde2 counts in
  # whole milliseconds, so each way may be up to 1 ms shorter.
  assert 0.018 <= min(found['round_trips_s']) < 0.025, found
  assert 20e6 < found['bit_per_s'] < 100e6, found
  assert not network.clean()


def test_bytes_that_leave_a_delayed_interface_match_the_ledger(
  delayed, tmp_path
):
  del delayed
  found = in_namespaces(tmp_path, ['gossip'], rate='100mbit', delay='10ms')
  np.testing.assert_allclose(*found['gossip'][1:], rtol=0.02)


@pytest.mark.parametrize(
  'rate, delay, message',
  [
    ('100mbit', '0.2ms', 'whole milliseconds; give --delay=1ms'),
    ('1gbit', '10ms', 'give at most --rate=200mbit'),
  ],
)
def test_a_delay_or_rate_that_vde2_cannot_provide_is_refused(
  rate, delay, message, monkeypatch
):
  monkeypatch.setattr(cable, 'has_netem', lambda: False)
  monkeypatch.setattr(cable, '_PROGRAMS', ('ip',))
  with (
    pytest.raises(UserError, match=message),
    network.network(2, link_shape.parse(rate, delay)),
  ):
    pass
  monkeypatch.setattr(cable, '_PROGRAMS', ('no-such-switch',))
  with pytest.raises(
    UserError, match=r'`no-such-switch`.*apt-get install vde2'
  ):
    cable.check(link_shape.parse(delay='10ms'))


def test_a_link_failure_ends_all_within_30_seconds_with_a_checkpoint(
  tmp_path,
):
  folder, log = tmp_path / 'run', (tmp_path / 'run.log').open('w')
  testbed = program.module(
    log,
    'experiments.testbed',
    '--workers=3',
    '--rate=1gbit',
    '--',
    *GOSSIP,
    f'--workdir={folder}',
    '--heartbeat_s=5',
  )
  in_the_midst(folder)
  subprocess.run(
    network.in_namespace(1, ['ip', 'link', 'set', network.INTERFACE, 'down']),
    check=True,
  )
  began = time.monotonic()
  assert testbed.wait() != 0
  assert time.monotonic() - began < 30
  last = (tmp_path / 'run.log').read_text().splitlines()[-1]
  assert last.startswith('Process ') and 'all 3 have ended.' in last
  assert not network.clean(), 'Something was left.'
  assert program.arrays(folder / 'gossip' / 'checkpoints')


def test_a_custom_task_is_trained_across_namespaces(tmp_path):
  for name, text in (('my_tasks', TASKS), ('my_config', CONFIG)):
    (tmp_path / f'{name}.py').write_text(text)
  words = '--workers=2 --rate=100mbit -- --config=my_config.py:line --workdir=o'
  done = subprocess.run(
    [sys.executable, '-m', 'experiments.testbed', *words.split()],
    cwd=tmp_path,
    env=program.ENVIRONMENT | {'PYTHONPATH': str(program.ROOT)},
    text=True,
    capture_output=True,
  )
  assert done.returncode == 0, done.stderr
  dense, sparse = json.loads((tmp_path / 'o/summary.json').read_text())['runs']
  assert dense['test_mae'] > 0 and sparse['wire_bytes'] > sparse['bytes_sent']


def test_the_next_testbed_removes_what_a_killed_one_left():
  script = """
from experiments.testbed import link_shape, network
with network.network(3, link_shape.parse()):
  print('made', flush=True)
  input()
"""
  killed = subprocess.Popen(
    [sys.executable, '-c', script],
    cwd=program.ROOT,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  )
  assert killed.stdout.readline() == 'made\n'
  orphan = subprocess.Popen(network.in_namespace(2, ['sleep', '600']))
  for call in (network.clean, _two_workers):
    with pytest.raises(UserError, match='Another testbed runs'):
      call()
  assert {network.name(i) for i in range(3)} <= _namespaces()
  killed.kill()
  killed.communicate()
  assert {network.name(i) for i in range(3)} <= _namespaces()
  assert _two_workers() == {network.name(0), network.name(1)}
  assert orphan.wait() == -signal.SIGKILL
  assert not network.clean()


def _two_workers() -> set[str]:
  """Makes a network of two workers; returns the names of its namespaces."""
  with network.network(2, link_shape.parse()):
    return {name for name in _namespaces() if name.startswith('gossip-')}


def _namespaces() -> set[str]:
  found = subprocess.run(['ip', 'netns'], capture_output=True, check=True)
  return {line.split()[0] for line in found.stdout.decode().splitlines()}


@pytest.mark.parametrize(
  'wrong, message',
  [
    ({'rate': '1gb'}, '--rate=1gb is no rate'),
    ({'delay': '3'}, '--delay=3 is no time'),
    ({'loss': 1.0}, '--loss=1.0 is a share'),
  ],
)
def test_an_invalid_link_shape_is_refused(wrong, message):
  with pytest.raises(UserError, match=message):
    link_shape.parse(**wrong)


def test_an_exception_leaves_no_namespace_behind():
  with (
    pytest.raises(ZeroDivisionError),
    network.network(2, link_shape.parse(rate='1gbit')),
  ):
    1 / 0  # noqa: B018
  assert not network.clean()


def test_the_fit_recovers_the_link_of_synthetic_timings():
  link = Link(latency_s=2e-4, bytes_per_s=1.25e7)
  timings = [
    Timing(
      'made up',
      0,
      0.01 + rounds * link.latency_s + size / link.bytes_per_s,
      0.01,
      0.0,
      size,
      rounds,
      size,
    )
    for rounds, size in ((1, 10**3), (3, 10**5), (6, 10**7))
  ]
  fitted = calibrate.fit(timings)
  np.testing.assert_allclose(fitted.latency_s, link.latency_s, rtol=1e-6)
  np.testing.assert_allclose(fitted.bytes_per_s, link.bytes_per_s, rtol=1e-6)
  assert all(
    abs(row['model / measured'] - 1) < 1e-6
    for row in calibrate.rows(link, timings)
  )


def test_a_folder_that_is_missing_is_refused_before_the_measurement(
  tmp_path, monkeypatch, capsys
):
  monkeypatch.setattr(calibrate, 'measure', None)
  out = tmp_path / 'no' / 'link.json'
  monkeypatch.setattr(sys, 'argv', ['calibrate', f'--out={out}'])
  assert calibrate.main() == 2
  assert f'there is no folder {out.parent}; make it.' in capsys.readouterr().err


def test_gtopk_scaling_is_measured(tmp_path):
  done = subprocess.run(
    [
      sys.executable,
      '-m',
      'experiments.gtopk_scaling',
      '--quick',
      f'--out={tmp_path}',
    ],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    text=True,
    capture_output=True,
  )
  assert done.returncode == 0, done.stderr
  (row,) = csv.DictReader((tmp_path / 'table.csv').open())
  assert float(row["dense seconds over the ring's bound"]) > 0.9
  selection = float(row['gTop-k: seconds in selection'])
  assert 0 < selection < float(row['gTop-k: seconds'])
  assert (tmp_path / 'figure.png').stat().st_size


def test_one_ctrl_c_ends_a_measurement_and_leaves_no_namespace(tmp_path):
  running = program.module(
    subprocess.PIPE,
    'experiments.testbed.calibrate',
    '--workers=2',
    f'--out={tmp_path / "link.json"}',
  )
  try:
    assert any('Gloo' in line for line in running.stdout)  # All connected.
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=20)  # A full measurement takes minutes.
  finally:
    running.kill()
  assert running.returncode and not network.clean()
