"""A mistake ends with an error message and exit code 2; nothing is written."""

import gzip
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest

from gossipjax.commands.console import DIVERGED
from gossipjax.data.published import IDX
from gossipjax.errors import USER_ERROR_EXIT
from tests.support import program
from tests.support.program import DIGITS

DEFAULT = '--config=configs/default.py'
TEXT = '--config=configs/text.py:all_reduce'

# Mistake: its arguments, and words that the error message contains.
MISTAKES = {
  'no config': ('', '--config configs/quickstart.py'),
  'a config that is not there': (
    '--config=configs/quickstat.py',
    'quickstat.py quickstart.py',
  ),
  'an unknown flag': (f'{DEFAULT} --workers=4', 'no flag --workers'),
  'a misspelled flag': (f'{DEFAULT} --work_dir=a', "mean '--workdir'"),
  'a word that is no flag': (f'{DEFAULT} resume', "'resume' flag"),
  'a folder without a name': (f'{DEFAULT} --workdir=', '--workdir= is empty'),
  'resuming nothing': (f'{DEFAULT} --resume', '--workdir'),
  'resuming what never began': (
    f'{DEFAULT} --resume',
    'not there nothing to --resume',
  ),
  'a time limit of processes that are not there': (
    f'{DEFAULT} --step_timeout_s=5',
    '--step_timeout_s needs --distributed',
  ),
  'a host of processes that are not there': (
    f'{DEFAULT} --coordinator=localhost:1',
    '--coordinator needs --distributed',
  ),
  'a cluster that no engine uses': (
    f'{DEFAULT} --address=localhost:1',
    '--address config.engine=ray',
  ),
  'an accuracy in percent': (
    f'{DEFAULT} --config.target=90',
    'accuracy from 0 to 1, such as 0.9',
  ),
  'an unknown compressor': (
    f'{DEFAULT}:compressed --config.strategy.compressor.name=topp',
    "strategy.compressor.name=topp 'topk'",
  ),
  'an argument of no compressor': (
    f'{DEFAULT}:compressed --config.strategy.compressor.density=0.1',
    'compressor.density needs compressor.name topk',
  ),
  'an argument of another compressor': (
    f'{DEFAULT}:compressed --config.strategy.compressor.name=sign '
    '--config.strategy.compressor.density=0.1',
    'compressor.density unknown',
  ),
  'an unknown key': (f'{DEFAULT} --config.stepz=3', "'stepz' mean 'steps'"),
  'an unknown key of the optimizer': (
    f'{DEFAULT} --config.optimizer.learning_rat=1',
    "optimizer.learning_rat 'learning_rate'",
  ),
  'an argument of no strategy': (
    f'{DEFAULT}:gossip --config.strategy.density=0.1',
    "config.strategy.name=gossip 'density' period topology",
  ),
  'a name for a part with keys': (
    f'{DEFAULT} --config.strategy=gtopk',
    '--config.strategy.name=gtopk.',
  ),
  'overrides of no config': (
    '--config.steps=3',
    '--config is missing --config.steps=3 changes',
  ),
  'a key of a part that is empty': (
    f'{DEFAULT} --config.cluster.speeds=3',
    'cluster.speeds config.cluster has no keys config file',
  ),
  'a key of a number': (f'{DEFAULT} --config.steps.x=3', 'steps.x'),
  'an unknown key of the strategy': (
    f'{DEFAULT}:gtopk --config.strategy.densty=1',
    "'densty' 'density'",
  ),
  'an unknown group of keys': (
    f'{DEFAULT} --config.optimiser.name=sgd',
    "'optimiser' 'optimizer'",
  ),
  'an unknown variant': (
    '--config=configs/quickstart.py '
    '--config.variants.gtopkk.strategy.density=1',
    "'gtopkk' 'gtopk'",
  ),
  'an unknown log': (
    f'{DEFAULT} --config.log={{"tensorbord":True}}',
    "config.log.tensorbord 'tensorboard'",
  ),
  'data without a folder': (
    f'{DEFAULT} --config.data={{"a":1}}',
    'config.data config.data.dir',
  ),
  'a word for an integer': (
    f'{DEFAULT} --config.steps=many',
    'config.steps many int',
  ),
  'a fraction for an integer': (
    f'{DEFAULT} --config.workers=2.5',
    'config.workers 2.5 int',
  ),
  'a word for a number': (
    f'{DEFAULT} --config.optimizer.learning_rate=fast',
    'learning_rate fast float',
  ),
  'a word for yes or no': (
    f'{DEFAULT} --config.task.augment=maybe',
    'augment maybe bool',
  ),
  'a word in a list of integers': (
    f'{DEFAULT} --config.optimizer.boundaries=5,ten',
    'optimizer.boundaries int',
  ),
  'a density of nothing': (
    f'{DEFAULT}:gtopk --config.strategy.density=0',
    'density above 0',
  ),
  'a negative density': (
    f'{DEFAULT}:topk --config.strategy.density=-0.1',
    'density -0.1',
  ),
  'a density above 1': (
    f'{DEFAULT}:gtopk --config.strategy.density=1.5',
    'density 1.5',
  ),
  'a density that is no number': (
    f'{DEFAULT}:topk --config.strategy.density=nan',
    'density nan',
  ),
  'a k of 0': (
    f'{DEFAULT}:gtopk --config.strategy.density=1e-9',
    'gtopk: config.strategy.density none at least',
  ),
  'a bad density in the last variant': (
    '--config=configs/quickstart.py --config.variants.gtopk.strategy.density=7',
    'density 7',
  ),
  'no workers': (f'{DEFAULT} --config.workers=0', 'workers least 1'),
  'fewer than no workers': (
    f'{DEFAULT} --config.workers=-3',
    'workers least 1',
  ),
  'more workers than devices': (
    f'{DEFAULT} --config.workers=65 --config.executor=shard_map',
    'executor=shard_map workers=65 vmap',
  ),
  'more workers than examples': (
    f'{DEFAULT} --config.workers=2000',
    'workers 1500',
  ),
  'a mesh of more than the devices': (
    f'{DEFAULT} --config.workers=40 --config.devices_per_worker=2',
    'workers=40 devices_per_worker=2 devices=64',
  ),
  'devices that share no batch evenly': (
    f'{DEFAULT} --config.devices_per_worker=3',
    'devices_per_worker=3 divide batch_size=16',
  ),
  'shards of one device': (
    f'{DEFAULT} --config.inner=fsdp',
    'inner=fsdp devices_per_worker',
  ),
  'shards of an optimizer that needs the whole': (
    f'{DEFAULT} --config.devices_per_worker=2 --config.inner=fsdp '
    '--config.optimizer.name=lamb',
    'inner=fsdp lamb whole tensors',
  ),
  'a hypercube of six': (
    f'{DEFAULT}:gossip --config.strategy.topology=hypercube --config.workers=6',
    'hypercube power workers=6',
  ),
  'a period of 0': (
    f'{DEFAULT}:local_sgd --config.strategy.period=0',
    'period least 1',
  ),
  'a negative period': (
    f'{DEFAULT}:elastic --config.strategy.period=-4',
    'period least 1',
  ),
  'a batch larger than a share': (
    f'{DEFAULT} --config.batch_size=188',
    'config.batch_size=188 187 config.workers',
  ),
  'an empty batch': (f'{DEFAULT} --config.batch_size=0', 'batch_size 1'),
  'no steps': (f'{DEFAULT} --config.steps=0', 'steps least 1'),
  'a negative period of checkpoints': (
    f'{DEFAULT} --config.checkpoint_every=-1',
    'checkpoint_every 0',
  ),
  'an unknown strategy': (
    f'{DEFAULT} --config.strategy.name=allreduce',
    'strategy.name=allreduce all_reduce',
  ),
  'an unknown strategy after the colon': (
    f'{DEFAULT}:gtopkk',
    'strategy.name=gtopkk gtopk',
  ),
  'an unknown topology': (
    f'{DEFAULT}:gossip --config.strategy.topology=rng',
    'strategy.topology=rng ring',
  ),
  'an unknown exchange': (
    f'{DEFAULT}:gtopk --config.strategy.exchange=tre',
    'exchange tree',
  ),
  'an unknown model': (f'{DEFAULT} --config.task.model=mpl', 'mpl mlp'),
  'an unknown task': (f'{DEFAULT} --config.task.name=digit', 'digits'),
  'an unknown split': (f'{DEFAULT} --config.split.name=even', 'iid'),
  'an unknown link': (f'{DEFAULT} --config.link=2gbe', 'link=2gbe 1gbe'),
  'an unknown executor': (
    f'{DEFAULT} --config.executor=gpu',
    'executor=gpu shard_map',
  ),
  'an unknown optimizer': (
    f'{DEFAULT} --config.optimizer.name=sdg',
    'optimizer.name=sdg sgd',
  ),
  'an unknown schedule': (
    f'{DEFAULT} --config.optimizer.schedule=cosin',
    'cosin cosine',
  ),
  'a data folder that is not there': (
    '--config=configs/fashion_mnist.py --config.data.dir=/no/where',
    'data.dir /no/where fashion_mnist',
  ),
  'a text that is not there': (
    f'{TEXT} --config.task.file=/no/where.txt',
    '/no/where.txt',
  ),
}


def refused(
  ended: program.Ended,
  words: str,
  workdir: pathlib.Path | None,
  code: int = USER_ERROR_EXIT,
):
  """Checks for one line of stderr with all the words, the code, no workdir."""
  assert ended.code == code, ended.err
  assert ended.err.count('\n') == 1 and ended.err.endswith('\n'), ended.err
  assert not ended.out
  for word in words.split():  # As a whole word: '2' is not found in '0.25'.
    assert re.search(rf'(?<!\w){re.escape(word)}(?!\w)', ended.err), word
  assert workdir is None or not workdir.exists()


@pytest.mark.smoke
@pytest.mark.parametrize('mistake', MISTAKES)
def test_an_error_names_the_mistake_and_nothing_is_written(mistake, tmp_path):
  args, words = MISTAKES[mistake]
  workdir = tmp_path / 'run'
  own = mistake in ('resuming nothing', 'a folder without a name')
  where = () if own else (f'--workdir={workdir}',)
  refused(program.run(tmp_path, *args.split(), *where), words, workdir)


# Line of a config file: words that the error message contains.
BAD_LINES = {
  'raise ValueError("no")': 'config file raises ValueError: no --debug',
  'raise UserError("too\\nfew")': 'too few',
  '{}["a"]': "config file raises KeyError: 'a' --debug",
  'defaults.variants(**{"a.b": "topk"})': "variant name 'a.b' letters, digits",
  'config.optimizer.schedule = {"name": "cosine"}': (
    "TypeError field 'schedule' 'str' --debug"
  ),
  'config.stepz = 1': "config.stepz is unknown did you mean 'steps'",
}


@pytest.mark.parametrize('line', BAD_LINES)
def test_an_error_in_a_config_file_is_reported_with_its_cause(line, tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(
    'from gossipjax.config import defaults\n'
    'from gossipjax.errors import UserError\n'
    'def get_config():\n'
    '  config = defaults.get_config()\n'
    f'  {line}\n'
    '  return config\n'
  )
  args = f'--config={path}', f'--workdir={tmp_path / "run"}'
  refused(program.run(tmp_path, *args), BAD_LINES[line], tmp_path / 'run')


@pytest.mark.parametrize(
  'text, message',
  [
    ('x = 1\n', 'a function get_config() that returns a ConfigDict'),
    ('def get_config():\n  pass\n', 'get_config() returned nothing'),
  ],
)
@pytest.mark.parametrize('flags', [(), ('--config.steps=3',)])
def test_a_config_file_without_a_config_is_refused(
  text, message, flags, tmp_path
):
  (tmp_path / 'mine.py').write_text(text)
  args = f'--config={tmp_path}/mine.py', f'--workdir={tmp_path}/run', *flags
  ended = program.run(tmp_path, *args)
  assert ended.code == USER_ERROR_EXIT and not (tmp_path / 'run').exists()
  assert message in ended.err.splitlines()[-1]
  assert 'WARNING' not in ended.err


def test_a_line_break_in_a_name_does_not_split_the_error_message(tmp_path):
  args = DEFAULT, '--config.task.name=a\nb', f'--workdir={tmp_path / "run"}'
  refused(program.run(tmp_path, *args), 'task.name=a b', tmp_path / 'run')


def test_an_unforked_run_is_refused_and_debug_adds_the_traceback(tmp_path):
  args = DEFAULT, '--config.batch_size=188', f'--workdir={tmp_path / "run"}'
  plain, debug = (program.really(*args), program.really(*args, '--debug=True'))
  refused(plain, 'batch_size 187 188', tmp_path / 'run')
  assert debug.code == 2 and debug.err.startswith('Traceback')
  assert debug.err.endswith(plain.err)


def test_ctrl_c_during_imports_shows_no_traceback(tmp_path):
  with subprocess.Popen(
    [
      sys.executable,
      '-X',
      'importtime',
      'run.py',
      DEFAULT,
      f'--workdir={tmp_path}/run',
    ],
    cwd=program.ROOT,
    text=True,
    stderr=subprocess.PIPE,
  ) as process:
    lines = iter(process.stderr.readline, '')
    next(line for line in lines if line.endswith(' absl.flags\n'))
    process.send_signal(signal.SIGINT)
    output = [line for line in lines if not line.startswith('import time:')]
  assert process.returncode == -signal.SIGINT and not output


def test_a_bad_density_is_refused_before_anything_is_downloaded(tmp_path):
  ended = program.run(
    tmp_path,
    '--config=configs/cifar10.py:topk',
    f'--workdir={tmp_path}/run',
    '--config.strategy.density=2',
    **offline(tmp_path),
  )
  refused(ended, 'density 2', tmp_path / 'run')


def offline(folder: pathlib.Path) -> dict[str, str | None]:
  """Variables for a network without any server, and an empty cache."""
  proxy = 'http://127.0.0.1:9'  # The discard port: refused at once.
  return {
    'GOSSIPJAX_DATA': None,
    'XDG_CACHE_HOME': str(folder / 'cache'),
    'no_proxy': None,
    'NO_PROXY': None,
    **{
      key: proxy
      for key in ('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY')
    },
  }


@pytest.mark.parametrize('config', ['fashion_mnist', 'cifar10', 'text'])
def test_an_unreachable_data_server_ends_with_an_error(config, tmp_path):
  ended = program.run(
    tmp_path,
    f'--config=configs/{config}.py',
    f'--workdir={tmp_path}/run',
    **offline(tmp_path),
  )
  refused(
    ended, 'cannot be downloaded data.dir GOSSIPJAX_DATA', tmp_path / 'run'
  )


def idx(shape: tuple[int, ...]) -> bytes:
  """Returns a file in the IDX format that differs from the published one."""
  noise = np.random.default_rng(0).integers(0, 10, shape, np.uint8)
  return (
    struct.pack(f'>4B{len(shape)}I', 0, 0, 8, len(shape), *shape)
    + noise.tobytes()
  )


DAMAGES = {
  'missing': (lambda path: path.unlink(), 'missing add'),
  'truncated': (
    lambda path: os.truncate(path, path.stat().st_size // 2),
    'truncated move',
  ),
  'corrupt': (
    lambda path: path.write_bytes(
      path.read_bytes()[:99] + bytes(99) + path.read_bytes()[198:]
    ),
    'corrupt move',
  ),
  'another': (lambda path: None, 'published SHA-256 move'),
}


@pytest.mark.parametrize('damage', DAMAGES)
def test_an_error_message_names_a_damaged_data_file(damage, tmp_path):
  for name, shape in zip(IDX, ((64, 28, 28), (64,)) * 2, strict=True):
    (tmp_path / f'{name}.gz').write_bytes(gzip.compress(idx(shape)))
  spoil, words = DAMAGES[damage]
  spoil(tmp_path / f'{IDX[0]}.gz')
  ended = program.run(
    tmp_path,
    '--config=configs/fashion_mnist.py',
    f'--workdir={tmp_path}/run',
    f'--config.data.dir={tmp_path}',
  )
  refused(ended, f'{IDX[0]} {words}', tmp_path / 'run')


def test_a_text_shorter_than_a_sequence_is_refused(tmp_path):
  (tmp_path / 'book.txt').write_text('Call me Ishmael.')
  ended = program.run(
    tmp_path,
    TEXT,
    f'--config.task.file={tmp_path}/book.txt',
    f'--workdir={tmp_path}/run',
  )
  refused(ended, 'sequence', tmp_path / 'run')


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """The workdir of a finished run of DIGITS."""
  folder = tmp_path_factory.mktemp('finished')
  ended = program.run(folder, *DIGITS, f'--workdir={folder}/run')
  assert ended.code == 0, ended.err
  return folder / 'run'


def snapshot(folder: pathlib.Path) -> dict[str, bytes]:
  """The contents of all files below a folder, by path."""
  return {str(p): p.read_bytes() for p in folder.rglob('*') if p.is_file()}


@pytest.mark.parametrize(
  'flags, words',
  [
    (['--config.seed=1'], 'another config config.seed another folder'),
    (['--config.seed=1', '--resume'], 'another config config.seed'),
    ([], 'already --resume'),
  ],
)
def test_a_workdir_with_a_run_is_refused_and_left_unchanged(
  finished, flags, words, tmp_path
):
  before = snapshot(finished)
  ended = program.run(tmp_path, *DIGITS, *flags, f'--workdir={finished}')
  refused(ended, f'{finished} {words}', None)
  assert snapshot(finished) == before


@pytest.mark.parametrize(
  'name, text, words',
  [
    ('thesis.tex', 'years', 'not empty'),
    ('config.json', '{"config": {"wor', 'damaged'),
    ('config.json', '[]', 'damaged'),
  ],
)
def test_a_workdir_with_other_files_is_refused_and_left_unchanged(
  name, text, words, tmp_path
):
  workdir = tmp_path / 'run'
  workdir.mkdir()
  (workdir / name).write_text(text)
  before = snapshot(workdir)
  ended = program.run(tmp_path, *DIGITS, '--resume', f'--workdir={workdir}')
  refused(ended, f'{workdir} {words}', None)
  assert snapshot(workdir) == before


def test_a_workdir_that_is_a_file_or_cannot_be_made_is_refused(tmp_path):
  (tmp_path / 'file').write_text('mine')
  for place in f'{tmp_path}/file', f'{tmp_path}/file/run', '/proc/run':
    ended = program.run(tmp_path, *DIGITS, f'--workdir={place}')
    refused(ended, f'{place} folder', None)
  assert (tmp_path / 'file').read_text() == 'mine'


def test_a_nan_loss_stops_the_run_at_its_step(tmp_path):
  ended = program.run(
    tmp_path,
    *DIGITS,
    '--config.optimizer.learning_rate=1e30',
    '--config.optimizer.warmup_steps=2',
    '--config.checkpoint_every=1',
    '--config.eval_every=0',
    f'--workdir={tmp_path}/run',
  )
  # The learning rate is 0, then 5e29: the third loss is the first NaN.
  refused(ended, 'NaN step 3 learning_rate checkpoint', None, DIVERGED)
  steps = [
    int(p.name) for p in (tmp_path / 'run/all_reduce/checkpoints').iterdir()
  ]
  assert sorted(steps) == [1, 2]
  kept = program.arrays(tmp_path / 'run/all_reduce/checkpoints', step=1)
  assert all(np.isfinite(x).all() for x in kept.values())


def test_a_nan_loss_before_any_checkpoint_mentions_no_checkpoint(tmp_path):
  ended = program.run(
    tmp_path,
    *DIGITS,
    '--config.optimizer.learning_rate=1e30',
    '--config.eval_every=0',
    f'--workdir={tmp_path}/run',
  )
  refused(ended, 'NaN learning_rate', None, DIVERGED)
  assert 'checkpoint' not in ended.err


def test_resuming_a_run_restores_its_damaged_records(finished, tmp_path):
  workdir = tmp_path / 'run'
  shutil.copytree(finished, workdir)
  (workdir / 'all_reduce/summary.json').unlink()
  records = workdir / 'all_reduce/records.jsonl'
  whole = records.read_text()
  records.write_text('{"step": 2, "tra\n' + whole)
  ended = program.run(tmp_path, *DIGITS, '--resume', f'--workdir={workdir}')
  assert ended.code == 0, ended.err
  assert f'{records} was damaged from line 1 on' in ended.err
  assert records.read_text() == whole


def test_resuming_names_a_damaged_checkpoint_and_changes_no_result(
  finished, tmp_path
):
  workdir = tmp_path / 'run'
  args = *DIGITS, '--config.checkpoint_every=2', f'--workdir={workdir}'
  assert program.run(tmp_path, *args).code == 0
  (workdir / 'all_reduce/summary.json').unlink()
  damaged = workdir / 'all_reduce/checkpoints/4'
  (damaged / 'totals.json').unlink()
  ended = program.run(tmp_path, *args, '--resume')
  assert ended.code == 0, ended.err
  assert f'{damaged} is damaged (totals.json is missing)' in ended.err
  new, old = (
    program.arrays(folder / 'all_reduce/checkpoints')
    for folder in (workdir, finished)
  )
  assert all(np.array_equal(new[key], old[key]) for key in old)


def can_mount() -> bool:
  """Whether this process may mount a file system."""
  return (
    os.geteuid() == 0
    and not subprocess.run(
      ['unshare', '-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'],
      capture_output=True,
    ).returncode
  )


@pytest.fixture(params=['ulimit'] + ['disk'] * can_mount())
def little_room(request, tmp_path):
  """A folder in which a run does not fit: (folder, settings of the run, word
  of the error message, function that makes room)."""
  folder = tmp_path / 'small'
  folder.mkdir()
  if request.param == 'ulimit':
    yield folder, {'max_file_bytes': 100_000}, 'ulimit', lambda: None
    return
  mount = lambda options: subprocess.run(
    ['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', folder], check=True
  )
  mount('size=1000k')  # One checkpoint fits, the second does not.
  yield folder, {}, 'full', lambda: mount('remount,size=50m')
  subprocess.run(['umount', folder], check=True)


def test_a_run_ends_on_a_full_disk_and_resumes_once_there_is_room(
  little_room, finished, tmp_path
):
  workdir, limits, word, make_room = little_room
  args = (
    *DIGITS,
    '--config.checkpoint_every=1',
    '--config.eval_every=0',
    f'--workdir={workdir}/run',
  )
  refused(
    program.run(tmp_path, *args, **limits), f'{workdir} {word} --resume', None
  )
  make_room()
  ended = program.run(tmp_path, *args, '--resume')
  assert ended.code == 0, ended.err
  new, old = (
    program.arrays(folder / 'all_reduce/checkpoints')
    for folder in (workdir / 'run', finished)
  )
  assert all(np.array_equal(new[key], old[key]) for key in old)


def test_a_workdir_with_half_written_config_files_can_be_used(tmp_path):
  (tmp_path / 'run').mkdir()
  for half in ('.config.json.half', '.config.json.77.half'):
    (tmp_path / 'run' / half).write_text('{"conf')
  ended = program.run(
    tmp_path, *DIGITS, '--config.steps=1', f'--workdir={tmp_path}/run'
  )
  assert ended.code == 0, ended.err
