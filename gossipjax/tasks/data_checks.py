"""Whether a loss is finite on the examples that are most likely to be wrong.

JAX raises no error for a label that is too large: its loss is NaN, as for an
example with NaN. Training would end as if its rate were too high.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.data.examples import Shares, take_rows
from gossipjax.data.sources import Source
from gossipjax.errors import UserError
from gossipjax.tasks import gradient_check
from gossipjax.tasks.task import Task

Tree = Any
LABELS = 'labels and tokens are numbers from 0 to one less than the outputs'
MOST_SHIFT = 4  # How far above the largest label one below 0 may point.


class Suspect(NamedTuple):
  """An example that may be wrong.

  Attributes:
    row: its index.
    why: 'NaN or Inf', or 'the integer 10'.
    remedy: what to do if it is wrong.
    leaf: index of its array, if that is a label below 0, else None.
  """

  row: int
  why: str
  remedy: str
  leaf: int | None = None


def check(task: Task, batch_size: int, seed: int) -> None:
  """Computes the loss of batches with suspects, at the initial parameters.

  Args:
    task: with distributed examples. All examples of this process are searched
      for suspects, also held-out ones of the same form; of a source of training
      examples only the first batch and its smallest and largest label.
    batch_size: of one worker.
    seed: of the parameters.

  Raises:
    UserError: an integer does not fit the type that JAX keeps it in, a loss is
      NaN or Inf or has no gradient, or a label below 0 has the same gradient as
      another label, because JAX counts it from the end.
  """
  key = jax.random.key(seed)
  params, state = task.begin(key)
  loss_at = lambda p, batch: task.training_loss(p, state, batch, key)[0]
  loss = functools.partial(jax.jit(loss_at), params)
  gradient = jax.grad(loss_at, allow_int=True)
  slope = functools.partial(jax.jit(gradient), params)
  pools = {'train': _pool(task.train, batch_size)}
  if _is_like(task.test, pools['train']):
    pools['test'] = jax.tree.map(np.asarray, task.test)
  batch = take_rows(pools['train'], np.zeros(batch_size, int))
  gradient_check.check(gradient, params, batch)
  for name, pool in pools.items():
    _check_pool(f'task.{name}', pool, batch_size, loss, slope)


def _check_pool(whose: str, pool: Tree, size: int, loss, slope) -> None:
  _check_fits(whose, pool)
  found = list(suspects(pool))
  total = len(jax.tree.leaves(pool)[0])
  rest = [i for i in range(total) if i not in {s.row for s in found}]
  rows = np.resize(np.array(rest[:size] or [0]), size)
  plain = float(loss(take_rows(pool, rows)))
  for suspect in found if np.isfinite(plain) else ():
    batch = take_rows(pool, np.array([suspect.row, *rows[1:]]))
    fault = ''
    if not np.isfinite(value := float(loss(batch))):
      fault = f'and task.loss of a batch with it is {value}'
    elif suspect.leaf is not None:
      fault = _mistaken(batch, suspect.leaf, pool, slope)
    if fault:
      raise UserError(
        f'{whose} has an example with {suspect.why}, {fault}; {suspect.remedy}.'
      )
  if not np.isfinite(plain):
    has_ints = any(suspect.why.startswith('the int') for suspect in found)
    hint = f', whose {LABELS}' * has_ints
    raise UserError(
      f'task.loss of a batch is {plain} with the parameters that task.init '
      f'returns; check both, and the examples of {whose}{hint}.'
    )


def _check_fits(whose: str, pool: Tree) -> None:
  """Raises a UserError for numbers that JAX's 32 bits cannot hold."""
  for leaf in jax.tree.leaves(pool):
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
    if dtype == leaf.dtype or leaf.dtype.kind not in 'iuf':
      continue
    limits = (jnp.finfo if leaf.dtype.kind == 'f' else jnp.iinfo)(dtype)
    beyond = (leaf < limits.min) | (leaf > limits.max)
    for number in leaf[beyond & np.isfinite(leaf)][:1]:  # Inf is told apart.
      raise UserError(
        f'{whose} has an example with {number}, and JAX keeps {leaf.dtype} as '
        f'{dtype}, which has no such number; scale it down.'
      )


def _is_like(test: Tree, pool: Tree) -> bool:
  """Whether held-out examples are arrays of the same form as `pool`."""
  if isinstance(test, Source) or not jax.tree.leaves(test):
    return False
  form = lambda tree: jax.tree.map(lambda x: (np.shape(x)[1:], x.dtype), tree)
  return form(test) == form(pool)


def suspects_text(examples: Tree) -> str:
  """What may be wrong with examples, for a message; no source is searched."""
  if isinstance(examples, Source):
    return 'NaN, Inf or a label out of range'
  found = suspects(jax.tree.map(np.asarray, examples))
  return ' or '.join(suspect.why for suspect in found)


def suspects(examples: Tree) -> Iterator[Suspect]:
  """Of each array [examples, ...], yields the first example with NaN or Inf, or
  those with the smallest and the largest integer."""
  for i, leaf in enumerate(jax.tree.leaves(examples)):
    rows = leaf.reshape(len(leaf), -1)
    if not rows.size:
      continue
    if jnp.issubdtype(leaf.dtype, jnp.floating):
      bad = ~np.isfinite(rows).all(axis=1)
      if bad.any():
        yield Suspect(
          int(bad.argmax()), 'NaN or Inf', 'correct or remove such examples'
        )
    elif leaf.dtype.kind in 'iu':
      for place in {int(rows.argmin()), int(rows.argmax())}:
        number = int(rows.flat[place])
        yield Suspect(
          place // rows.shape[1],
          f'the integer {number}',
          LABELS,
          i if leaf.ndim == 1 and number < 0 else None,
        )


def _pool(train: Tree, batch_size: int) -> Tree:
  """The examples that are searched, arrays [examples, ...]."""
  if not isinstance(train, Shares):
    join = lambda x: np.asarray(x).reshape(-1, *x.shape[2:])
    return jax.tree.map(join, train)
  rows = train.rows.reshape(-1)
  chosen = [*train.rows[0][:batch_size]]
  if train.source.labels is not None:
    labels = train.source.labels[rows]
    chosen += [rows[labels.argmin()], rows[labels.argmax()]]
  return take_rows(train.source, np.array(chosen))


def _mistaken(batch: Tree, leaf: int, pool: Tree, slope) -> str:
  """Says for which label the first, below 0, is taken; '' if for none.

  JAX counts from the end: -1 is the last of the outputs, which may be above the
  largest label if all labels are shifted.
  """
  leaves, form = jax.tree.flatten(batch)
  largest, labels = int(jax.tree.leaves(pool)[leaf].max()), leaves[leaf]
  actual = slope(batch)

  def is_taken_for(label: int) -> bool:
    leaves[leaf] = np.array([label, *labels[1:]], labels.dtype)
    return _same(actual, slope(jax.tree.unflatten(form, leaves)))

  most = min(largest + MOST_SHIFT, int(np.iinfo(labels.dtype).max))
  last = min(most, largest + 1 - int(labels[0]))
  for label in (largest, *range(largest + 1, last)):
    if is_taken_for(label):
      if label > largest and is_taken_for(most):
        return ''  # Many labels share that gradient, as with a row of zeros.
      which = 'the largest label' if label == largest else f'label {label}'
      return f'which task.loss takes for {which}'
  return ''


def _same(one: Tree, other: Tree) -> bool:
  """Whether two gradients are the same, and not 0; integers have none."""
  a, b = (
    np.concatenate(
      [x.ravel() for x in jax.tree.leaves(tree) if x.dtype.kind != 'V']
    )
    for tree in jax.device_get((one, other))
  )
  return bool((a == b).all() and a.any())
