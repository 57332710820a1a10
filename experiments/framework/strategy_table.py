"""What README and documentation tell of each strategy: bytes and sources.

`python -m experiments.framework.strategy_table [NAME ...]` measures the bytes
per step of some strategies, or of all, which takes minutes.
"""

import csv
import importlib
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax import executors, models
from gossipjax.comparison.table import size
from gossipjax.config import resolve
from gossipjax.results import workdir
from gossipjax.worker import make_worker

WORKERS = 8
PATH = (
  pathlib.Path(__file__).parents[1] / 'results' / 'strategies' / 'bytes.csv'
)


def bytes_per_step(name: str) -> float:
  """What the worker that sends most sends per step, a mean over a cycle.

  Of the CNN for 28x28 pictures, under random gradients, at the defaults.
  """
  settings = resolve.strategy_config(name)
  steps = max(16, settings.get('period') or 1)
  net = models.make('cnn', 10)
  shapes = jax.eval_shape(
    net.init, jax.random.key(0), jnp.zeros((1, 28, 28, 1))
  )['params']
  init, update = make_worker(resolve.strategy(settings), optax.sgd(0.1))

  def noise(key):
    keys = iter(jax.random.split(key, len(jax.tree.leaves(shapes))))
    return jax.tree.map(
      lambda x: jax.random.normal(next(keys), x.shape), shapes
    )

  @executors.on_one_device
  def step(worker, key, t):
    worker, sent = update(worker, noise(jax.random.fold_in(key, t)), t)
    return worker, sent.bytes

  keys = jax.random.split(jax.random.key(1), WORKERS)
  same = jnp.broadcast_to(keys[:1], (WORKERS,))
  workers, total = (
    executors.on_one_device(lambda key: init(noise(key)))(same),
    0,
  )
  for t in range(steps):
    workers, sent = step(workers, keys, t=jnp.int32(t))
    total += sent[:]
  return total.max() / steps


class Row(NamedTuple):
  """What the tables tell of a strategy.

  Attributes:
    name: of its module.
    title: the first line of its docstring.
    bytes_per_step: to three digits, with a unit; 'not measured' if unknown.
    source: see `source`.
  """

  name: str
  title: str
  bytes_per_step: str
  source: str


def measured() -> dict[str, float]:
  """By strategy, the bytes per step that PATH holds."""
  with PATH.open(newline='') as lines:
    return {
      row['strategy']: float(row['bytes_per_step'])
      for row in csv.DictReader(lines)
    }


def told(name: str) -> str:
  """The bytes per step of a strategy to three digits, or 'not measured'."""
  known = measured()
  return size(known[name]) if name in known else 'not measured'


def rows() -> list[Row]:
  """All strategies."""
  found = []
  for name in resolve.STRATEGIES:
    doc = importlib.import_module(f'gossipjax.strategies.{name}').__doc__
    found.append(Row(name, doc.splitlines()[0], told(name), source(doc)))
  return found


def source(doc: str) -> str:
  """The preprints that a strategy's docstring names, or an author and year."""
  preprints = re.findall(r'arXiv:[\d.]+\d', doc)
  if preprints:
    return ', '.join(preprints)
  for paragraph in doc.split('\n\n')[1:]:
    author = re.match(r'(?:[A-Z]\. )?([A-Z]\w+)', paragraph)
    year = re.search(r'\b(?:19|20)\d\d\b', paragraph)
    if author and year:
      return f'{author[1]} {year[0]}'
  return ''


def main(names: Sequence[str]) -> None:
  """Measures some strategies, or all, and writes PATH after each."""
  known = measured()
  for name in names or resolve.STRATEGIES:
    known[name] = float(bytes_per_step(name))
    lines = [f'{key},{known[key]}' for key in sorted(known)]
    text = '\n'.join(['strategy,bytes_per_step', *lines, ''])
    workdir.write(PATH, text)


if __name__ == '__main__':
  main(sys.argv[1:])
