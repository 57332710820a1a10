"""The claims about virtual time: they run, and say what their rows say."""

import csv

import pytest

from experiments import adaptive_time, async_crossover, stragglers
from experiments.framework import (
  finding_files,
  kept_runs,
  single_run,
  virtual_time_runs,
)
from tests.support import datasets

pytestmark = datasets.needs('fashion_mnist')


def test_a_quick_run_leaves_its_table_and_is_not_run_again(
  tmp_path, monkeypatch
):
  kept = kept_runs.KeptRuns(tmp_path)
  found = stragglers.measure(True, kept)
  finding_files.write(tmp_path, stragglers.CLAIM, found, 1.0, True)
  finding_files.render(tmp_path, finding_files.read(tmp_path))
  with (tmp_path / 'table.csv').open() as lines:
    rows = {row['method']: row for row in csv.DictReader(lines)}
  assert float(rows['all-reduce'][stragglers.SLOW]) > 1.3
  assert float(rows['pull-gossip'][stragglers.SLOW]) < 1.1
  assert (
    rows['all-reduce'][stragglers.STOPPED]
    and not (rows['pull-gossip'][stragglers.STOPPED])
  )
  assert found.verdict.word == 'holds'
  assert found.verdict.sentence.startswith('One worker of 16')
  monkeypatch.setattr(single_run.simulate, 'simulate', None)
  assert (
    stragglers.measure(True, kept_runs.KeptRuns(tmp_path)).rows == found.rows
  )


def row(rate, workers, waiting, others):
  """As `async_crossover` has it: all that do not wait take the same time."""
  times = {name: others for name in async_crossover.METHODS}
  times['all-reduce'] = waiting
  return {
    'learning rate': rate,
    'workers': workers,
    **{f'{name}{async_crossover.TIME}': s for name, s in times.items()},
  }


@pytest.mark.parametrize(
  'rows, met, of, said',
  [
    (
      [row(0.1, 16, 2.0, 1.0), row(0.1, 32, 2.0, 1.0), row(0.1, 128, 1.0, 2.0)],
      4,
      4,
      'ends between 16 and 64',
    ),
    (
      [row(0.1, 16, 2.0, 1.0), row(0.1, 128, 2.0, 1.0)],
      0,
      4,
      'none of 4 cases',
    ),
    (
      [row(0.1, 4, 2.0, 1.0), row(0.1, 128, 2.0, None)],
      0,
      4,
      'none of 4 cases',
    ),
    (
      [row(0.1, 4, 2.0, 1.0), row(0.1, 128, None, 1.0)],
      0,
      4,
      'leads with 4, 128 workers (0.50',
    ),
    (
      [
        row(0.1, 8, None, 1.0),
        row(0.1, 16, 2.0, 1.0),
        row(0.1, 128, 1.0, 2.0),
        row(0.2, 16, 1.0, 2.0),
        row(0.2, 128, 1.0, 2.0),
      ],
      4,
      8,
      'of 8 cases',
    ),
    (
      [
        row(0.1, 16, None, 1.0),
        row(0.1, 128, 1.0, 2.0),
        row(0.2, 16, 1.0, 2.0),
        row(0.2, 128, 1.0, 2.0),
      ],
      0,
      8,
      'leads with no number of workers',
    ),
  ],
)
def test_a_verdict_on_the_crossover_follows_from_the_rows(rows, met, of, said):
  verdict = async_crossover.verdict(rows)
  assert (verdict.met, verdict.of) == (met, of)
  assert said in verdict.sentence
  assert 'one seed' in verdict.undecided


@pytest.mark.parametrize(
  'saved, accuracy, met',
  [
    (0.53, 0.85, 2),
    (0.53, 0.80, 0),  # For the time, not for the accuracy.
    (0.30, 0.85, 0),
  ],
)
def test_a_verdict_on_saved_time_follows_from_the_rows(saved, accuracy, met):
  rows = [
    {
      'relative transfer time': 1.0,
      'seed': 0,
      'method': name,
      'share of time not computing': 0.5,
      'traffic saved': 0.9,
      'time saved': saved,
      adaptive_time.SAVED_TO_TARGET: None,
      adaptive_time.HELD_OUT: accuracy,
    }
    for name in adaptive_time.METHODS
    if name != adaptive_time.BASELINE
  ]
  rows.append(
    {
      **rows[0],
      'method': adaptive_time.BASELINE,
      'time saved': 0.0,
      adaptive_time.HELD_OUT: 0.855,
    }
  )
  assert adaptive_time.verdict(rows)[:2] == (met, 2)


def test_a_target_is_met_between_two_evaluations_or_never():
  records = [
    {'test_accuracy': a, 'virtual_s': s}
    for a, s in ((0.2, 1.0), (None, 2.0), (0.6, 3.0))
  ]
  assert virtual_time_runs.to_target(records, 0.4) == pytest.approx(2.0)
  assert virtual_time_runs.to_target(records, 0.1) == pytest.approx(0.5)
  assert virtual_time_runs.to_target(records, 0.7) is None
