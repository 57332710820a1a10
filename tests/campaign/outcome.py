"""Compares the results of two runs of one config, without clock times."""

import json
import pathlib
from typing import Any

import numpy as np

from gossipjax.training import durable_files
from tests.support import program

CLOCKS = ('wall_s', 'train_s', 'examples_per_s')


def untimed(tree: Any) -> Any:
  """Drops the figures that depend on a clock, also in nested dicts."""
  if isinstance(tree, dict):
    return {k: untimed(v) for k, v in tree.items() if k not in CLOCKS}
  return tree


def difference(one: pathlib.Path, other: pathlib.Path) -> str:
  """How two runs differ: arrays, records, summary or totals; '' if they agree.

  Args:
    one, other: folders of the same variant in two workdirs.
  """
  a, b = (program.arrays(run / 'checkpoints') for run in (one, other))
  if a.keys() != b.keys():
    return 'other arrays'
  for path in a:
    if not np.array_equal(a[path], b[path], equal_nan=True):
      return f'other bits in {path}'
  if _totals(one) != _totals(other):
    return 'other totals'
  return of_results(one, other)


def of_results(one: pathlib.Path, other: pathlib.Path) -> str:
  """How records, summary or model of two finished runs differ; '' if they
  agree."""
  for what in (_records, _summary, _model):
    if what(one) != what(other):
      return f'other {what.__name__[1:]} in {one}'
  return ''


def _records(folder: pathlib.Path) -> list[Any]:
  lines = (folder / 'records.jsonl').read_text().splitlines()
  return [untimed(json.loads(line)) for line in lines]


def _summary(folder: pathlib.Path) -> Any:
  return untimed(json.loads((folder / 'summary.json').read_text()))


def _model(folder: pathlib.Path) -> bytes | None:
  path = folder / durable_files.MODEL
  return path.read_bytes() if path.exists() else None


def _totals(folder: pathlib.Path) -> Any:
  steps = [int(p.name) for p in (folder / 'checkpoints').iterdir()]
  totals = folder / f'checkpoints/{max(steps)}/totals.json'
  return untimed(json.loads(totals.read_text()))
