"""Bytes and sources of each strategy, for README and documentation.

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

from gossipjax import models
from gossipjax.advice import step_traffic
from gossipjax.comparison.table import size
from gossipjax.config import resolve
from gossipjax.results import workdir

WORKERS = 8
PATH = (
  pathlib.Path(__file__).parents[1] / 'results' / 'strategies' / 'bytes.csv'
)


def bytes_per_step(name: str) -> float:
  """Bytes that the worker that sends most sends per step, mean over a cycle.

  For the CNN for 28x28 pictures, under random gradients, at the defaults.
  """
  settings = resolve.strategy_config(name)
  shapes = jax.eval_shape(
    models.make('cnn', 10).init, jax.random.key(0), jnp.zeros((1, 28, 28, 1))
  )['params']
  steps = step_traffic.cycle(settings)
  found = step_traffic.per_step(
    resolve.strategy(settings), shapes, WORKERS, steps, sample=None
  )
  return found.sent.bytes.sum(axis=1).max() / steps


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
