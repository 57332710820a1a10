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
import numpy as np

from gossipjax import models
from gossipjax.advice import step_traffic
from gossipjax.comparison.units import size
from gossipjax.config import resolve
from gossipjax.results import workdir

WORKERS = 8
PATH = (
  pathlib.Path(__file__).parents[1] / 'results' / 'strategies' / 'bytes.csv'
)


class Sent(NamedTuple):
  """Traffic of the worker that sends most, over whole periods.

  Attributes:
    bytes_per_step: mean over the steps.
    steps_per_exchange: steps over those in which any worker sends.
  """

  bytes_per_step: float
  steps_per_exchange: float


def measure(name: str) -> Sent:
  """Measures a strategy at its defaults, on the CNN for 28x28 images with
  random gradients."""
  settings = resolve.strategy_config(name)
  shapes = jax.eval_shape(
    models.make('cnn', 10).init, jax.random.key(0), jnp.zeros((1, 28, 28, 1))
  )['params']
  _, found = step_traffic.of_cycle(settings, shapes, WORKERS, sample=None)
  sent = np.asarray(found.sent.bytes)
  steps = sent.shape[1]
  exchanges = (sent.max(axis=0) > 0).sum()
  per_step = sent.sum(axis=1).max() / steps
  return Sent(float(per_step), float(steps / exchanges))


class Row(NamedTuple):
  """What the tables show of a strategy.

  Attributes:
    name: of its module.
    title: the first line of its docstring.
    bytes_per_step: to three digits, with a unit; 'not measured' if unknown.
    exchanges: how often, for example 'every 8 steps'.
    source: see `source`.
  """

  name: str
  title: str
  bytes_per_step: str
  exchanges: str
  source: str


def measured() -> dict[str, Sent]:
  """Reads the measurements in PATH, by strategy."""
  with PATH.open(newline='') as lines:
    return {
      row['strategy']: Sent(*(float(row[field]) for field in Sent._fields))
      for row in csv.DictReader(lines)
    }


def mean_bytes(name: str) -> str:
  """The bytes per step of a strategy to three digits, or 'not measured'."""
  known = measured()
  return size(known[name].bytes_per_step) if name in known else 'not measured'


def exchanges(name: str) -> str:
  """How often a strategy exchanges, or 'not measured'."""
  known = measured()
  if name not in known:
    return 'not measured'
  steps = known[name].steps_per_exchange
  return 'every step' if steps == 1 else f'every {steps:.3g} steps'


def rows() -> list[Row]:
  """Returns a row for each strategy."""
  found = []
  for name in resolve.STRATEGIES:
    doc = importlib.import_module(f'gossipjax.strategies.{name}').__doc__
    title = doc.splitlines()[0]
    found.append(
      Row(name, title, mean_bytes(name), exchanges(name), source(doc))
    )
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
    known[name] = measure(name)
    lines = [','.join((key, *map(str, known[key]))) for key in sorted(known)]
    text = '\n'.join([','.join(('strategy', *Sent._fields)), *lines, ''])
    workdir.write(PATH, text)


if __name__ == '__main__':
  main(sys.argv[1:])
