"""A checkpoint is intact, or it is reported as damaged and not used."""

import errno
import pathlib
import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax.comparison import compare, one_training, variant
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.results import record_file
from gossipjax.simulation import simulate
from gossipjax.training import checkpoint, checkpoint_form
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Ledger

FIRST, SECOND = jnp.arange(6.0), jnp.arange(6.0) + 1


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
  """Checkpoints of steps 3 and 6, with records."""
  folder = tmp_path_factory.mktemp('saved')
  store = Store(folder / 'checkpoints', folder / 'records.jsonl')
  for step, array in ((3, FIRST), (6, SECOND)):
    with (folder / 'records.jsonl').open('a') as file:
      file.write(f'{{"step": {step}}}\n')
    store.save(step, {'a': array}, {'step': step, 'sum': 0.1 * step})
  return folder / 'checkpoints'


@pytest.fixture
def folder(saved, tmp_path):
  shutil.copytree(saved, tmp_path / 'checkpoints')
  return tmp_path / 'checkpoints'


def opened(folder: pathlib.Path) -> Store:
  return Store(folder, folder.parent / 'records.jsonl')


def assert_loads(store: Store, array, step: int) -> None:
  found, totals = store.load({'a': jnp.zeros(6)})
  np.testing.assert_array_equal(found['a'], array)
  assert totals == {'step': step, 'sum': 0.1 * step} and store.last() == step
  assert store.records().count(b'\n') == step // 3


def test_the_newest_checkpoint_is_loaded_bit_by_bit(folder):
  store = opened(folder)
  assert not store.damaged
  assert_loads(store, SECOND, 6)


def test_the_error_for_other_arrays_names_them_and_the_checkpoint(folder):
  with pytest.raises(
    UserError, match=r'it has a float32\[6\] in place of b float32'
  ) as error:
    opened(folder).load({'b': jnp.zeros(6)})
  assert str(folder / '6') in str(error.value)


def test_a_relative_path_of_a_checkpoint_is_accepted(folder, monkeypatch):
  monkeypatch.chdir(folder.parent)
  checkpoint_form.check(pathlib.Path('checkpoints/6'), {'a': FIRST})
  with pytest.raises(
    UserError, match=r'it has a float32\[6\] in place of b float32'
  ):
    checkpoint_form.check(pathlib.Path('checkpoints/6'), {'b': FIRST})


@pytest.mark.parametrize(
  'other, stored',
  [
    (jnp.zeros(7), r'a float32\[6\]'),
    (jnp.zeros(6, jnp.bfloat16), r'a float32\[6\]'),
    (jnp.zeros((2, 3)), r'a float32\[6\]'),
  ],
)
def test_arrays_of_another_shape_or_dtype_are_refused(folder, other, stored):
  with pytest.raises(UserError, match=f'it has {stored} in place of a '):
    checkpoint_form.check(folder / '6', {'a': other})
  # A server's arrays have no axis of workers.
  checkpoint_form.check(folder / '6', {'a': jnp.zeros((4, 6))})


@pytest.mark.exhaustive
@pytest.mark.usefixtures('compile_quickly')
def test_a_resume_that_is_refused_for_other_arrays_changes_no_file(tmp_path):
  config = defaults.get_config('topk')
  config.update(workers=2, steps=2, log_every=1, eval_every=2, executor='vmap')
  compare.compare(config, tmp_path / 'run')
  checkpoints = tmp_path / 'run/topk/checkpoints'
  Store(checkpoints).save(2, {'renamed': FIRST}, {})
  config.steps = 4
  files = lambda: {
    p: p.read_bytes()
    for p in tmp_path.rglob('*')
    if p.is_file() and p.name[0] != '.'
  }
  before = files()
  with pytest.raises(
    UserError, match=r'it has renamed float32\[6\] in place of'
  ):
    compare.compare(config, tmp_path / 'run', resume=True)
  assert files() == before


@pytest.mark.usefixtures('compile_quickly')
@pytest.mark.parametrize(
  'name, asynchronous',
  [('topk', False), ('parameter_server', True), ('pairwise_gossip', True)],
)
def test_a_checkpoint_of_virtual_time_has_the_arrays_of_its_run(
  name, asynchronous, tmp_path
):
  config = defaults.get_config(name)
  config.update(workers=2, steps=2, log_every=1, eval_every=0, executor='vmap')
  config.cluster = defaults.cluster(asynchronous=asynchronous)
  one = variant.check(name, config)
  training = simulate.VirtualTime(one.run, None)
  Store(tmp_path / 'checkpoints').save(1, *training.state())
  one_training.check(one, tmp_path)


def test_a_training_is_closed_at_once_if_a_record_cannot_be_written(
  tmp_path, monkeypatch
):
  ends = []

  def records(*given):
    del given
    try:
      yield None
    finally:
      ends.append('closed')

  def raise_disk_full(*given):
    del given
    raise OSError(errno.ENOSPC, 'No space left on device')

  config = defaults.get_config('gossip')
  config.update(workers=2, steps=2)
  monkeypatch.setattr(one_training.lock_step, 'train', records)
  monkeypatch.setattr(one_training.record_file, 'append', raise_disk_full)
  one = variant.check('gossip', config)
  with pytest.raises(OSError, match='No space') as error:
    one_training.train(one, tmp_path, *[None] * 3)
  # The traceback keeps the generator alive, so it was closed explicitly.
  assert error.tb and ends == ['closed']


def test_the_error_for_totals_of_another_version_names_the_keys():
  ledger = Ledger({}, 2)
  found = ledger.to_json()
  ledger.from_json({k: v for k, v in found.items() if k != 'evaluation'})
  for wrong in (found | {'odd': 1}, {k: found[k] for k in ('step', 'wall_s')}):
    with pytest.raises(UserError, match=r'differ in (odd|bytes)'):
      ledger.from_json(wrong)


def test_after_a_flipped_bit_in_any_file_the_older_checkpoint_is_used(folder):
  files = [path for path in (folder / '6').rglob('*') if path.is_file()]
  assert {'manifest.json', 'totals.json', 'records.jsonl'} <= {
    path.name for path in files
  }
  for number, path in enumerate(sorted(files)):
    whole = path.read_bytes()
    where = number * 7919 % len(whole)
    path.write_bytes(
      whole[:where]
      + bytes([whole[where] ^ 1 << number % 8])
      + whole[where + 1 :]
    )
    store = opened(folder)
    assert len(store.damaged) == 1 and str(folder / '6') in store.damaged[0]
    assert_loads(store, FIRST, 3)
    path.write_bytes(whole)


@pytest.mark.parametrize('what', ['workers', 'totals.json', 'manifest.json'])
def test_a_missing_part_is_named_and_the_older_checkpoint_is_used(folder, what):
  path = folder / '6' / what
  if path.is_dir():
    shutil.rmtree(path)
  else:
    path.unlink()
  store = opened(folder)
  assert what in store.damaged[0]
  assert_loads(store, FIRST, 3)


@pytest.mark.parametrize('text', [b'', b'[1]', b'\xff', b'[' * 100_000])
def test_a_damaged_manifest_is_named_and_the_older_one_is_used(folder, text):
  (folder / '6/manifest.json').write_bytes(text)
  store = opened(folder)
  assert 'manifest.json is damaged' in store.damaged[0]
  assert_loads(store, FIRST, 3)


def test_a_store_without_an_intact_checkpoint_has_no_last_step(folder):
  for step in '36':
    (folder / step / 'totals.json').write_bytes(b'')
  store = opened(folder)
  assert store.last() is None and len(store.damaged) == 2
  assert store.records() == b''


def test_a_damaged_checkpoint_is_replaced_when_its_step_is_saved(folder):
  (folder / '6/totals.json').unlink()
  store = opened(folder)
  store.save(6, {'a': SECOND}, {'step': 6, 'sum': 0.1 * 6})
  assert not opened(folder).damaged
  store.save(9, {'a': FIRST}, {})  # Step 6 is one of the two that are kept.
  assert sorted(path.name for path in folder.iterdir()) == ['6', '9']


def test_a_damaged_checkpoint_does_not_displace_an_intact_one(folder):
  (folder / '6/totals.json').unlink()
  opened(folder).save(9, {'a': SECOND}, {'step': 9, 'sum': 0.1 * 9})
  assert sorted(path.name for path in folder.iterdir()) == ['3', '9']
  (folder / '9/totals.json').unlink()
  assert_loads(opened(folder), FIRST, 3)


def test_abandoned_and_old_checkpoints_are_deleted(folder):
  (folder / '.9.half/workers').mkdir(parents=True)
  store = opened(folder)
  store.save(9, {'a': FIRST}, {})
  assert sorted(path.name for path in folder.iterdir()) == ['6', '9']


@pytest.mark.parametrize(
  'found, line',
  [('1\n3\n', 2), ('2\n1\n3\n', 1), ('1\n2\n2\n', 3), ('1\n2\n', 3), ('', 1)],
)
def test_damaged_records_are_restored_and_the_first_line_is_named(
  found, line, tmp_path
):
  path = tmp_path / 'records.jsonl'
  path.write_text(found)
  message = record_file.restore(path, b'1\n2\n3\n')
  assert f'from line {line} on' in message
  assert path.read_bytes() == b'1\n2\n3\n'


def test_records_after_the_checkpoint_are_removed_silently(tmp_path):
  path = tmp_path / 'records.jsonl'
  path.write_text('1\n2\n3')
  assert record_file.restore(path, b'1\n') == ''
  assert path.read_bytes() == b'1\n'


def test_newest_returns_the_newest_intact_checkpoint(folder):
  shutil.copytree(folder / '6', folder / '6.bak')
  assert checkpoint.newest(folder) == folder / '6'
  (folder / '6/workers/_METADATA').write_bytes(b'')
  assert checkpoint.newest(folder) == folder / '3'
  shutil.rmtree(folder / '3')
  assert checkpoint.newest(folder) is None
