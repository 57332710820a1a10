"""Data and losses that no model can learn from are refused, others accepted."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gossipjax as gj
from gossipjax.data.sources import Arrays
from gossipjax.errors import UserError
from gossipjax.tasks import data_checks
from gossipjax.tasks.shares import share_out
from gossipjax.traffic import SILENCE
from gossipjax.training.ledger import Diverged, Ledger

pytestmark = pytest.mark.usefixtures('compile_quickly')

X = np.random.default_rng(0).standard_normal((64, 5), np.float32)
Y = np.int32(X[:, 0] > 0)
START = np.random.default_rng(1).standard_normal((5, 2), np.float32)


def entropy(logits, y):
  return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def masked(logits, y):
  """The loss of an example with label -1 is 0."""
  known = y >= 0
  each = optax.softmax_cross_entropy_with_integer_labels(logits, y * known)
  return jnp.where(known, each, 0).mean()


def hinge(logits, y):
  return jnp.maximum(0, 1 - logits[:, 0] * y).mean()


def checked(x, y, loss=entropy, source=False, test=(X, Y)):
  task = gj.Task(
    init=lambda key: jnp.asarray(START),
    loss=lambda params, batch, key: loss(batch[0] @ params, batch[1]),
    score=lambda params, batch: {'loss': loss(batch[0] @ params, batch[1])},
    train=Arrays(x, y) if source else (x, y),
    test=test,
  )
  data_checks.check(share_out(task, 4, 0), 4, 0)


def at(array, place, value):
  found = array.copy()
  found[place] = value
  return found


@pytest.mark.parametrize(
  'x, y, words',
  [
    (at(X, 40, np.nan), Y, 'an example with NaN or Inf, and task.loss .* nan'),
    (X, at(Y, 3, 2), 'the integer 2, and .* numbers from 0'),
    (X, at(Y, 3, -1), 'the integer -1, which task.loss takes for the largest'),
    (X * np.nan, Y, 'task.loss of a batch is nan'),
  ],
)
def test_examples_with_invalid_values_are_refused(x, y, words):
  with pytest.raises(UserError, match=words):
    checked(x, y)


@pytest.mark.parametrize(
  'x, y, words',
  [
    (at(X, 40, np.nan), Y, r'task\.test has an example with NaN or Inf'),
    (X, at(Y, 3, 2), r'task\.test has an example with the integer 2'),
    (X, at(Y, 3, -1), r'task\.test has an example with the integer -1'),
  ],
)
def test_held_out_examples_with_invalid_values_are_refused(x, y, words):
  with pytest.raises(UserError, match=words):
    checked(X, Y, test=(x, y))
  checked(X, Y, test=(x, y, Y))  # Of another form: not checked.


@pytest.mark.parametrize(
  'y, loss',
  [(Y, entropy), (at(Y, 3, -1), masked), (2 * Y - 1, hinge)],
)
@pytest.mark.parametrize('source', [False, True])
def test_labels_that_the_loss_supports_are_accepted(y, loss, source):
  checked(X, y, loss, source)


@pytest.mark.parametrize(
  'loss',
  [
    lambda logits, y: (logits.argmax(1) != y).mean(dtype=jnp.float32),
    lambda logits, y: entropy(jax.lax.stop_gradient(logits), y),
    lambda logits, y: jnp.float32(y.sum()),
  ],
)
def test_a_loss_without_a_gradient_is_refused(loss):
  with pytest.raises(
    UserError, match=r'gradient of task\.loss depends neither'
  ):
    checked(X, Y, loss)


@pytest.mark.parametrize('label', [-1, -100])
def test_negative_labels_that_stand_for_no_label_are_accepted(label):
  """One-hot encoding makes them a row of zeros, as any label out of range."""
  dense = lambda logits, y: optax.softmax_cross_entropy(
    logits, jax.nn.one_hot(y, 2)
  ).mean()
  checked(X, at(Y, 3, label), dense)


def test_labels_that_are_all_shifted_to_begin_at_minus_1_are_refused():
  message = 'the integer -1, which task.loss takes for label 1'
  with pytest.raises(UserError, match=message):
    checked(X, Y - 1, test=(X, Y - 1))


@pytest.mark.parametrize('number', [2**40, -(2**31) - 1])
def test_integers_that_jax_would_wrap_are_refused(number):
  wide = at(np.int64(Y), 9, number)
  with pytest.raises(UserError, match=f'example with {number}, and JAX keeps'):
    checked(X, wide)
  checked(X, at(np.int64(Y), 9, 1))


def test_numbers_that_float32_cannot_hold_are_refused():
  wide = at(np.float64(X), 9, -1e200)
  with pytest.raises(UserError, match=r'example with -1e\+200, and JAX'):
    checked(wide, Y)
  with pytest.raises(UserError, match='an example with NaN or Inf'):
    checked(at(np.float64(X), 9, np.inf), Y)


def test_the_largest_label_of_a_source_is_checked_too():
  with pytest.raises(UserError, match='the integer 7'):
    checked(X, at(Y, 60, 7), source=True)


@pytest.mark.parametrize(
  'before, remedy', [(0, 'out of range in the data'), (3, 'learning_rate')]
)
def test_the_learning_rate_is_not_blamed_before_the_first_update(
  before, remedy
):
  ledger = Ledger({}, 1)
  ledger.step = before
  with pytest.raises(Diverged, match=f'at step {before + 1}; .*{remedy}'):
    ledger.add_steps(np.array([[np.nan]]), SILENCE)
