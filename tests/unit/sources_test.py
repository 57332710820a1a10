"""Sources of examples, which are read on demand."""

import concurrent.futures
import time

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gossipjax as gj
from gossipjax.config import defaults
from gossipjax.data import sources
from gossipjax.data.examples import CheckedSource
from gossipjax.errors import UserError
from gossipjax.simulation import simulate
from gossipjax.tasks import checks, data_checks
from gossipjax.tasks.shares import share_out
from gossipjax.training.checkpoint import Store
from gossipjax.training.loop import Interrupted
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train

pytestmark = pytest.mark.usefixtures('compile_quickly')

ME = __name__
X = np.random.default_rng(0).standard_normal((96, 5), np.float32)
Y = np.int32(X[:, 0] > 0)


def line(streamed: bool = False) -> gj.Task:
  """A regression on arrays, or on a source of the same arrays."""
  pack = sources.Arrays if streamed else lambda *arrays: arrays

  def loss(params, batch):
    return jnp.mean((batch[0] @ params - batch[1]) ** 2)

  return gj.Task(
    init=lambda key: jnp.zeros(5),
    loss=lambda params, batch, key: loss(params, batch),
    score=lambda params, batch: {'loss': loss(params, batch)},
    train=pack(X[:64], Y[:64]),
    test=pack(X[64:], Y[64:]),
  )


def run(streamed, split=None, **given):
  config = defaults.get_config()
  if split is not None:
    config.split = split
  config.task = defaults.task(f'{ME}:line', streamed=streamed)
  config.update(workers=4, steps=9, log_every=3, eval_every=3, batch_size=4)
  config.update(executor='vmap', **given)
  return resolve_run(config)


def broken(folder):
  path = folder / 'x.npz'
  np.savez(path, x=X)
  path.write_bytes(path.read_bytes()[:-30])
  return path


def saved(folder):
  np.savez(folder / 'y.npz', x=X, n=3)
  return folder / 'y.npz'


def figures(records):
  return [(r.step, r.train_loss, r.test_loss, r.bytes_sent) for r in records]


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['iid', 'label', 'contiguous'])
def test_training_on_a_source_equals_training_on_its_arrays(name):
  pytest.importorskip('grain')
  split = defaults.split(name, holdout='validation', validation=0.25)
  of_arrays, of_source = (
    figures(train(run(s, split=split))) for s in (False, True)
  )
  assert of_arrays == of_source


@pytest.mark.exhaustive
def test_a_resumed_run_on_a_source_equals_an_uninterrupted_one(tmp_path):
  pytest.importorskip('grain')
  calls = iter(range(99))
  store = Store(tmp_path / 'kept')
  first = []
  with pytest.raises(Interrupted):
    for record in train(run(True), store, lambda: next(calls) == 4):
      first.append(record)
  rest = list(train(run(True), store))
  assert [r.step for r in first + rest] == [3, 6, 9]
  assert figures(rest) == figures(train(run(True)))[1:]


def test_virtual_time_trains_alike_on_a_source_and_its_arrays():
  cluster = defaults.cluster(asynchronous=False)
  of_arrays, of_source = (
    figures(simulate.simulate(run(s, cluster=cluster))) for s in (False, True)
  )
  assert of_arrays == of_source


def test_files_of_arrays_and_tokens_are_read_row_by_row(tmp_path):
  for name, array in (('x', X), ('y', Y)):
    np.save(tmp_path / f'{name}.npy', array)
  np.savez(tmp_path / 'both.npz', x=X, y=Y)
  for found in (
    gj.npy(tmp_path / 'x.npy', tmp_path / 'y.npy'),
    gj.npz(tmp_path / 'both.npz', ('x', 'y')),
  ):
    assert len(found) == 96
    np.testing.assert_array_equal(found.labels, Y)
    x, y = found[7]
    np.testing.assert_array_equal(x, X[7])
    assert y == Y[7]
  np.arange(100, dtype=np.uint16).tofile(tmp_path / 'train.bin')
  tokens = gj.Tokens(tmp_path / 'train.bin', sequence=9)
  assert len(tokens) == 10
  np.testing.assert_array_equal(tokens[3], np.arange(30, 40))
  assert tokens[3].dtype == np.int32


def test_an_image_of_16_bits_is_refused(tmp_path):
  image = pytest.importorskip('PIL.Image')
  pytest.importorskip('grain')
  for name in ('cat', 'dog'):
    (tmp_path / name).mkdir()
    grey = np.full((4, 4), 20_000, np.uint16)
    image.fromarray(grey).save(tmp_path / name / '0.png')
  with pytest.raises(UserError, match=r'I;16 pixels; save 8 bits per channel'):
    gj.ImageFolder(tmp_path, size=2)[0]


def test_an_image_folder_has_a_class_for_each_subfolder(tmp_path):
  image = pytest.importorskip('PIL.Image')
  pytest.importorskip('grain')
  for name, value in (('cat', 10), ('dog', 200), ('.ipynb_checkpoints', 0)):
    (tmp_path / name).mkdir()
    for i in range(2):
      pixels = np.full((12, 8 + 8 * i, 3), value, np.uint8)
      image.fromarray(pixels).save(tmp_path / name / f'{i}.png')
  found = gj.ImageFolder(tmp_path, size=6)
  assert found.classes == ['cat', 'dog']
  np.testing.assert_array_equal(np.sort(found.labels), [0, 0, 1, 1])
  for i, label in enumerate(found.labels):
    x, y = found[i]
    assert x.shape == (6, 6, 3) and x.dtype == np.uint8
    assert (x == (10, 200)[label]).all() and y == label


def test_a_damaged_image_is_named_in_the_error(tmp_path):
  image = pytest.importorskip('PIL.Image')
  (tmp_path / 'cat').mkdir()
  file = tmp_path / 'cat/0.png'
  image.new('RGB', (20, 20)).save(file)
  whole = file.read_bytes()
  for damaged in (whole[:-30], b'no image'):
    file.write_bytes(damaged)
    with pytest.raises(UserError, match=r'cat/0\.png is damaged'):
      gj.ImageFolder(tmp_path, size=2)[0]


def test_training_and_test_folders_must_have_the_same_classes(tmp_path):
  image = pytest.importorskip('PIL.Image')
  for name in ('train/a', 'train/b', 'train/c', 'test/a', 'test/c'):
    (tmp_path / name).mkdir(parents=True)
    image.new('RGB', (2, 2)).save(tmp_path / name / '0.png')
  train, test = (gj.ImageFolder(tmp_path / n, 2) for n in ('train', 'test'))
  task = gj.Task(None, None, None, train=train, test=test)
  with pytest.raises(UserError, match='only one of them has b'):
    checks.check(task, 1)


def test_the_last_images_of_a_folder_are_of_all_classes(tmp_path):
  image = pytest.importorskip('PIL.Image')
  for name in 'abcde':
    (tmp_path / name).mkdir()
    for i in range(20):
      image.new('RGB', (2, 2)).save(tmp_path / name / f'{i}.png')
  labels = gj.ImageFolder(tmp_path, size=2).labels
  assert {*labels[-20:]} == {*labels[:-20]} == {*range(5)}


class Own:
  """Examples by index; no subclass of `Source`."""

  def __init__(self, odd=None, what=None):
    self._odd, self._what = odd, what

  def __len__(self):
    return 64

  def __getitem__(self, index):
    if index == self._odd and isinstance(self._what, Exception):
      raise self._what
    return X[index, : self._what if index == self._odd else None], Y[index]


def labelled(labels, classes=None):
  found = Own()
  found.labels, found.classes = labels, classes
  return found


class WithoutLength:
  def __getitem__(self, index):
    return X[index], Y[index]


def trained(examples):
  """Trains for four steps on examples of any kind."""
  return gj.compare(
    line()._replace(train=examples),
    {'all_reduce': gj.all_reduce()},
    optimizer=optax.sgd(0.1),
    **{'workers': 4, 'steps': 4, 'batch_size': 16, 'executor': 'vmap'},
  )


def test_a_source_need_not_inherit_from_source():
  pytest.importorskip('grain')
  results = [trained(x).summary['runs'][0] for x in (Own(), (X[:64], Y[:64]))]
  assert results[0]['train_loss'] == results[1]['train_loss']


class Shared:
  """Reads example i in two steps, through a place that threads share."""

  def __init__(self):
    self.place, self.most, self._inside = 0, 0, 0

  def __len__(self):
    return 64

  def __getitem__(self, index):
    self._inside += 1
    self.most = max(self.most, self._inside)
    self.place = index
    time.sleep(0.001)  # Other threads run.
    found = np.float32(self.place)
    self._inside -= 1
    return found


@pytest.mark.parametrize('safe', [False, True])
def test_threads_read_a_source_of_one_s_own_one_at_a_time(safe):
  own = Shared()
  if safe:
    own.thread_safe = True
  source = CheckedSource(own, 'train')
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    found = [*pool.map(source.__getitem__, range(64))]
  assert (own.most > 1) == safe
  if not safe:
    assert found == [*range(64)]


@pytest.mark.parametrize('holdout', ['test', 'validation'])
@pytest.mark.parametrize(
  'labels', [Y[:9], [[1], [1, 0]] * 32, X[:64, 0], 'none', len]
)
def test_invalid_labels_matter_to_labelled_splits_only(labels, holdout):
  task = line()._replace(train=labelled(labels))
  data_checks.check(share_out(task, 4, 0, holdout=holdout), 4, 0)
  with pytest.raises(UserError, match='need a label of each'):
    share_out(task, 4, 0, name='dirichlet', holdout=holdout)


def test_labels_of_a_source_may_be_a_list():
  task = line()._replace(train=labelled(Y[:64].tolist()))
  shared = [
    share_out(t, 4, 0, name='label', holdout='validation', validation=0.25)
    for t in (task, line())
  ]
  data_checks.check(shared[0], 4, 0)
  rows = shared[0].train.rows
  np.testing.assert_array_equal(X[rows], shared[1].train[0])


@pytest.mark.parametrize('classes', [np.array(['a', 'b']), ('a', 'b'), 2])
def test_class_names_may_be_of_any_type(classes):
  other = labelled(Y[:64], ['a', 'b'])
  for one in (labelled(Y[:64], classes), other):
    task = line()._replace(train=one, test=labelled(Y[:64], classes))
    checks.check(share_out(task, 4, 0), 4)


@pytest.mark.parametrize('error', [KeyError('a'), FileNotFoundError('a.png')])
def test_an_error_in_a_source_is_reported_with_its_example(error):
  pytest.importorskip('grain')
  message = f'task.train: Own: example 40 raises {type(error).__name__}'
  with pytest.raises(UserError, match=message) as caught:
    trained(Own(40, error))
  assert caught.value.__cause__ is error


def test_an_example_of_another_shape_is_named_in_the_error():
  pytest.importorskip('grain')
  with pytest.raises(UserError, match=r'example 7 has shapes \[\(3,\), \(\)\]'):
    trained(Own(7, 3))


def test_an_example_of_another_structure_is_named_in_the_error():
  source = CheckedSource([(X[0], Y[0]), {'x': X[0], 'y': Y[0]}], 'train')
  source[0]
  with pytest.raises(UserError, match=r'example 1 has structure .*\*, \*'):
    source[1]


@pytest.mark.parametrize(
  'examples, message',
  [
    (WithoutLength(), 'type WithoutLength without __len__;'),
    ((x for x in X), 'type generator without __len__ and __getitem__'),
    (Own, 'is the class Own'),
    ('x.npy', 'type str'),
    ([(X[0], 1.0)] * 3, 'holds an object of type float where an array is'),
    ((Own(), Y), 'holds an object of type Own where an array is'),
  ],
)
def test_objects_that_are_no_data_end_with_an_error_message(examples, message):
  with pytest.raises(UserError, match=message):
    trained(examples)


@pytest.mark.parametrize(
  'make, message',
  [
    (lambda path: gj.npy(path / 'no.npy'), 'cannot be read'),
    (lambda path: gj.Tokens(path / 'no.bin', 4), 'cannot be read'),
    (lambda path: sources.Arrays(X, Y[:5]), '5, 96'),
    (lambda path: sources.Arrays(X, np.array(3)), 'no axis of examples'),
    (lambda path: gj.npz(saved(path), ['x', 'n']), 'n is a single number'),
    (lambda path: gj.npz(saved(path), ['X']), "no array 'X'; there are n, x"),
    (
      lambda path: gj.npy(saved(path)),
      'is an .npz of x, n; read it with',
    ),
    (lambda path: sources.npz(broken(path), ['x']), 'x.npz cannot be read'),
    (lambda path: sources.Tokens(path / 'x', -1), 'at least 1 token'),
  ],
)
def test_unusable_files_and_arrays_end_with_an_error_message(
  make, message, tmp_path
):
  with pytest.raises(UserError, match=message):
    make(tmp_path)
