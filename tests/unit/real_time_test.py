"""Real processes against virtual time: evaluation of the measurements."""

import os
import subprocess
import sys

import numpy as np
import pytest

from experiments import crossover_measured
from experiments.framework import figures, other_load, real_time

WORKERS = (4, 8)
KEYS = [
  f'{crossover_measured.SECONDS}, {what}' for what in ('measured', 'predicted')
]


def test_a_trace_has_a_column_per_worker_and_the_requested_mean(
  tmp_path,
):
  of = crossover_measured.config('EASGD', 4, 0, quick=False)
  mean = real_time.write_trace(tmp_path / 'trace', of, 0.2, 0.3)
  found = np.loadtxt(tmp_path / 'trace')
  assert found.shape[1] == 4 and len(found) > of.steps
  assert found.mean() == pytest.approx(mean, rel=1e-3)
  assert mean == pytest.approx(0.2, rel=0.02)
  assert np.log(found).std() == pytest.approx(0.3, rel=0.05)


def rows(seconds, overrun=1.0, others=0.0):
  """A row per run; `seconds` maps a method to (measured, predicted)."""
  return [
    {'workers': workers, 'method': method, 'seed': seed}
    | dict(zip(KEYS, seconds(method), strict=True))
    | {'ms of an exchange': 1.0}
    | {other_load.OVERRUN: overrun, other_load.OTHERS: others}
    for workers in WORKERS
    for method in crossover_measured.METHODS
    for seed in range(3)
  ]


def verdict(found):
  return crossover_measured.verdict(crossover_measured.speeds(found), found)


def test_a_method_is_judged_by_its_speed_relative_to_all_reduce():
  # EASGD: twice as fast, as predicted; pull-gossip: 1, predicted 1.25.
  seconds = {'all-reduce': (8, 10), 'EASGD': (4, 5), 'pull-gossip': (8, 8)}
  found = crossover_measured.speeds(rows(seconds.get))
  speed = f'{crossover_measured.SPEED}, measured'
  assert [row[speed] for row in found[:3]] == [1.0, 2.0, 1.0]
  judged = verdict(rows(seconds.get))
  assert (judged.met, judged.of, judged.open) == (2, 4, 0)


def test_seeds_that_differ_much_leave_a_case_undecided():
  seconds = {'all-reduce': (8, 8), 'EASGD': (8, 8), 'pull-gossip': (8, 8)}
  found = rows(seconds.get)
  for row in found:
    if row['method'] == 'EASGD':
      row[KEYS[0]] = (6, 8, 10)[row['seed']]
  judged = verdict(found)
  assert (judged.met, judged.of, judged.open) == (2, 2, 2)


def test_a_missed_target_and_a_busy_machine_leave_cases_undecided():
  seconds = {'all-reduce': (8, 8), 'EASGD': (None, 4), 'pull-gossip': (8, 8)}
  judged = verdict(rows(seconds.get))
  assert (judged.met, judged.of, judged.open) == (2, 2, 2)
  for busy in (1.2, 0.0), (1.0, 0.2):
    judged = verdict(rows(seconds.get, *busy))
    assert judged.word == 'undecided: the machine was busy'


def test_the_load_of_another_process_is_detected(monkeypatch):
  monkeypatch.setattr(other_load, 'LOOKS', 2)
  monkeypatch.setattr(other_load, 'LOOK_S', 0.4)
  endless = [sys.executable, '-c', 'while True: pass']
  with subprocess.Popen(endless) as other:
    found, share = other_load.beside(lambda: 7)
    other.kill()
  assert found == 7
  assert 0.5 / os.cpu_count() < share <= 1


def test_busy_cores_include_stolen_time_but_not_idle_time():
  # user nice system idle iowait irq softirq steal guest guest_nice
  since = [10, 0, 0, 100, 0, 0, 0, 0, 5, 0]
  until = [20, 5, 5, 160, 10, 0, 0, 10, 9, 0]
  assert other_load.busy(since, until) == pytest.approx(0.3)
  assert other_load.stolen(since, until) == pytest.approx(0.1)


def test_a_figure_is_drawn_if_no_method_reaches_the_target(tmp_path):
  found = crossover_measured.speeds(rows(lambda method: (None, None)))
  drawn = crossover_measured.figure(found, [])
  figures.units_of_axes(drawn)
  drawn.savefig(tmp_path / 'figure.png')
  assert (tmp_path / 'figure.png').stat().st_size > 5000
