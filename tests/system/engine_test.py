"""config.engine='ray': what processes compute, how they die and come back."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from gossipjax.engine import ray_cluster
from gossipjax.errors import UserError
from tests.support import engine_vs_virtual, program
from tests.support.engine_run import (
  LIMIT_S,
  SERVER,
  WORKER,
  Run,
  alive,
  descendants,
  named,
)


def compared(*words):
  """Arrays that differ in the end, by strategy.

  The compiler makes one rounding of a product and a sum where it sees both,
  which depends on what else is in the program; not without such instructions.
  """
  flags = f'{os.environ.get("XLA_FLAGS", "")} --xla_cpu_max_isa=AVX'
  done = subprocess.run(
    [sys.executable, '-m', 'tests.support.engine_vs_virtual', *words],
    text=True,
    cwd=program.ROOT,
    capture_output=True,
    env=os.environ | {'XLA_FLAGS': flags},
  )
  assert done.returncode == 0, done.stderr
  return dict(line.split() for line in done.stdout.splitlines())


def test_every_strategy_ends_where_virtual_time_does_bit_for_bit():
  names = [
    *engine_vs_virtual.STRATEGIES,
    'parameter_server/adam',
    'gossip/adam',
  ]
  assert compared(*names) == dict.fromkeys(names, '0')


def test_so_do_processes_of_ray():
  names = ['parameter_server', 'pairwise_gossip']
  assert compared('--ray', *names) == dict.fromkeys(names, '0')


def test_who_has_used_all_of_a_trace_rests_and_the_others_go_on(tmp_path):
  (tmp_path / 'trace.csv').write_text('0.01, 0.05\n' * 12)
  (tmp_path / 'traced.py').write_text(
    'from gossipjax.config import defaults\n'
    'def get_config():\n'
    "  config = defaults.get_config('pull_gossip')\n"
    "  config.update(workers=2, steps=12, engine='ray')\n"
    '  config.cluster = defaults.cluster(\n'
    f"    compute='trace', trace='{tmp_path}/trace.csv')\n"
    '  return config\n'
  )
  ended = program.run(
    tmp_path,
    f'--config={tmp_path}/traced.py',
    f'--workdir={tmp_path / "run"}',
  )
  assert ended.code == 0, ended.err


def test_a_worker_that_dies_while_it_starts_is_a_sentence(tmp_path):
  run = Run(tmp_path, 'pairwise_gossip')
  os.kill(run.wait(lambda: named(run.process.pid, WORKER))[0], signal.SIGKILL)
  ended = run.process.end(LIMIT_S)
  assert ended.code == 2 and 'Traceback' not in ended.err, ended.err
  assert re.search('Worker . died before its first step', ended.err)


def test_a_process_that_does_not_start_is_a_sentence():
  with ray_cluster.connected():
    import ray

    never = ray.remote(num_cpus=0)(lambda: time.sleep(LIMIT_S)).remote()
    with pytest.raises(UserError, match=r'Server 1 did not start in 0\.1 s'):
      ray_cluster.started({('Server', 1): never}, 0.1)


@pytest.mark.parametrize('strategy', ['pairwise_gossip', 'parameter_server'])
def test_a_worker_that_was_killed_comes_back_while_the_others_go_on(
  tmp_path, strategy
):
  source = 'the server' if strategy == 'parameter_server' else r'worker \d'
  run = Run(tmp_path, strategy)
  run.wait(run.records)
  os.kill(named(run.process.pid, WORKER)[1], signal.SIGKILL)
  run.wait(lambda: 'died; it is started again' in run.said())
  died = run.records()[-1]['bytes_sent']
  back = run.wait(
    lambda: re.search(
      rf'Worker (\d) is back with the state of {source}\.', run.said()
    )
  )
  late = run.records()[-1]['bytes_sent']
  steps = len(run.records()) + 3
  run.wait(lambda: len(run.records()) >= steps)
  it, last = int(back[1]), run.records()[-1]
  assert all(late[i] > died[i] for i in range(3) if i != it)
  assert last['bytes_sent'][it] > late[it] and last['faults'] == 1
  assert f'Worker {it} died' in (run.workdir / 'log.txt').read_text()
  rest = descendants(run.process.pid)
  ended = run.stop()
  assert ended.code == 128 + signal.SIGTERM and 'checkpoint kept' in ended.err
  time.sleep(2)
  assert not [line for pid, line in rest.items() if alive(pid)]
  again = Run(tmp_path, strategy, '--resume')
  again.wait(lambda: len(again.records()) > steps + 2)
  assert again.records()[-1]['faults'] == 1
  assert again.stop().code == 128 + signal.SIGTERM


def test_workers_leave_and_come_back_when_the_config_says_so(tmp_path):
  """One for three seconds, one for good; the third goes on alone meanwhile."""
  run = Run(
    tmp_path, 'pairwise_gossip', '--config.cluster.failures=((1,1,4),(2,2))'
  )
  back = run.wait(
    lambda: re.search(r'([\d.]+) s: Worker 1 is back with the', run.said())
  )
  assert float(back[1]) >= 4
  steps = len(run.records()) + 3
  run.wait(lambda: len(run.records()) >= steps)
  early, last = run.records()[-4]['bytes_sent'], run.records()[-1]
  assert 'Worker 2 died; it does not come back' in run.said()
  assert last['faults'] == 2 and last['bytes_sent'][2] == early[2]
  assert all(last['bytes_sent'][i] > early[i] for i in (0, 1))
  assert not re.search('Worker 2 is back', run.said())
  assert run.stop().code == 128 + signal.SIGTERM


def test_a_server_that_was_killed_goes_on_from_its_checkpoint(tmp_path):
  run = Run(tmp_path, 'parameter_server')
  checkpoints = run.workdir / 'parameter_server/checkpoints'
  run.wait(lambda: [*checkpoints.glob('[0-9]*')])
  (server,) = named(run.process.pid, SERVER)
  os.kill(server, signal.SIGKILL)
  run.wait(
    lambda: (
      'Server 0 is back with the state of the last checkpoint' in run.said()
    )
  )
  steps = len(run.records()) + 8
  run.wait(lambda: len(run.records()) >= steps)
  last = [r for r in run.records() if r['test_accuracy']][-1]
  assert last['test_accuracy'] > 0.5 and last['faults'] == 1
  assert run.stop().code == 128 + signal.SIGTERM


@pytest.mark.parametrize(
  'word, sentence',
  [
    ('--config.engine=rai', "did you mean 'ray'"),
    ('--config.engine=ray', 'needs all workers at once'),
  ],
)
def test_a_mistake_is_a_sentence(tmp_path, word, sentence):
  ended = program.run(
    tmp_path, *program.DIGITS, word, f'--workdir={tmp_path}/run'
  )
  assert ended.code == 2 and sentence in ended.err
  assert ended.err.count('\n') == 1 and not (tmp_path / 'run').exists()
