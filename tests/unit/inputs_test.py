"""A resumed run needs unchanged files, and warns of changed versions."""

import functools
import json
import pathlib
import re
import subprocess

import jax
import pytest

from gossipjax.comparison import compare
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.results import inputs, machine, provenance, reservation, workdir

FILES = 'link.json', 'group.json', 'inner.json', 'trace.txt', 'book.txt'


@pytest.fixture
def config(tmp_path):
  for name in FILES:
    (tmp_path / name).write_text('1')
  config = defaults.get_config()
  config.link = str(tmp_path / 'link.json')
  config.group_link = str(tmp_path / 'group.json')
  config.inner_link = str(tmp_path / 'inner.json')
  config.cluster = defaults.cluster(trace=str(tmp_path / 'trace.txt'))
  config.task = defaults.task('text', file='book.txt')
  config.data.dir = str(tmp_path)
  return config


@pytest.mark.parametrize('name', FILES)
def test_a_changed_or_missing_input_is_refused_with_its_name(
  config, tmp_path, name
):
  with reservation.reserved(tmp_path / 'run', config, resume=False) as warnings:
    assert warnings == []
  (tmp_path / name).write_text('2')
  for _ in 'changed', 'missing':
    with (
      pytest.raises(UserError, match=f'{name}: not the file with which'),
      reservation.reserved(tmp_path / 'run', config, resume=True),
    ):
      pass
    (tmp_path / name).unlink(missing_ok=True)


def test_changed_versions_are_reported_with_both_values(config, tmp_path):
  with reservation.reserved(tmp_path / 'run', config, resume=False):
    pass
  path = tmp_path / 'run/config.json'
  found = json.loads(path.read_text())
  found['versions']['jax'] = '0.0.1'
  found['commit'] = 'abc'
  found['processor'] = 'model name Z80'
  path.write_text(json.dumps(found))
  with reservation.reserved(tmp_path / 'run', config, resume=True) as warnings:
    [warning] = warnings
  now = workdir.provenance()
  assert f'jax 0.0.1 (now {now["versions"]["jax"]})' in warning
  assert f'commit abc (now {now["commit"]})' in warning
  assert f'processor model name Z80 (now {now["processor"]})' in warning
  assert 'cores' not in warning
  assert 'numpy' not in warning


@pytest.mark.exhaustive
@pytest.mark.usefixtures('compile_quickly')
def test_warnings_about_a_resumed_run_are_also_in_its_log(tmp_path):
  config = defaults.get_config()
  config.update(workers=2, steps=1, log_every=1, executor='vmap')
  compare.compare(config, tmp_path / 'run')
  path = tmp_path / 'run/config.json'
  path.write_text(json.dumps(json.loads(path.read_text()) | {'commit': 'abc'}))
  compare.compare(config, tmp_path / 'run', resume=True)
  assert 'began with commit abc (now' in (tmp_path / 'run/log.txt').read_text()


@pytest.mark.parametrize('older', [False, True])
def test_a_workdir_of_one_command_is_refused_by_the_others(
  older, config, tmp_path
):
  contents = {
    'run': 'dense',
    'tune': 'dense/rate=1,seed=0',
    'advise': 'pilots/dense/4,rate=1,seed=0',
  }
  for kind, inside in contents.items():
    folder = tmp_path / kind
    with reservation.reserved(folder, config, resume=False, kind=kind):
      (folder / inside).mkdir(parents=True)
    path = folder / 'config.json'
    if older:  # Older versions did not write the command.
      written = json.loads(path.read_text())
      del written['kind']
      path.write_text(json.dumps(written))
    (folder / 'summary.json').write_text('{}')
    before = path.read_text()
    for other in contents:
      claim = reservation.reserved(folder, config, resume=True, kind=other)
      if other == kind:
        with claim:
          continue
      words = f'`{kind}`, not of `{other}`; name another'
      with pytest.raises(UserError, match=words), claim:
        pass
      assert path.read_text() == before
      assert (folder / 'summary.json').exists()


def test_a_run_of_an_older_version_may_lack_keys_with_defaults(
  config, tmp_path
):
  folder, path = tmp_path / 'run', tmp_path / 'run/config.json'
  config.variants = {'one': {'seed': 3}}
  with reservation.reserved(folder, config, resume=False):
    pass
  whole = json.loads(path.read_text())

  def without(*keys):
    found = json.loads(json.dumps(whole))
    *inside, last = keys
    functools.reduce(dict.get, inside, found['config']).pop(last)
    path.write_text(json.dumps(found))
    return reservation.reserved(folder, config, resume=True)

  for keys in (('target_score',), ('cluster', 'asynchronous')):
    with without(*keys):
      assert json.loads(path.read_text()) == whole
  for keys, words in (
    (('group_link',), 'group_link'),  # Not the default here.
    (('cluster', 'trace'), 'cluster.trace'),
    (('task', 'file'), 'task.file'),
    (('variants', 'one', 'seed'), 'variants.one.seed'),
  ):
    with pytest.raises(UserError, match=words), without(*keys):
      pass


@pytest.fixture
def first_look(monkeypatch):
  """The commit is not known yet in this process."""
  monkeypatch.setattr(provenance, 'commit', provenance.commit.__wrapped__)


@pytest.mark.parametrize(
  'given, expected', [('abc', 'abc'), ('', 'unknown'), (None, 'unknown')]
)
@pytest.mark.usefixtures('first_look')
def test_without_git_the_commit_comes_from_a_variable(
  monkeypatch, given, expected
):
  monkeypatch.setenv('PATH', '')  # No git.
  monkeypatch.delenv('GOSSIPJAX_COMMIT', raising=False)
  if given is not None:
    monkeypatch.setenv('GOSSIPJAX_COMMIT', given)
  assert workdir.provenance()['commit'] == expected


def test_a_run_resumes_only_with_the_same_number_of_processes(monkeypatch):
  began = {'processes': 4, 'files': {}, 'versions': {}, 'commit': 'x'}
  monkeypatch.setattr(workdir, 'claimed', lambda folder: began)
  with pytest.raises(UserError, match='begun by 4 processes'):
    reservation._check_inputs(pathlib.Path('out'), began | {'processes': 1})


@pytest.mark.parametrize(
  'cluster, was, now, words',
  [
    ({}, (2, 'NVIDIA A'), (1, 'NVIDIA A'), 'begun on 2 NVIDIA A.*not 1 NVIDIA'),
    ({}, (1, 'NVIDIA A'), (1, 'cpu'), 'begun on 1 NVIDIA A.*not 1 cpu'),
    ({}, (2, 'cpu'), (1, 'cpu'), ''),  # Emulated by one CPU.
    ({'step_s': 1}, (1, 'NVIDIA A'), (1, 'cpu'), ''),  # In virtual time.
  ],
)
@pytest.mark.parametrize('engine', ['', 'ray'])
def test_a_run_in_real_time_resumes_only_on_the_same_devices(
  cluster, engine, was, now, words
):
  if cluster and engine:
    words = 'begun on 1 NVIDIA A.*not 1 cpu'
  began, here = (
    {'processes': 1, 'devices': ['x'] * n, 'device_kind': kind}
    for n, kind in (was, now)
  )
  run = {'cluster': cluster, 'engine': engine}
  began['config'] = {'variants': {'one': run}}
  assert re.search(words, machine.obstacle(began, here))
  assert words or not machine.obstacle(began, here)
  assert f'devices {was[0]} {was[1]} (now' in inputs.other_versions(began, here)


@pytest.mark.parametrize(
  'name, value, refused',
  [
    ('jax_enable_x64', True, True),
    ('jax_threefry_partitionable', False, True),
    ('jax_default_prng_impl', 'rbg', True),
    ('jax_default_matmul_precision', 'highest', False),
  ],
)
def test_a_setting_of_jax_that_changes_numbers_is_refused_or_reported(
  config, name, value, refused, tmp_path
):
  with reservation.reserved(tmp_path / 'run', config, resume=False):
    pass
  before = getattr(jax.config, name)
  jax.config.update(name, value)
  try:
    again = reservation.reserved(tmp_path / 'run', config, resume=True)
    if refused:
      words = f'{name}={before}, and {name}={value}.*{name.upper()}={before}'
      with pytest.raises(UserError, match=words), again:
        pass
    else:
      with again as warnings:
        assert f'{name} {before} (now {value})' in warnings[0]
  finally:
    jax.config.update(name, before)
  path = tmp_path / 'run/config.json'
  older = json.loads(path.read_text())
  del older['settings']
  path.write_text(json.dumps(older))
  with reservation.reserved(tmp_path / 'run', config, resume=True) as warnings:
    assert warnings == []


@pytest.mark.usefixtures('first_look')
def test_the_commit_of_a_surrounding_repository_is_not_used(
  tmp_path, monkeypatch
):
  subprocess.run(['git', 'init', '-q', tmp_path], check=True)
  copy = tmp_path / 'provenance.py'
  copy.write_text(pathlib.Path(provenance.__file__).read_text())
  monkeypatch.setattr(provenance, '__file__', str(copy))
  monkeypatch.setenv('GOSSIPJAX_COMMIT', 'mine')
  assert provenance.of_this_process()['commit'] == 'mine'


def test_a_link_is_not_looked_up_in_the_data_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'data').mkdir()
  for folder in (tmp_path, tmp_path / 'data'):
    (folder / 'a.json').write_text('1')
  named = {'link': 'a.json', 'data': {'dir': 'data'}}
  before = inputs.digests(named)
  (tmp_path / 'data/a.json').write_text('2')
  assert inputs.digests(named) == before
  (tmp_path / 'a.json').write_text('2')
  assert inputs.changed(before, inputs.digests(named)) == ['a.json']


def test_every_text_in_a_folder_has_a_digest(tmp_path):
  (tmp_path / 'books').mkdir()
  for part in ('train', 'valid', 'test'):
    (tmp_path / f'books/{part}.txt').write_text(part)
  found = inputs.digests(
    {'task': {'file': 'books'}, 'data': {'dir': str(tmp_path)}}
  )
  assert list(found) == [f'books/{p}.txt' for p in ('test', 'train', 'valid')]


def test_a_published_text_has_the_same_digest_wherever_it_is(
  tmp_path, monkeypatch
):
  named = {'task': {'file': 'tinyshakespeare'}}
  monkeypatch.delenv('GOSSIPJAX_DATA', raising=False)
  downloaded = inputs.digests(named)
  (tmp_path / 'tinyshakespeare').mkdir()
  (tmp_path / 'tinyshakespeare/input.txt').write_text('Not verified here.')
  monkeypatch.setenv('GOSSIPJAX_DATA', str(tmp_path))
  assert inputs.digests(named) == downloaded
  assert [*downloaded] == ['tinyshakespeare/input.txt']


def test_trials_of_other_steps_are_other_trials(config, tmp_path):
  """Their checkpoints are gone, so none could go on."""
  with reservation.reserved(tmp_path / 'a', config, False, kind='tune'):
    pass
  with config.unlocked():
    config.steps *= 2
  claim = reservation.reserved(tmp_path / 'a', config, True, kind='tune')
  with pytest.raises(UserError, match=r'differ in config\.steps'), claim:
    pass


def test_a_file_in_any_argument_of_a_task_has_a_digest(tmp_path):
  (tmp_path / 'folder').mkdir()
  table = tmp_path / 'table.csv'
  table.write_text('1')
  given = {'table': ['none', 'table.csv'], 'parts': {'other': (str(table),)}}
  no_files = {'a': 'x' * 5000, 'b': '~nobody-here/a', 'c': 'folder', 'd': ''}
  named = {
    'data': {'dir': str(tmp_path)},
    'task': {'name': 'mine:task', **given, **no_files},
    'variants': {'one': {'task': {'rows': 'table.csv'}}},
    'strategy': {'name': 'table.csv', 'file_of_no_task': 'table.csv'},
  }
  before = inputs.digests(named)
  assert set(before) == {'table.csv', str(table)}
  table.write_text('2')
  assert len(inputs.changed(before, inputs.digests(named))) == 2


def test_a_changed_module_of_the_user_is_reported(
  config, tmp_path, monkeypatch
):
  module = tmp_path / 'my_own_parts.py'
  module.write_text('VALUE = 1')
  monkeypatch.syspath_prepend(tmp_path)
  with config.unlocked():
    config.variants = {'mine': {'strategy': {'name': 'my_own_parts:gossip'}}}
  with reservation.reserved(tmp_path / 'run', config, resume=False):
    pass
  with reservation.reserved(tmp_path / 'run', config, resume=True) as warnings:
    assert warnings == []
  module.write_text('VALUE = 2')
  with reservation.reserved(tmp_path / 'run', config, resume=True) as warnings:
    [warning] = warnings
  assert warning.startswith('my_own_parts changed after this run began')


def test_texts_that_only_look_like_modules_are_ignored():
  texts = ('C:a.json', 'no_such.part:f', 'a b:c', 'gather:')
  assert inputs.modules({'a': {str(i): t for i, t in enumerate(texts)}}) == {}
