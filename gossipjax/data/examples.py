"""Examples of any kind, checked: arrays, or a source.

A user's source may be any class with `__len__` and `__getitem__`. Its
exceptions, and examples of different shapes, become UserErrors here.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from gossipjax.data.sources import Arrays, Source
from gossipjax.errors import UserError, as_user_error

Tree = Any


class CheckedSource(Source):
  """A source whose exceptions become UserErrors.

  Args:
    source: with `__len__` and `__getitem__`, perhaps `labels` and `classes`.
      One thread at a time reads a user's own, unless `thread_safe` is True.
    what: its field of the task, such as 'train'.
  """

  def __init__(self, source: Any, what: str):
    self._source = source
    # Threads read ahead. A file that they share would be read at wrong places.
    own = not isinstance(source, Source)
    alone = own and not getattr(source, 'thread_safe', False)
    self._lock = threading.Lock() if alone else contextlib.nullcontext()
    self._name = f'task.{what}: {type(source).__name__}'
    self._first: tuple[int, Any] | None = None  # An example and its form.
    with as_user_error(f'{self._name}: labels or classes', files=True):
      self.labels = labels_of(getattr(source, 'labels', None), len(self))
      names = getattr(source, 'classes', None)
      has_names = isinstance(names, Iterable)
      self.classes = [*map(str, names)] if has_names else None

  def __len__(self) -> int:
    with as_user_error(f'{self._name}.__len__', files=True):
      return len(self._source)

  def __getitem__(self, index: int) -> Tree:
    with (
      as_user_error(f'{self._name}: example {index}', files=True),
      self._lock,
    ):
      example = jax.tree.map(np.asarray, self._source[index])
    shapes = [x.shape for x in jax.tree.leaves(example)]
    form = {'shapes': shapes, 'structure': jax.tree.structure(example)}
    first, expected = self._first = self._first or (index, form)
    for what, found in form.items():
      if found != expected[what]:
        raise UserError(
          f'{self._name}: example {index} has {what} {found}, example {first} '
          f'has {expected[what]}; all examples need the same {what}.'
        )
    return example


def labels_of(given: Any, examples: int) -> np.ndarray | None:
  """Labels for splits, int[examples]; None if `given` is no such array."""
  try:
    found = np.asarray(given)
  except (TypeError, ValueError):  # Lists of different lengths, for example.
    return None
  fits = found.shape == (examples,) and found.dtype.kind in 'iu'
  return found if fits else None


class Subset(Source):
  """Some examples of a source, in the order of `rows`."""

  def __init__(self, source: Source, rows: np.ndarray):
    self._source, self._rows = source, rows
    self.labels = None if source.labels is None else source.labels[rows]

  def __len__(self) -> int:
    return len(self._rows)

  def __getitem__(self, index: int) -> Tree:
    return self._source[int(self._rows[index])]


class Shares:
  """The examples of a source, distributed over workers.

  Attributes:
    source: of all examples.
    rows: int[workers, m], indices of the examples of each worker asked for.
  """

  def __init__(self, source: Source, rows: np.ndarray):
    self.source, self.rows = source, rows


def stacked(source: Source, rows: np.ndarray) -> Tree:
  """Reads the examples `rows`, as arrays [*rows.shape, ...]."""
  examples = [source[int(i)] for i in rows.reshape(-1)]
  join = lambda *xs: np.stack(xs).reshape(*rows.shape, *np.shape(xs[0]))
  return jax.tree.map(join, *examples)


def take_rows(examples: Tree, rows: np.ndarray) -> Tree:
  """The examples `rows` of arrays or a source, as arrays [*rows.shape, ...]."""
  if isinstance(examples, Source):
    return stacked(examples, rows)
  return jax.tree.map(lambda x: np.asarray(x)[rows], examples)


def as_examples(examples: Tree, what: str) -> Tree:
  """Returns a task's examples: arrays of NumPy and JAX unchanged, other arrays
  as NumPy's, other objects as a source.

  Args:
    examples: arrays [examples, ...], or anything with `__len__` and
      `__getitem__`.
    what: the field of the task, for error messages.

  Raises:
    UserError: it is neither.
  """
  if isinstance(examples, Arrays | CheckedSource | Subset):
    return examples
  if isinstance(examples, Source):
    return CheckedSource(examples, what)
  is_iter = isinstance(examples, Iterator)  # JAX will not accept one as a leaf.
  for leaf in [examples] if is_iter else jax.tree.leaves(examples):
    if hasattr(leaf, 'shape'):
      continue
    lacks = _lacks(leaf)
    if leaf is examples and not lacks:
      return CheckedSource(leaf, what)
    raise UserError(
      f'task.{what} '
      + (
        f'is {_kind(leaf)} without {" and ".join(lacks)}'
        if leaf is examples
        else f'holds {_kind(leaf)} where an array is needed'
      )
      + '; give arrays [examples, ...], such as np.stack(a_list), or an object '
      'with __len__ and __getitem__.'
    )
  known = np.ndarray | jax.Array | jax.ShapeDtypeStruct
  return jax.tree.map(
    lambda x: x if isinstance(x, known) else np.asarray(x), examples
  )


def _lacks(value: Any) -> list[str]:
  """Methods that an object lacks to be a source; all for a text or a class."""
  unusable = isinstance(value, str | bytes | type)
  needed = ('__len__', '__getitem__')
  return [name for name in needed if unusable or not hasattr(value, name)]


def _kind(value: Any) -> str:
  if isinstance(value, type):
    return f'the class {value.__name__}, no object of it,'
  return f'an object of type {type(value).__name__}'
