"""Measurements on a GPU resume where they were cut off, and are summarised."""

import contextlib
import importlib
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from benchmarks.accelerator import __main__ as command
from benchmarks.accelerator import (
  children,
  compiled,
  eight_gpus,
  laws,
  measures,
  pytest_runs,
  selection,
  slopes,
  summary,
  throughput,
  traces,
  training,
)
from benchmarks.accelerator.measures import Clock, Measure
from benchmarks.accelerator.problems import problem
from experiments import queue
from experiments.framework.result_store import digest
from gossipjax.distributed import gpus
from gossipjax.errors import UserError
from tests.laws import golden_test

pytestmark = pytest.mark.usefixtures('compile_quickly')


def made(folder, wanted, minutes=1.0):
  """The lines of a call that makes the missing measures."""
  return [*measures.make_missing(folder, 'part', wanted, Clock(minutes))]


def test_kept_measures_are_not_made_again(tmp_path):
  count = []

  def make(left):
    count.append(left)
    return {'seconds': 1.5}

  wanted = [Measure({'n': n}, make) for n in (1, 2)]
  assert len(made(tmp_path, wanted)) == 2
  assert made(tmp_path, wanted) == []
  assert len(count) == 2 and 0 < count[0] <= 60


def test_a_rehearsal_does_not_take_the_place_of_measures(tmp_path):
  wanted = [Measure({'n': 1}, lambda left: {})]
  rehearsed = [*measures.rehearsed(wanted)]
  part = SimpleNamespace(rows=lambda lines: [line['key'] for line in lines])
  table = lambda: summary.of_folder(tmp_path, {'part': part})
  assert len(made(tmp_path, rehearsed)) == 1 and made(tmp_path, rehearsed) == []
  assert '## part, rehearsed' in table()
  assert len(made(tmp_path, wanted)) == 1
  assert '## part\n' in table() and 'rehearsed' not in table()


def test_each_kind_of_device_has_its_measures_and_its_table(tmp_path):
  wanted = [Measure({'n': 1}, lambda left: {})]
  for kind in ('H100', 'H200', 'H100'):
    made(tmp_path, [*measures.of_device(wanted, kind)])
  part = SimpleNamespace(rows=lambda lines: [line['key'] for line in lines])
  text = summary.of_folder(tmp_path, {'part': part})
  assert re.findall(r'^## (.*)', text, re.M) == ['part, H100', 'part, H200']
  assert len(re.findall(r'\| H\d00 ', text)) == 2


@pytest.mark.parametrize(
  'error, ends', [('ILLEGAL_ADDRESS', True), ('OUT_OF_MEMORY', False)]
)
def test_a_process_whose_cuda_fails_from_now_on_is_replaced(
  error, ends, tmp_path, monkeypatch
):
  aborted = []
  monkeypatch.setattr(measures.os, 'abort', lambda: aborted.append(True))

  def make(left):
    raise RuntimeError(f'CUDA_ERROR_{error}: in a kernel')

  made(tmp_path, [Measure({'n': 1}, make)])
  assert bool(aborted) is ends
  (failed,) = measures.failures(tmp_path)
  assert error in failed['error']


def test_no_measure_begins_after_the_time_limit(tmp_path):
  wanted = [Measure({'n': n}, lambda left: {}) for n in (1, 2, 3)]
  assert made(tmp_path, wanted, -1.0) == ['part: 3 measures are left']


def test_a_failed_measure_is_reported_and_comes_last_in_the_next_call(
  tmp_path,
):
  order, broken = [], [True]

  def make(n):
    order.append(n)
    if n == 1 and broken:
      raise ValueError('out of memory')
    return {}

  wanted = [Measure({'n': n}, lambda left, n=n: make(n)) for n in (1, 2)]
  first, _ = made(tmp_path, wanted)
  assert 'n=1 FAILED: out of memory' in first
  (failed,) = measures.failures(tmp_path)
  assert failed['key'] == {'n': 1} and 'ValueError' in failed['trace']
  wanted.append(Measure({'n': 3}, lambda left: make(3)))
  broken.clear()
  made(tmp_path, wanted)
  assert order == [1, 2, 3, 1]
  assert measures.failures(tmp_path) == []


def test_a_part_of_a_line_from_a_killed_process_is_cut_off(tmp_path):
  def make(left):
    raise ValueError('out of memory')

  for name in (measures.BEGUN, measures.FAILED):
    (tmp_path / name).write_text('{"part": "pa')
  for _ in range(2):
    (line,) = made(tmp_path, [Measure({'n': 1}, make)])
    assert 'FAILED: out of memory' in line
  assert len(measures.failures(tmp_path)) == 1


def test_a_part_ends_after_three_failures_in_a_row_for_one_reason(tmp_path):
  def make(n):
    raise ValueError('no such option' if n > 1 else f'{n}')

  wanted = [
    Measure({'n': n}, lambda left, n=n: make(n)) for n in (0, 1, 2, 3, 4, 5, 6)
  ]
  *lines, last = made(tmp_path, wanted)
  assert [line.split()[1] for line in lines] == [
    'n=0',
    'n=1',
    'n=2',
    'n=3',
    'n=4',
  ]
  assert last == 'part: 2 measures are left'


def test_a_measure_does_not_begin_with_less_than_its_least_time(tmp_path):
  wanted = [
    Measure({'n': 1}, lambda left: {}, least_s=90.0),
    Measure({'n': 2}, lambda left: {}),
  ]
  first, second = made(tmp_path, wanted)
  assert first == 'part n=1 is left: it takes up to 1.5 minutes'
  assert second.startswith('part n=2: ')
  assert len(made(tmp_path, wanted, minutes=2.0)) == 1
  assert made(tmp_path, wanted, minutes=2.0) == []


def test_the_summary_lists_measures_that_were_cut_off(tmp_path):
  def crash(left):
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    made(tmp_path, [Measure({'n': 1}, crash)])
  assert "## What was cut off\n\n- part {'n': 1}" in summary.of_folder(
    tmp_path, {}
  )
  made(tmp_path, [Measure({'n': 1}, lambda left: {})])
  assert measures.cut_off(tmp_path) == []


@pytest.fixture
def processes(monkeypatch):
  """Replaces processes: records (part, minutes) of each process that starts;
  tests set its exit codes by part."""
  started, codes = [], {}

  def run(commands, timeout):
    ended = []
    for words in commands:
      part, minutes = words[3], float(words[5].removeprefix('--minutes='))
      assert timeout > 60 * minutes
      started.append((part, minutes))
      code = codes.get(part, [0])
      ended.append(code.pop(0) if len(code) > 1 else code[0])
    return ended

  monkeypatch.setattr(command.children, 'run', run)
  monkeypatch.setattr(command.os, 'cpu_count', lambda: 2)
  monkeypatch.setattr(command.signal, 'signal', lambda *_: None)
  monkeypatch.setattr(command, '_keep_programs', lambda out: None)
  return started, codes


def call_all_parts(monkeypatch, minutes=6):
  monkeypatch.setattr(sys, 'argv', ['x', '--out=x', f'--minutes={minutes}'])
  command.main()


def test_every_part_has_a_share_of_the_time(processes, monkeypatch):
  call_all_parts(monkeypatch)
  parts, minutes = zip(*processes[0], strict=True)
  assert parts == command.PARTS
  # Time that a part does not use is left to the later parts.
  assert minutes == pytest.approx([6 / n for n in (6, 5, 4, 3, 2, 1)], rel=0.01)


def test_a_call_of_all_parts_can_begin_the_longest_measure_of_each(
  processes, monkeypatch
):
  call_all_parts(monkeypatch, minutes=9)
  given = dict(processes[0])
  for part in {*command.PARTS} - {'training'}:  # Has no `least_s`.
    wanted = importlib.import_module(f'benchmarks.accelerator.{part}')
    longest = max(m.least_s for m in wanted.measures(False)) / 60
    assert not longest or longest + 0.5 < given[part]  # 30 s to start.


def test_a_part_that_crashed_is_restarted_but_not_one_that_timed_out(
  processes, monkeypatch
):
  started, codes = processes
  codes |= {'selection': [-11, -6, 0], 'compiled': [None], 'traces': [1]}
  call_all_parts(monkeypatch)
  parts = [part for part, _ in started]
  assert [parts.count(part) for part in command.PARTS] == [1, 3, 1, 1, 1, 1]


def test_parts_that_mostly_compile_use_half_of_the_cores(
  processes, monkeypatch
):
  monkeypatch.setattr(command.os, 'cpu_count', lambda: 10)
  call_all_parts(monkeypatch)
  parts = [part for part, _ in processes[0]]
  assert [parts.count(part) for part in command.PARTS] == [5, 1, 5, 1, 1, 1]


def test_parallel_processes_share_the_measures(tmp_path, monkeypatch):
  held, order = set(), []

  @contextlib.contextmanager
  def locked(key, locks):  # The real one lets a process lock twice.
    mine = key['n'] not in held
    held.add(key['n'])
    yield mine
    if mine:
      held.remove(key['n'])

  def make(who, n):
    order.append((who, n))
    if (who, n) == ('first', 0):
      made(tmp_path, wanted('second'))
    if n == 2:
      raise ValueError('out of memory')
    return {}

  wanted = lambda who: [
    Measure({'n': n}, lambda left, n=n: make(who, n)) for n in (0, 1, 2)
  ]
  monkeypatch.setattr(measures, 'locked', locked)
  made(tmp_path, wanted('first'))
  assert order == [('first', 0), ('second', 1), ('second', 2)]


def test_a_measure_that_another_process_has_just_made_is_not_repeated(
  tmp_path, monkeypatch
):
  @contextlib.contextmanager
  def locked(key, locks):  # Once the other process has kept its result.
    measures.ResultStore(tmp_path).add('part', key, {}, 1.0, {})
    yield True

  monkeypatch.setattr(measures, 'locked', locked)
  assert made(tmp_path, [Measure({'n': 1}, lambda left: {})]) == []


@pytest.mark.exhaustive
def test_descendants_of_a_process_are_killed_when_it_ends(tmp_path):
  """Grandchildren, too: of one that timed out, and of one that has exited."""
  pid_file = tmp_path / 'pids'
  start = (
    f'sleep 60 & echo $! >> {pid_file}; sleep 60 & echo $! >> {pid_file}; '
    f'while [ $(wc -l < {pid_file}) -lt 4 ]; do sleep 0.1; done; '
  )
  words = [['sh', '-c', start + 'wait'], ['sh', '-c', start + 'exit 7']]
  assert children.run(words, 5.0) == [None, 7]
  pids = pid_file.read_text().split()
  assert len(pids) == 4
  until = time.monotonic() + 10
  while any(alive(pid) for pid in pids) and time.monotonic() < until:
    time.sleep(0.1)
  assert not any(alive(pid) for pid in pids)


def alive(pid):
  """Whether a process runs; a zombie does not."""
  stat = pathlib.Path(f'/proc/{pid}/stat')
  try:
    return stat.read_text().rsplit(')', 1)[1].split()[0] != 'Z'
  except FileNotFoundError:
    return False


def test_the_reason_of_a_failed_test_is_kept(tmp_path):
  long = '\n'.join(f'line {n}' for n in range(30))
  (tmp_path / 'xml').write_text(
    '<testsuites><testsuite><testcase name="good"/>'
    f'<testcase name="bad"><failure message="short">{long}</failure></testcase>'
    '<testcase name="left"><skipped/></testcase></testsuite></testsuites>'
  )
  found = pytest_runs.of_report(tmp_path / 'xml')
  assert (found['tests'], found['skipped'], found['holds']) == (3, 1, False)
  assert found['failed'].keys() == {'bad'}
  assert found['failed']['bad'].splitlines()[-1] == 'line 29'
  assert len(found['failed']['bad'].splitlines()) == pytest_runs.TAIL_LIMITS[0]
  (row,) = laws.rows([{'key': {'tests': 'file'}, 'result': found}])
  assert row['that fail'] == 'bad' and row['hold'] == 1


@pytest.mark.parametrize(
  'words, message',
  [
    (['lawz', '--out=x'], "'lawz' is no part; did you mean 'laws'?"),
    (['--out=x', '--minutes=0'], '--minutes must be above 0, got 0.'),
  ],
)
def test_a_mistake_on_the_command_line_has_an_error_message(words, message):
  with pytest.raises(UserError) as found:
    command.arguments(words)
  assert str(found.value) == message


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'flags, message',
  [(['--summary'], 'holds no measures'), (['laws'], 'NVIDIA|CUDA|GPU')],
)
def test_without_measures_or_a_gpu_nothing_is_written(tmp_path, flags, message):
  if flags == ['laws'] and gpus.gpu_status().devices:
    pytest.skip('here is a GPU')
  out = tmp_path / 'out'
  ended = subprocess.run(
    [sys.executable, '-m', 'benchmarks.accelerator', f'--out={out}', *flags],
    capture_output=True,
    text=True,
    env=os.environ | {'JAX_PLATFORMS': ''},
  )
  assert ended.returncode == 2, ended.stderr
  assert len(ended.stderr.splitlines()) == 1
  assert re.search(message, ended.stderr)
  assert not out.exists()


def test_no_measure_is_listed_twice():
  for part in (compiled, laws, selection, throughput, traces):
    keys = [digest(m.key) for m in part.measures(False)]
    assert len(keys) == len({*keys}), part


def test_a_workload_whose_gate_makes_no_run_is_left_out(
  tmp_path, monkeypatch, capsys
):
  started, end = [], {'test_accuracy': 0.5, 'test_loss': 2.0}

  def in_a_process(config, probe):
    started.append(config.task.name)
    if config.task.name == 'fashion_mnist':
      raise RuntimeError('the run ended with exit code 1')
    if len(started) > 30:
      raise queue.OutOfTime
    return {'records': [end]}, 1.0, {}

  monkeypatch.setattr(queue.own_process, 'in_a_process', in_a_process)
  [*training.make_missing(tmp_path, False, Clock(1.0))]
  assert started[0] == 'text' and started.count('fashion_mnist') == 1
  # Small data sets come first.
  assert started.index('fashion_mnist') < started.index('cifar10')
  of_text, *_ = training.rows(tmp_path, False)
  assert of_text['by seed'] == '2, 2, 2'
  lines = capsys.readouterr().out.splitlines()
  assert re.fullmatch(
    r'training shakespeare all_reduce 2 \(rate .*, seed 0, validation\)',
    lines[0],
  )


def test_the_first_run_of_a_study_is_in_the_summary(tmp_path, monkeypatch):
  started = []

  def in_a_process(config, probe):
    started.append(config)
    if len(started) > 1:
      raise queue.OutOfTime
    return {'records': [{'test_loss': 2.5}]}, 1.0, {}

  monkeypatch.setattr(queue.own_process, 'in_a_process', in_a_process)
  [*training.make_missing(tmp_path, False, Clock(1.0))]
  row, *_ = training.rows(tmp_path, False)
  assert row['runs'] == 1 and row['by seed'].startswith('so far 2.5 (rate ')


def test_the_fixed_cost_of_a_call_does_not_count(monkeypatch):
  clock = [0.0]
  monkeypatch.setattr(slopes.time, 'perf_counter', lambda: clock[0])

  def call(times):
    clock[0] += 20.0 + 2.0 * times  # A fixed cost, then the runs.

  assert slopes.slope(call, 10) == pytest.approx([2.0] * slopes.TURNS)


def test_repeated_runs_read_their_argument_without_copying_it(
  compile_as_always,
):
  program = slopes.repeated(lambda x: x.sum(), 3)
  text = program.lower(jnp.zeros(117_000)).compile().as_text()
  operations = re.findall(r'= f32\[117000\]\S* ([\w-]+)\(', text)
  assert {*operations} <= {'parameter', 'get-tuple-element'}
  body = re.search(r'while\(.*body=(\S+),', text)[1]
  assert 'reduce' in re.search(rf'^{body} .*?^}}', text, re.M | re.S)[0]


def test_fast_operations_run_more_often(monkeypatch):
  clock = [0.0]
  monkeypatch.setattr(slopes.time, 'perf_counter', lambda: clock[0])

  def enough(each):
    def call(times):
      clock[0] += each * times

    return slopes.enough(call)

  assert [enough(s) for s in (1.0, 1e-3, 2e-4, 1e-9)] == [10, 20, 100, 200]


def test_a_timeout_reports_how_many_tests_passed_and_which_failed(tmp_path):
  shutil.copy(
    pytest_runs.ROOT / 'pyproject.toml', tmp_path
  )  # Options of all tests.
  file, output = tmp_path / 'three_test.py', tmp_path / 'said'
  file.write_text(
    'import pytest\n\n'
    '@pytest.mark.parametrize("name", ["topk.gradients", "qsgd.gradients"])\n'
    'def test_a(name):\n  assert name == "topk.gradients"\n\n'
    'def test_b():\n  pytest.skip("too few devices")\n'
  )
  with output.open('w') as out:
    subprocess.run(pytest_runs.command(file, 1), cwd=tmp_path, stdout=out)
  message = r'1 tests that passed and 1 that failed: test_a\[qsgd.gradients\]$'
  with (
    pytest.raises(RuntimeError, match=message),
    pytest_runs.explain_timeout(output),
  ):
    raise subprocess.TimeoutExpired('pytest', 1.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name, precision, holds',
  [
    ('topk', 'tensorfloat32', False),
    ('adaptive_gossip', 'tensorfloat32', True),
    ('adaptive_gossip', 'float32', False),
  ],
)
def test_other_bytes_hold_where_rounding_may_change_what_is_sent(
  monkeypatch, name, precision, holds
):
  other = json.loads(golden_test.GOLDEN.read_text())[name]
  other['bytes_sent'][0] += 8
  monkeypatch.setattr(golden_test, 'measure', lambda *_: other)
  found = laws._compare(name, precision)
  assert not found['bytes_are_equal'] and found['holds'] == holds


@pytest.mark.exhaustive
def test_test_processes_share_the_memory_of_a_gpu():
  name = 'XLA_PYTHON_CLIENT_PREALLOCATE'
  show = f'import os, tests.conftest; print(os.environ[{name!r}])'
  ended = subprocess.run(
    [sys.executable, '-c', show],
    capture_output=True,
    text=True,
    cwd=pytest_runs.ROOT,
    env=os.environ | {'GOSSIPJAX_TEST_PLATFORM': 'cuda'},
  )
  assert ended.stdout == 'false\n', ended.stderr


def test_a_measure_that_json_cannot_represent_counts_as_failed(tmp_path):
  wanted = [
    Measure({'n': n}, lambda left, x=x: {'x': x})
    for n, x in enumerate((math.nan, 1.0))
  ]
  first, second = made(tmp_path, wanted)
  assert 'FAILED' in first and 'FAILED' not in second


def test_only_the_arguments_of_one_operation_are_drawn_on_the_device(
  monkeypatch,
):
  names, draw = [], selection.drawn
  monkeypatch.setattr(
    selection,
    'drawn',
    lambda name, n, k: (names.append(name), draw(name, n, k))[1],
  )
  for host in ('stages', 'codes'):
    monkeypatch.delattr(selection.exchange, host)
  selection._operation(1000, 8, 'contains', True)
  assert names == ['a', 'b']
  message = draw('a', 1000, 8)
  assert len({*message.indices.tolist()}) == 8
  assert message.indices.tolist() == sorted(message.indices.tolist())


def test_compiling_for_gpus_requires_jax_with_cuda():
  if gpus.gpu_status().wheels:
    devices = eight_gpus.devices(False)
    assert [d.platform for d in devices] == ['gpu'] * eight_gpus.NUM_GPUS
    return
  with pytest.raises(UserError, match='JAX with CUDA, though no GPU'):
    eight_gpus.devices(False)


def test_both_ways_to_compute_convolutions_come_first():
  keys = [m.key for m in throughput.measures(False)]
  assert {key['program'] for key in keys[:4]} == {'groups', 'apart'}
  assert {key['precision'] for key in keys[:4]} == {'default', 'bfloat16'}
  # Also tokens/s, in case time runs out after a third of the measures.
  assert sum(key['task'] == 'transformer' for key in keys[:12]) >= 4


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'program, workers, grouped',
  [('groups', 2, True), ('apart', 2, False), ('apart', 17, False)],
)
def test_only_the_program_called_groups_has_grouped_convolutions(
  program, workers, grouped
):
  given = problem('resnet18', True)
  batch = jax.tree.map(lambda x: jnp.stack([x] * workers), given.batch)
  step, _ = throughput.lowered(given, batch, program, workers, 'default')
  text = step.as_text()
  assert (f'feature_group_count = {workers}' in text) == grouped
  # Two layers have five convolutions, with those of their gradients.
  convolutions = text.count('stablehlo.convolution')
  assert convolutions == (5 if grouped else 5 * workers)


@pytest.mark.exhaustive
def test_the_name_of_a_precision_sets_the_precision_of_products():
  given = problem('transformer', True)
  batch = jax.tree.map(lambda x: x.reshape(2, 4, -1), given.batch)
  for name, expected in (('default', 'DEFAULT'), ('highest', 'HIGHEST')):
    step, _ = throughput.lowered(given, batch, 'worker.update', 2, name)
    assert f'precision = [{expected}, {expected}]' in step.as_text()
