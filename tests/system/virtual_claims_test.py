"""The claims about virtual time: they run, and say what their rows say."""

import csv

import pytest

from experiments import adaptive_time, async_crossover, stragglers
from experiments.framework import claim, virtual_time_runs


def test_a_quick_run_leaves_its_table_and_is_not_run_again(
  tmp_path, monkeypatch
):
  found = stragglers.measure(True, tmp_path)
  claim.write(tmp_path, 'stragglers', 'A claim', found, 1.0, True)
  with (tmp_path / 'table.csv').open() as lines:
    rows = {row['method']: row for row in csv.DictReader(lines)}
  assert float(rows['all-reduce']['pace, slow / calm']) > 1.3
  assert float(rows['pull-gossip']['pace, slow / calm']) < 1.1
  assert (
    rows['all-reduce']['stopped at: s']
    and not (rows['pull-gossip']['stopped at: s'])
  )
  assert found.verdict.startswith('Holds: one worker of 16')
  assert (tmp_path / 'figure.png').stat().st_size > 10_000
  monkeypatch.setattr(virtual_time_runs.simulate, 'simulate', None)
  assert stragglers.measure(True, tmp_path).rows == found.rows


def row(rate, workers, waiting, others):
  """As `async_crossover` has it: all that do not wait take the same time."""
  times = {name: others for name in async_crossover.METHODS}
  times['all-reduce'] = waiting
  return {
    'eta': rate,
    'P': workers,
    **{f'{name}: s': s for name, s in times.items()},
  }


@pytest.mark.parametrize(
  'rows, verdict',
  [
    (
      [row(0.1, 16, 2.0, 1.0), row(0.1, 32, 2.0, 1.0), row(0.1, 128, 1.0, 2.0)],
      'Holds: a lead',
    ),
    (
      [row(0.1, 16, 2.0, 1.0), row(0.1, 128, 2.0, 1.0)],
      'Does not hold: a lead',
    ),
    (
      [row(0.1, 4, 2.0, 1.0), row(0.1, 128, 2.0, None)],
      'Does not hold: a lead',
    ),
    (
      [row(0.1, 4, 2.0, 1.0), row(0.1, 128, None, 1.0)],
      'leads at 4, 128 (0.50',
    ),
    (
      [
        row(0.1, 8, None, 1.0),
        row(0.1, 16, 2.0, 1.0),
        row(0.1, 128, 1.0, 2.0),
        row(0.2, 16, 1.0, 2.0),
        row(0.2, 128, 1.0, 2.0),
      ],
      'Holds only for some',
    ),
    (
      [
        row(0.1, 16, None, 1.0),
        row(0.1, 128, 1.0, 2.0),
        row(0.2, 16, 1.0, 2.0),
        row(0.2, 128, 1.0, 2.0),
      ],
      'who leads depends on eta',
    ),
  ],
)
def test_a_verdict_on_the_crossover_follows_from_the_rows(rows, verdict):
  assert verdict in async_crossover.verdict(rows)


@pytest.mark.parametrize(
  'saved, accuracy, verdict',
  [
    (0.53, 0.85, 'Holds (published'),
    (0.53, 0.80, 'Holds for the time, not for the accuracy'),
    (0.30, 0.85, 'Does not hold'),
  ],
)
def test_a_verdict_on_saved_time_follows_from_the_rows(
  saved, accuracy, verdict
):
  rows = [
    {
      'transfer': 1.0,
      'seed': 0,
      'method': name,
      'not computing': 0.5,
      'traffic saved': 0.9,
      'time saved': saved,
      f'saved to {adaptive_time.TARGET}': None,
      'held out': accuracy,
    }
    for name in adaptive_time.METHODS
    if name != adaptive_time.BASELINE
  ]
  rows.append(
    {
      **rows[0],
      'method': adaptive_time.BASELINE,
      'time saved': 0.0,
      'held out': 0.855,
    }
  )
  assert adaptive_time.verdict(rows).startswith(verdict)


def test_a_target_is_met_between_two_evaluations_or_never():
  records = [
    {'test_accuracy': a, 'virtual_s': s}
    for a, s in ((0.2, 1.0), (None, 2.0), (0.6, 3.0))
  ]
  assert virtual_time_runs.to_target(records, 0.4) == pytest.approx(2.0)
  assert virtual_time_runs.to_target(records, 0.1) == pytest.approx(0.5)
  assert virtual_time_runs.to_target(records, 0.7) is None
