"""A run that is stopped or killed resumes with bit-identical results."""

import functools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gossipjax.config import defaults
from gossipjax.errors import USER_ERROR_EXIT
from gossipjax.results import more_steps
from tests.support import program

STEPS = (
  '--config.workers=4',
  '--config.steps=120',
  '--config.log_every=4',
  '--config.eval_every=60',
  '--config.checkpoint_every=6',
  '--config.optimizer.schedule=cosine',
)
RUNS = {
  'gtopk': (
    '--config=configs/default.py:gtopk',  # Has a residual.
    '--config.strategy.density=0.01',
    *STEPS,
  ),
  'elastic': (
    '--config=configs/default.py:elastic',  # Has a center.
    '--config.strategy.period=4',
    *STEPS,
  ),
}
TIMES = ('wall_s', 'train_s', 'examples_per_s')


@pytest.fixture(scope='module')
def uninterrupted(tmp_path_factory):
  """Name of one of RUNS -> folder of that run, made without interruption."""

  @functools.cache
  def made(name: str) -> pathlib.Path:
    folder = tmp_path_factory.mktemp(name)
    ended = program.run(folder, *RUNS[name], f'--workdir={folder / "run"}')
    assert ended.code == 0, ended.err
    return folder / 'run' / name

  return made


def stopped(folder: pathlib.Path, name: str, number: int) -> tuple[int, str]:
  """Starts a run and sends it a signal at a random time of its training.

  Returns:
    Exit code, and the text of stderr.
  """
  seed = time.time_ns()
  print('random.seed =', seed)  # pytest shows it if the test fails.
  chance = random.Random(seed)
  path, least = folder / name / 'records.jsonl', chance.randint(1, 20)
  environment = {k: v for k, v in os.environ.items() if k != 'NPROC'}
  with subprocess.Popen(
    [sys.executable, 'run.py', *RUNS[name], f'--workdir={folder}'],
    cwd=program.ROOT,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
    env=environment,
  ) as process:
    while process.poll() is None and (
      not path.exists() or path.read_text().count('\n') < least
    ):
      time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.1))
    process.send_signal(number)
    _, err = process.communicate()
  return process.returncode, err


def untimed(found):
  """Removes measured times (TIMES), also from nested dicts."""
  if isinstance(found, dict):
    return {k: untimed(v) for k, v in found.items() if k not in TIMES}
  return found


def records(folder: pathlib.Path) -> list[dict]:
  """The records of a run, without measured times."""
  return [
    untimed(json.loads(line))
    for line in (folder / 'records.jsonl').read_text().splitlines()
  ]


def ledger(folder: pathlib.Path) -> dict:
  """The totals in the newest checkpoint, without measured times."""
  newest = max(int(p.name) for p in (folder / 'checkpoints').iterdir())
  totals = folder / f'checkpoints/{newest}/totals.json'
  return untimed(json.loads(totals.read_text()))


def same(one: pathlib.Path, other: pathlib.Path) -> None:
  """Asserts that two runs have equal checkpoints, records and summaries.

  Measured times may differ.
  """
  a, b = (program.arrays(run / 'checkpoints') for run in (one, other))
  assert a.keys() == b.keys() and len(a) > 4
  for place in a:
    np.testing.assert_array_equal(a[place], b[place], err_msg=place)
  assert ledger(one) == ledger(other)
  assert records(one) == records(other)
  assert all(
    untimed(json.loads((run / 'summary.json').read_text()))
    == untimed(json.loads((one / 'summary.json').read_text()))
    for run in (one, other)
  )


def resume(folder: pathlib.Path, name: str) -> program.Ended:
  """Resumes a run."""
  ended = program.run(
    folder.parent / 'again', *RUNS[name], '--resume', f'--workdir={folder}'
  )
  assert ended.code == 0, ended.err
  return ended


@pytest.mark.parametrize(
  'name, memory',
  [
    pytest.param('gtopk', 'residual', marks=pytest.mark.smoke),
    ('elastic', 'center'),
  ],
)
def test_a_killed_run_resumes_bit_for_bit(
  name, memory, uninterrupted, tmp_path
):
  code, err = stopped(tmp_path / 'run', name, signal.SIGKILL)
  assert code == -signal.SIGKILL, err
  assert not (tmp_path / 'run/summary.json').exists()
  resume(tmp_path / 'run', name)
  same(tmp_path / 'run' / name, uninterrupted(name))
  kept = program.arrays(tmp_path / 'run' / name / 'checkpoints')
  assert any(memory in place and x.any() for place, x in kept.items())


@pytest.mark.parametrize(
  'name, number, expected',
  [('gtopk', signal.SIGINT, 130), ('elastic', signal.SIGTERM, 143)],
)
def test_a_stopped_run_saves_a_checkpoint_reports_it_and_resumes(
  name, number, expected, uninterrupted, tmp_path
):
  code, err = stopped(tmp_path / 'run', name, number)
  assert code == expected, err
  *progress, line = err.splitlines()
  assert all('held-out accuracy' in x for x in progress), err
  step = ledger(tmp_path / 'run' / name)['step']
  assert f'after step {step},' in line and '--resume' in line

  with (tmp_path / 'run' / name / 'records.jsonl').open('a') as lines:
    lines.write('{"step": 120, "train_lo')  # A line cut off by a full disk.
  resume(tmp_path / 'run', name)
  same(tmp_path / 'run' / name, uninterrupted(name))


def test_resuming_a_finished_run_changes_no_result(uninterrupted):
  folder = uninterrupted('gtopk').parent
  state = lambda: {
    str(p): (p.read_bytes(), p.stat().st_mtime_ns)
    for p in folder.rglob('*')
    if p.is_file() and p.parent != folder
  }
  results = lambda: (
    (folder / 'summary.json').read_bytes(),
    sorted(p.name for p in folder.iterdir()),
  )
  before = state(), results()
  resume(folder, 'gtopk')
  assert (state(), results()) == before


LONGER = (
  '--config=configs/default.py:gtopk',
  '--config.strategy.density=0.01',
  '--config.workers=4',
  '--config.log_every=4',
  '--config.eval_every=12',
)


def test_a_finished_run_can_be_extended_to_more_steps(tmp_path):
  def run(folder, steps, *more, code=0):
    ended = program.run(
      tmp_path,
      *LONGER,
      f'--config.steps={steps}',
      *more,
      f'--workdir={tmp_path / folder}',
    )
    assert ended.code == code, ended.err
    return ended.err

  run('whole', 36)
  run('run', 12)
  run('run', 36, '--resume')
  same(tmp_path / 'run/gtopk', tmp_path / 'whole/gtopk')
  config = json.loads((tmp_path / 'run/config.json').read_text())['config']
  assert config['steps'] == 36
  command = json.loads((tmp_path / 'run/config.json').read_text())['command']
  assert '--config.steps=36' in command
  stderr = run('run', 24, '--resume', code=USER_ERROR_EXIT)
  assert 'differ in config.steps' in stderr
  stderr = run('run', 48, '--resume', '--config.seed=1', code=USER_ERROR_EXIT)
  assert 'config.seed, config.steps' in stderr
  stderr = run('run', 48, code=USER_ERROR_EXIT)
  assert 'differ in config.steps' in stderr


def test_a_variant_that_sets_its_own_steps_does_not_block_more_steps():
  config = defaults.get_config('topk')
  own = {'steps': 10, 'optimizer': {'schedule': 'cosine'}}
  config.variants = {'a': {}, 'b': own}
  config.steps, config.eval_every = 4, 2
  found = json.loads(config.to_json())
  config.steps = 8
  assert more_steps.obstacle(config, found) == ''
  config.variants.b = {'optimizer': {'schedule': 'cosine'}}
  found = {**json.loads(config.to_json()), 'steps': 4}
  assert 'schedule=cosine of b' in more_steps.obstacle(config, found)


@pytest.mark.parametrize(
  'more, message',
  [
    (
      '--config.optimizer.schedule=cosine --config.eval_every=6',
      'schedule=cosine depends',
    ),
    ('--config.log_every=6', 'not at a multiple of eval_every=12'),
  ],
)
def test_more_steps_are_refused_if_earlier_results_would_differ(
  more, message, tmp_path
):
  args = lambda steps: (
    *LONGER,
    f'--config.steps={steps}',
    *more.split(),
    f'--workdir={tmp_path / "run"}',
  )
  assert program.run(tmp_path, *args(6)).code == 0
  state = lambda: {
    p: p.read_bytes() for p in (tmp_path / 'run').rglob('*') if p.is_file()
  }
  before = state()
  ended = program.run(tmp_path, *args(36), '--resume')
  assert ended.code == USER_ERROR_EXIT and message in ended.err, ended.err
  assert ended.err.count('\n') == 1
  assert before == state()


def test_resuming_after_the_last_step_only_writes_the_summary(
  uninterrupted,
):
  folder = uninterrupted('elastic').parent
  summary = folder / 'elastic/summary.json'
  before, lines = summary.read_bytes(), records(folder / 'elastic')
  summary.unlink()
  (folder / 'summary.json').unlink()
  resume(folder, 'elastic')
  assert summary.read_bytes() == before
  assert records(folder / 'elastic') == lines
  assert (folder / 'summary.json').exists()


def test_only_one_of_two_processes_can_resume_a_run(uninterrupted, tmp_path):
  stopped(tmp_path / 'run', 'gtopk', signal.SIGKILL)
  args = *RUNS['gtopk'], '--resume', f'--workdir={tmp_path / "run"}'
  both = [program.start(tmp_path / name, *args) for name in 'ab']
  pids = [running.pid for running in both]
  ended = [running.end() for running in both]
  assert sorted(one.code for one in ended) == [0, USER_ERROR_EXIT], ended
  [refused] = [i for i, one in enumerate(ended) if one.code]
  assert f'being written by process {pids[1 - refused]} on host' in (
    ended[refused].err
  )
  same(tmp_path / 'run/gtopk', uninterrupted('gtopk'))
