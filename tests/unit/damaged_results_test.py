"""The error for a damaged file of a workdir names it; no reader ignores it."""

import json
import shutil

import pytest

from gossipjax.comparison import answer, compare
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.results import analysis, reader, workdir
from gossipjax.training.loop import Interrupted
from tests.support import workdirs
from tests.support.workdirs import record

STEPS = (2, 4, 5, 6, 8, 10, 11)  # Those that the config below records.


@pytest.fixture
def folder(tmp_path):
  config = workdirs.config() | {'steps': 11, 'log_every': 2, 'eval_every': 5}
  folder = workdirs.claim(tmp_path / 'a', config)
  workdirs.run(folder, 'all_reduce', map(record, STEPS), finished=False)
  workdir.write_summary(folder / 'all_reduce', {'steps': 11})
  workdir.write_summary(folder, {'runs': []})
  return folder


def records_file(folder):
  return folder / 'all_reduce/records.jsonl'


def test_an_undamaged_folder_is_read(folder):
  assert analysis.load(folder)['step'].tolist() == list(STEPS)


DAMAGES = {
  'a missing line': (lambda x: x[:2] + x[3:], 'line 3 .*missing'),
  'a missing first line': (lambda x: x[1:], 'line 1 .*missing'),
  'missing last lines': (lambda x: x[:-2], 'ends at line 5.*missing'),
  'swapped lines': (lambda x: [x[1], x[0], *x[2:]], 'line 2 .*swapped'),
  'a doubled line': (lambda x: [*x[:3], *x[2:]], 'line 4 .*doubled'),
  'another step': (
    lambda x: [*x[:2], x[2].replace(b'"step": 5', b'"step": 7'), *x[3:]],
    'line 4 .*swapped',
  ),
  'a broken step': (
    lambda x: [x[0].replace(b'"step": 2', b'"step": 2.5'), *x[1:]],
    'line 1 is not a record.*step',
  ),
  'a negative step': (
    lambda x: [x[0].replace(b'"step": 2', b'"step": -2'), *x[1:]],
    'line 1 is not a record.*step',
  ),
  'a count that no counter holds': (
    lambda x: [x[0].replace(b'"step": 2', b'"step": 2' + b'0' * 30), *x[1:]],
    'line 1 is not a record.*step',
  ),
  'binary bytes': (lambda x: [x[0], b'\x00\xff\xfe\n', *x[1:]], 'line 2 is no'),
  'a deep list': (lambda x: [b'[' * 10**5 + b'\n'], 'line 1 is not a record'),
  'another digit': (
    lambda x: [x[0].replace(b'0.5', b'0.6'), *x[1:]],
    'records.jsonl is not as it was written',
  ),
}


@pytest.mark.parametrize('what', DAMAGES)
def test_damaged_records_are_named_with_their_line(what, folder):
  damage, words = DAMAGES[what]
  found = records_file(folder).read_bytes().splitlines(True)
  records_file(folder).write_bytes(b''.join(damage(found)))
  with pytest.raises(UserError, match=words) as error:
    analysis.load(folder)
  assert str(folder / 'all_reduce') in str(error.value)


@pytest.mark.parametrize('sealed', [True, False])
@pytest.mark.parametrize('contents', [None, b'', b'{"st'])
def test_missing_or_empty_records_are_named(contents, sealed, tmp_path):
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(one={}, two={}))
  for name in ('one', 'two'):
    workdirs.run(folder, name, [record(1), record(2)], finished=False)
    workdir.write_summary(folder / name, {'steps': 2})
    if not sealed:
      (folder / name / 'manifest.json').unlink()
  path = folder / 'two/records.jsonl'
  path.unlink() if contents is None else path.write_bytes(contents)
  with pytest.raises(UserError, match=r'records\.jsonl') as error:
    analysis.load(folder)
  assert str(folder / 'two') in str(error.value)
  workdir.write_summary(folder / 'two', {'steps': 1, 'diverged': 'NaN'})
  # A run may diverge before its first record.
  found = analysis.load(folder)
  assert found['run'].tolist() == ['one', 'one', 'two']
  assert found['diverged'].tolist() == [False, False, True]


@pytest.mark.parametrize(
  'contents', [b'', b'{', b'[]', b'\xff', b'{"name": 9}']
)
@pytest.mark.parametrize('name', ['summary.json', 'all_reduce/summary.json'])
def test_a_damaged_summary_is_named(folder, name, contents):
  (folder / name).write_bytes(contents)
  with pytest.raises(
    UserError, match=r'summary.json.*(damaged|not as).*--resume'
  ) as error:
    analysis.load(folder)
  assert str((folder / name).parent) in str(error.value)


def test_a_changed_config_is_named(folder):
  path = folder / 'config.json'
  path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
  for read in (analysis.load, reader.summary):
    with pytest.raises(UserError, match=r'config.json is not as it'):
      read(folder)


def test_without_a_manifest_files_are_read_unverified(folder):
  for place in (folder, folder / 'all_reduce'):
    (place / 'manifest.json').unlink()
  summary = json.loads((folder / 'all_reduce/summary.json').read_text())
  (folder / 'all_reduce/summary.json').write_text(
    json.dumps(summary | {'a': 1})
  )
  assert len(analysis.load(folder)) == len(STEPS)


@pytest.mark.exhaustive
@pytest.mark.usefixtures('compile_quickly')
def test_a_damaged_finished_run_is_restored_on_resume(tmp_path, capsys):
  config = defaults.get_config()
  config.update(workers=2, steps=4, log_every=1, eval_every=2, executor='vmap')
  folder = tmp_path / 'a'
  compare.compare(config, folder)
  one = folder / 'all_reduce'
  records, summary = (one / n for n in ('records.jsonl', 'summary.json'))
  before = records.read_bytes(), json.loads(summary.read_text())
  model = (one / 'model.msgpack').read_bytes()
  for path, damaged in (
    (records, before[0][:90]),
    (summary, b'{'),
    (one / 'model.msgpack', model[:-1]),
  ):
    path.write_bytes(damaged)
    with pytest.raises(UserError, match=r'resume restores|is damaged'):
      analysis.load(folder)
    compare.compare(config, folder, resume=True)
    assert 'restored from the checkpoint' in capsys.readouterr().err
    assert (records.read_bytes(), json.loads(summary.read_text())) == before
    assert (one / 'model.msgpack').read_bytes() == model
  records.write_bytes(b'')
  shutil.rmtree(one / 'checkpoints')
  with pytest.raises(UserError, match='no checkpoint to restore it from'):
    compare.compare(config, folder, resume=True)
  assert not records.read_bytes()  # The refused run has not started again.


@pytest.mark.exhaustive
@pytest.mark.usefixtures('compile_quickly')
def test_a_finished_run_without_checkpoints_takes_no_more_steps(tmp_path):
  config = defaults.get_config()
  config.update(workers=2, steps=2, log_every=1, eval_every=1, executor='vmap')
  folder = tmp_path / 'a'
  compare.compare(config, folder)
  shutil.rmtree(folder / 'all_reduce/checkpoints')
  contents = lambda: {
    path: path.read_bytes() for path in folder.rglob('*') if path.is_file()
  }
  before = contents()
  config.steps = 4
  with pytest.raises(UserError, match='ended after 2 steps, and no check'):
    compare.compare(config, folder, resume=True)
  assert contents() == before


def test_a_run_that_is_killed_before_its_summary_is_not_finished(
  folder, monkeypatch
):
  def killed(path, text):
    raise KeyboardInterrupt

  one = folder / 'all_reduce'
  with monkeypatch.context() as patch:
    patch.setattr(workdir, 'write', killed)
    with pytest.raises(KeyboardInterrupt):
      workdir.write_summary(one, {'steps': 11})
  assert workdir.summary(one) is None
  workdir.write_summary(one, {'steps': 11})
  (one / 'summary.json').write_text('{"steps": 12}')
  with pytest.raises(UserError, match=r'summary\.json is not as it was'):
    workdir.summary(one)


@pytest.mark.exhaustive
@pytest.mark.usefixtures('compile_quickly')
def test_a_run_that_resumes_where_it_stalls_doubles_no_record(tmp_path):
  config = defaults.get_config()
  config.update(workers=2, steps=6, log_every=1, eval_every=1, executor='vmap')
  config.checkpoint_every = 1
  config.cluster = defaults.cluster(
    step_s=0.1, failures=((1, 0.35),), timeout_s=1.0, asynchronous=False
  )
  stop = iter((False, False, True))
  compare.compare(config, tmp_path / 'whole')
  with pytest.raises(Interrupted):
    compare.compare(config, tmp_path / 'two', interrupted=lambda: next(stop))
  compare.compare(config, tmp_path / 'two', resume=True)
  for name in ('whole', 'two'):
    assert analysis.load(tmp_path / name)['step'].tolist() == [1, 2, 3, 3]


@pytest.mark.parametrize('variants', [{}, {'one': {}, 'all_reduce': {}}])
def test_a_deleted_variant_is_named_and_does_not_count_as_diverged(
  tmp_path, variants
):
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(**variants))
  for name in variants or ('all_reduce',):
    workdirs.run(folder, name, [record(4)], steps=4)
  summary = reader.summary(folder)
  workdir.write_summary(folder, summary)
  gone = folder / 'all_reduce'
  shutil.rmtree(gone)
  for read in (analysis.load, reader.summary):
    with pytest.raises(UserError, match=f'{gone} holds no.*--resume runs it'):
      read(folder)
  if variants:  # Also if the folder is deleted after the summary was read.
    runs = [*reader._runs(folder, reader._claim(folder), False)]
    assert [row.name for row in answer.of(summary, runs).rows] == ['one']
    workdir.begin(gone)
    assert [run['name'] for run in reader.summary(folder)['runs']] == ['one']


@pytest.mark.exhaustive
@pytest.mark.usefixtures('compile_quickly')
def test_a_run_interrupted_while_it_is_extended_is_not_damaged(tmp_path):
  config = defaults.get_config()
  config.update(workers=2, log_every=1, eval_every=2, executor='vmap')
  config.variants = defaults.variants(dense='all_reduce', few='topk')
  folder = tmp_path / 'a'
  states = iter((False, True))  # Interrupts after the second added step.
  read = []

  def watch(*_):
    read.append(reader.read(folder))  # As another process may at any time.

  config.steps = 2
  compare.compare(config, folder)
  config.steps = 4
  with pytest.raises(Interrupted):
    compare.compare(
      config, folder, True, watch=watch, interrupted=lambda: next(states)
    )
  assert len(read) == 2
  frame = analysis.load(folder)
  steps = frame.groupby('run', observed=True)['step'].max()
  assert steps.to_dict() == {'dense': 4, 'few': 2}
  with pytest.raises(UserError, match=r'No run in .* is finished'):
    reader.summary(folder)  # Neither is finished: dense has no summary.
  summary = compare.compare(config, folder, resume=True)
  assert [run['steps'] for run in summary['runs']] == [4, 4]
  assert analysis.load(folder)['step'].tolist() == [1, 2, 3, 4] * 2
