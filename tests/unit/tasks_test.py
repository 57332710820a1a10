"""Tasks: shares of the training data, held-out data, losses and scores."""

import collections
import inspect

import jax
import numpy as np
import pytest

from gossipjax.config import arguments, resolve
from gossipjax.data import images, text
from gossipjax.errors import UserError
from gossipjax.tasks import named
from gossipjax.tasks.shares import share_out
from gossipjax.tasks.task import Task
from tests.support import datasets

KEY = jax.random.key(0)


def rows(examples):
  """Every example as bytes, to tell them apart."""
  x = jax.tree.leaves(examples)[0]
  return [row.tobytes() for row in x.reshape(-1, *x.shape[x.ndim - 3 :])]


def build(name, workers, **settings):
  """A task that is split over workers; settings of the task or the split."""
  of_split = inspect.signature(share_out).parameters
  split = {k: settings.pop(k) for k in [*settings] if k in of_split}
  if 'split' in settings:
    split['name'] = settings.pop('split')
  task = resolve.task({'name': name, **settings})
  seed = split.pop('seed', 0)
  return arguments.call(share_out, split, 'split', task, workers, seed)


@pytest.fixture
def book(tmp_path):
  words = ' '.join(f'{i} bottles of beer on the wall,' for i in range(400))
  (tmp_path / 'book.txt').write_text(words)
  return str(tmp_path / 'book.txt')


@pytest.mark.parametrize('name', named.TASKS)
def test_every_setting_of_a_task_has_a_type_and_a_default(name):
  signature = inspect.signature(named.TASKS[name]).parameters
  for setting in signature.values():
    assert setting.annotation is not setting.empty
    assert setting.default is not setting.empty


@pytest.mark.parametrize('workers', [1, 8])
def test_examples_are_stacked_by_worker_and_none_is_used_twice(workers):
  task = build('digits', workers)
  x, y = task.train
  assert x.shape == (workers, 1_500 // workers, 8, 8, 1)
  assert y.shape == x.shape[:2]
  every, used = (
    collections.Counter(rows(examples))
    for examples in (images.load('digits').train, task.train)
  )
  assert used <= every  # Images that occur twice may be used twice.
  test_x, test_y = task.test
  assert len(test_x) == len(test_y) == 297


def test_labels_stay_with_their_images():
  x, y = images.load('digits').train
  label = {row.tobytes(): int(name) for row, name in zip(x, y, strict=True)}
  task = build('digits', 4, split='dirichlet', alpha=0.1)
  for row, name in zip(
    task.train[0].reshape(-1, 8, 8, 1), task.train[1].reshape(-1), strict=True
  ):
    assert label[row.tobytes()] == name


def test_validation_holds_out_the_end_of_the_training_set():
  x, y = images.load('digits').train
  task = build('digits', 3, holdout='validation', validation=0.2)
  np.testing.assert_array_equal(task.test[0], x[1_200:])
  np.testing.assert_array_equal(task.test[1], y[1_200:])
  assert sorted(rows(task.train)) == sorted(rows((x[:1_200],)))


def test_a_cap_takes_evenly_spaced_examples_of_every_share():
  whole, few = build('digits', 8), build('digits', 8, examples=5)
  size = whole.train[0].shape[1]
  at = [i * size // 5 for i in range(5)]
  np.testing.assert_array_equal(few.train[0], whole.train[0][:, at])
  np.testing.assert_array_equal(few.test[0], whole.test[0])
  many = build('digits', 8, examples=size + 1)
  np.testing.assert_array_equal(many.train[0], whole.train[0])


def test_a_capped_share_keeps_the_class_frequencies():
  for name, given in (('dirichlet', {'alpha': 100.0}), ('label', {})):
    whole = build('digits', 4, split=name, **given)
    few = build('digits', 4, split=name, examples=60, **given)
    for all_y, y in zip(whole.train[1], few.train[1], strict=True):
      shares = [np.bincount(k, minlength=10) / len(k) for k in (all_y, y)]
      np.testing.assert_allclose(*shares, atol=1.5 / 60)


def test_the_seed_determines_the_shares():
  one, again, other = (build('digits', 8, seed=seed) for seed in (1, 1, 2))
  np.testing.assert_array_equal(one.train[0], again.train[0])
  assert (one.train[0] != other.train[0]).any()


def spread(task):
  """Mean over workers of the share of their most frequent label."""
  return np.mean(
    [np.bincount(y, minlength=10).max() / len(y) for y in task.train[1]]
  )


def test_splits_by_label_and_dirichlet_are_more_skewed_than_iid():
  iid, dirichlet, label = (
    spread(build('digits', 10, split=split, alpha=0.1))
    for split in ('iid', 'dirichlet', 'label')
  )
  assert iid < 0.25 < 0.4 < min(dirichlet, label)


def test_training_and_scoring_agree_on_the_loss_of_a_batch():
  task = build('digits', 8)
  params = task.init(KEY)
  batch = jax.tree.map(lambda x: x[0, :32], task.train)
  score = jax.jit(task.score)(params, batch)
  loss = jax.jit(task.loss)(params, batch, KEY)
  np.testing.assert_allclose(loss, score['loss'], rtol=1e-6)
  params = jax.tree.map(np.float64, params)
  x = (np.float64(batch[0]) / 16 - 0.30511) / 0.37503  # an MLP by hand
  hidden, out = params['Dense_0'], params['Dense_1']
  x = np.maximum(x.reshape(32, -1) @ hidden['kernel'] + hidden['bias'], 0)
  z = x @ out['kernel'] + out['bias']
  by_hand = np.log(np.exp(z).sum(-1)) - z[np.arange(32), batch[1]]
  np.testing.assert_allclose(loss, by_hand.mean(), rtol=1e-5)
  assert score['accuracy'] == (z.argmax(-1) == batch[1]).mean()


def test_the_random_key_of_a_loss_affects_augmentation_only():
  keys = jax.random.split(KEY)
  for augment in (False, True):
    task = build('digits', 8, augment=augment)
    batch = jax.tree.map(lambda x: x[0, :32], task.train)
    loss = jax.jit(task.loss)
    one, other = (loss(task.init(KEY), batch, key) for key in keys)
    assert (one != other) == augment


@pytest.mark.exhaustive
def test_an_mlp_learns_the_digits():
  task = build('digits', 1)
  params, batch = task.init(KEY), jax.tree.map(lambda x: x[0], task.train)

  @jax.jit
  def step(params):
    grads = jax.grad(task.loss)(params, batch, KEY)
    return jax.tree.map(lambda p, g: p - 0.3 * g, params, grads)

  for _ in range(100):
    params = step(params)
  assert task.score(params, task.test)['accuracy'] > 0.88


@pytest.mark.parametrize(
  'name', [pytest.param('fashion_mnist', marks=datasets.needs('fashion_mnist'))]
)
def test_a_cnn_gets_a_finite_gradient_from_real_data(name):
  task = build(name, 8, examples=16)
  batch = jax.tree.map(lambda x: x[3], task.train)
  grads = jax.jit(jax.grad(task.loss))(task.init(KEY), batch, KEY)
  assert all(
    np.isfinite(leaf).all() and np.any(leaf != 0)
    for leaf in jax.tree.leaves(grads)
  )


@pytest.mark.exhaustive
def test_an_untrained_text_model_scores_near_ln_256_nats_per_byte(book):
  task = build('text', 2, file=book, width=32, layers=1, sequence=16)
  params = task.init(KEY)
  batch = task.train[0, :8]
  score = jax.jit(task.score)(params, batch)
  assert set(score) == {'loss', 'accuracy'}
  assert abs(score['loss'] - np.log(256)) < 0.7
  assert score['loss'] == jax.jit(task.loss)(params, batch, KEY)


def test_a_text_is_split_into_windows_and_its_end_is_held_out(book):
  data = text.load(book)
  task = build('text', 3, file=book, sequence=16, split='contiguous')
  assert task.train.dtype == np.uint8
  flat = task.train[:, :, :-1].reshape(-1)
  np.testing.assert_array_equal(flat, data.train[: len(flat)])
  assert len(flat) > len(data.train) - 4 * 17
  flat = task.test[:, :-1].reshape(-1)
  np.testing.assert_array_equal(flat, data.test[: len(flat)])


def test_validation_of_a_folder_is_its_valid_txt(tmp_path):
  for part, letter in zip(text.PARTS, b'abc', strict=True):
    (tmp_path / part).write_bytes(bytes([letter]) * 100)
  for holdout, letter in (('test', b'c'), ('validation', b'b')):
    task = build('text', 2, file=str(tmp_path), sequence=8, holdout=holdout)
    assert set(task.test.reshape(-1).tolist()) == set(letter)
    assert set(task.train.reshape(-1).tolist()) == set(b'a')


@pytest.mark.parametrize(
  'name, settings, message',
  [
    ('digit', {}, r"^task\.name.*did you mean 'digits'"),
    ('digits', {'modle': 'mlp'}, r"^task\.modle.*did you mean 'model'"),
    ('digits', {'split': 'dirichelt'}, r"^split\.name.*'dirichlet'"),
    ('text', {'split': 'label'}, r'^split\.name.*iid or contiguous'),
    ('digits', {'model': 'transformer'}, r'^task\.model'),
    ('digits', {'holdout': 'train'}, r'^split\.holdout.*validation'),
    (
      'digits',
      {'holdout': 'validation', 'validation': 1.0},
      r'^split\.validation',
    ),
    (
      'digits',
      {'holdout': 'validation', 'validation': float('nan')},
      r'^split\.validation',
    ),
    ('digits', {'examples': 0}, r'^split\.examples'),
    ('digits', {'workers': 1_501}, r'^workers.*at most 1500'),
    ('digits', {'workers': 0}, r'^workers'),
    ('digits', {'split': 'label', 'shards': 0}, r'^split\.shards'),
    ('text', {'file': 'no/such/book'}, r'^task\.file.*no/such/book'),
  ],
)
def test_a_wrong_setting_is_refused_with_its_key(name, settings, message):
  settings = {'workers': 8} | settings
  if name == 'text':
    settings = {'file': __file__} | settings
  with pytest.raises(UserError, match=message):
    build(name, **settings)


def test_a_model_too_deep_for_the_images_is_refused():
  task = build('digits', 8, model='vgg16')
  with pytest.raises(UserError, match=r'^task\.model.*8x8'):
    task.init(KEY)


@pytest.mark.parametrize('order', [np.sort, lambda y: np.sort(y)[::-1]])
@pytest.mark.parametrize(
  'kind, classes', [(np.int32, 4), (np.uint8, 4), (np.float32, 200)]
)
def test_holding_out_examples_sorted_by_label_is_refused(order, kind, classes):
  y = order(np.arange(200) % classes).astype(kind)
  test = np.zeros((2, 2)), y[:2]
  task = Task(None, None, None, (np.zeros((200, 2)), y), test)
  with pytest.raises(UserError, match=r'order of their (labels|targets); sh'):
    share_out(task, 2, 0, holdout='validation')
  mixed = task._replace(train=(np.zeros((200, 2)), y[np.arange(200) * 7 % 200]))
  assert len(share_out(mixed, 2, 0, holdout='validation').test[1]) == 20
