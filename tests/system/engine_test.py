"""config.engine='ray': the results of its processes, failures and restarts."""

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


def arrays_that_differ(*words):
  """Returns how many arrays of the final states differ, by strategy.

  The compiler fuses a product and a sum, which then round only once, where it
  sees both; that depends on the rest of the program. AVX has no instructions
  for it.
  """
  flags = f'{os.environ.get("XLA_FLAGS", "")} --xla_cpu_max_isa=AVX'
  done = subprocess.run(
    [sys.executable, '-m', 'tests.support.engine_vs_virtual', *words],
    text=True,
    cwd=program.ROOT,
    capture_output=True,
    env=os.environ | {'XLA_FLAGS': flags} | program.QUICKLY,
  )
  assert done.returncode == 0, done.stderr
  return dict(line.split() for line in done.stdout.splitlines())


def test_every_strategy_ends_bit_for_bit_as_in_virtual_time():
  names = [
    *engine_vs_virtual.STRATEGIES,
    'parameter_server/adam',
    'gossip/adam',
  ]
  assert arrays_that_differ(*names) == dict.fromkeys(names, '0')


def test_processes_of_ray_end_bit_for_bit_as_in_virtual_time():
  names = ['parameter_server', 'pairwise_gossip']
  assert arrays_that_differ('--ray', *names) == dict.fromkeys(names, '0')


def test_a_run_finishes_after_a_worker_has_used_up_its_trace(tmp_path):
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


def test_a_worker_that_dies_at_startup_ends_with_an_error_message(tmp_path):
  run = Run(tmp_path, 'pairwise_gossip', '--config.workers=2')
  os.kill(run.wait(lambda: named(run.process.pid, WORKER))[0], signal.SIGKILL)
  ended = run.process.end(LIMIT_S)
  assert ended.code == 2 and 'Traceback' not in ended.err, ended.err
  assert re.search('Worker . died before its first step', ended.err)


def test_a_process_that_does_not_start_raises_an_error():
  with ray_cluster.connected():
    import ray

    from gossipjax.engine import actors

    never = ray.remote(num_cpus=0)(lambda: time.sleep(LIMIT_S)).remote()
    with pytest.raises(UserError, match=r'Server 1 did not start in 0\.1 s'):
      actors.started({('Server', 1): never}, 0.1)


@pytest.mark.parametrize('strategy', ['pairwise_gossip', 'parameter_server'])
def test_killed_processes_restart_while_the_others_continue(tmp_path, strategy):
  run = Run(tmp_path, strategy)
  run.wait(run.records)
  with_server = strategy == 'parameter_server'
  kill_a_worker(run, 'the server' if with_server else r'worker \d')
  if with_server:
    kill_the_server(run)
  faults = 1 + with_server
  processes = descendants(run.process.pid)
  ended = run.stop()
  assert ended.code == 128 + signal.SIGTERM and 'checkpoint kept' in ended.err
  until = time.monotonic() + 2
  while any(map(alive, processes)) and time.monotonic() < until:
    time.sleep(0.05)
  assert not [line for pid, line in processes.items() if alive(pid)]
  records, again = len(run.records()), Run(tmp_path, strategy, '--resume')
  again.wait(lambda: len(again.records()) > records + 2)
  assert again.records()[-1]['faults'] == faults
  assert again.stop().code == 128 + signal.SIGTERM


def kill_a_worker(run, source):
  """Kills a worker for the run's first fault; waits until it is back."""
  os.kill(named(run.process.pid, WORKER)[1], signal.SIGKILL)
  run.wait(lambda: 'died; it is started again' in run.said())
  at_death = run.records()[-1]['bytes_sent']
  back = run.wait(
    lambda: re.search(
      rf'Worker (\d) is back with the state of {source}\.', run.said()
    )
  )
  at_return = run.records()[-1]['bytes_sent']
  steps = len(run.records()) + 3
  run.wait(lambda: len(run.records()) >= steps)
  killed, last = int(back[1]), run.records()[-1]
  assert all(at_return[i] > at_death[i] for i in range(3) if i != killed)
  assert last['bytes_sent'][killed] > at_return[killed] and last['faults'] == 1
  assert f'Worker {killed} died' in (run.workdir / 'log.txt').read_text()


def kill_the_server(run):
  """Kills the server for the second fault; waits until it is back."""
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
  assert last['test_accuracy'] > 0.5 and last['faults'] == 2


def test_workers_fail_and_return_as_the_config_says(tmp_path):
  """Worker 1 is away from 1 s to 4 s; worker 2 fails at 2 s for good."""
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


@pytest.mark.parametrize(
  'flag, message',
  [
    ('--config.engine=rai', "did you mean 'ray'"),
    ('--config.engine=ray', 'needs all workers at once'),
  ],
)
def test_a_mistake_ends_with_an_error_message(tmp_path, flag, message):
  ended = program.run(
    tmp_path, *program.DIGITS, flag, f'--workdir={tmp_path}/run'
  )
  assert ended.code == 2 and message in ended.err
  assert ended.err.count('\n') == 1 and not (tmp_path / 'run').exists()
