"""Experiments that test claims: what they look at, keep, and leave behind."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import gtopk_mass, union_size
from experiments.framework import (
  claim,
  finding_files,
  lost_mass,
  residual_growth,
  seed_statistics,
  silent_steps,
  workloads,
)
from experiments.framework.kept_runs import KeptRuns
from experiments.framework.probe import probed
from gossipjax import executors
from gossipjax.errors import UserError
from gossipjax.strategies import gtopk, union_topk
from tests.support import datasets

pytestmark = datasets.needs('fashion_mnist')

P, SIZE, STEPS = 8, 400, 6
GROWTH = 'residual growth'
OLDEST = 'age of the oldest residual, steps'


def play(aggregator, probe):
  """Gradients, means, states before and states after, of each step."""
  watching = probed(aggregator, probe)
  update = executors.on_one_device(watching.update)
  rng = np.random.default_rng(0)
  state = executors.on_one_device(watching.init)(jnp.zeros((P, SIZE)))
  for t in range(STEPS):
    gradients = rng.standard_normal((P, SIZE)).astype('f4')
    before = state
    mean, state, _ = update(gradients, state, step=jnp.int32(t))
    yield jax.device_get((gradients, mean, before.inner, state))


@pytest.mark.parametrize('conserve', [False, True])
def test_lost_mass_is_what_is_neither_applied_nor_remembered(conserve):
  strategy, probe = gtopk.strategy(0.05, conserve), lost_mass.probe()
  for gradients, mean, before, after in play(strategy.gradients, probe):
    wanted = (gradients + before.residual).astype('f8').sum(axis=0)
    applied = P * mean[0].astype('f8')
    lost = np.abs(wanted - applied - after.inner.residual.sum(axis=0)).sum()
    share = probe.read(after.memory)[lost_mass.LOST]
    np.testing.assert_allclose(
      share, lost / np.abs(applied).sum(), rtol=1e-3, atol=1e-5
    )
    assert share < 1e-5 if conserve else share > 0.02


def test_a_residual_is_as_old_as_the_steps_since_it_was_sent(monkeypatch):
  monkeypatch.setattr(union_size, 'DENSITY', 0.05)
  strategy, probe = union_topk.strategy(0.05), union_size.look_at_union()
  age = np.zeros((P, SIZE))
  for *_, after in play(strategy.gradients, probe):
    age = np.where(after.inner.residual == 0, 0, age + 1)
    told = probe.read(after.memory)
    assert told[union_size.AGE] == pytest.approx(age.mean())
    assert told[OLDEST] == age.max()
    assert told[union_size.UNION] == after.inner.union[0] / (0.05 * SIZE)
  assert 1 < told[union_size.UNION] < P and told[OLDEST] == STEPS


def test_a_probe_changes_neither_numbers_nor_bytes(tmp_path, small):
  config = workloads.config('fashion_mnist', 4, quick=True)
  config.strategy = gtopk_mass.method('published', 0.05)
  config.optimizer.learning_rate = 0.1
  plain = KeptRuns(tmp_path).run(config)['records']
  seen = KeptRuns(tmp_path).run(config, lost_mass.probe())
  for a, b in zip(plain, seen['records'], strict=True):
    for key in ('train_loss', 'test_loss', 'bytes_sent', 'comm_s'):
      assert a[key] == b[key]
  assert [line['step'] for line in seen['told']] == [2, 4, 6]


@pytest.fixture
def small(monkeypatch):
  """Every network is an MLP for digits."""
  monkeypatch.setattr(
    workloads,
    'NETWORKS',
    dict.fromkeys(workloads.NETWORKS, ('digits', 'mlp', 32, 6)),
  )


@pytest.mark.parametrize(
  'name', ['gtopk_mass', 'union_size', 'adaptive_gossip', 'hylo']
)
def test_a_claim_ends_with_a_table_a_picture_and_a_verdict(
  name, tmp_path, small, monkeypatch
):
  module = importlib.import_module(f'experiments.{name}')
  if name != 'hylo':  # One that really tunes is enough.
    monkeypatch.setattr(
      KeptRuns,
      'rates',
      lambda self, config, rates: dict.fromkeys(config.variants, rates[-1]),
    )
  monkeypatch.setattr(silent_steps, 'SIZE', 1_000)
  if name == 'gtopk_mass':
    monkeypatch.setattr(
      module,
      'METHODS',
      {m: module.METHODS[m] for m in ('dense', 'published', 'conserving')},
    )
  found = module.measure(True, KeptRuns(tmp_path / 'runs'))
  finding_files.write(tmp_path, module.CLAIM, found, 1.0, quick=True)
  kept = finding_files.read(tmp_path)
  finding_files.render(tmp_path, kept)
  text = (tmp_path / 'table.md').read_text()
  assert f'**Verdict: {found.verdict.word}.**' in text
  assert f'python -m experiments.{name} --quick' in text
  lines = (tmp_path / 'table.csv').read_text().splitlines()
  assert len(lines) == 1 + len(found.rows) and 'accuracy %' in lines[0]
  assert 'nan' not in ''.join(lines)
  module.figure(kept.rows, **kept.tables).savefig(tmp_path / 'figure.png')
  assert (tmp_path / 'figure.png').stat().st_size > 10_000


def test_what_is_finished_is_not_run_again_even_when_time_is_over(
  tmp_path, small
):
  config = workloads.config('fashion_mnist', 4, quick=True)
  config.optimizer.learning_rate = 0.1
  other = config.copy_and_resolve_references()
  other.seed = 1
  first = KeptRuns(tmp_path).collect({('a', 0): config})
  late = KeptRuns(tmp_path, minutes=1e-9)
  assert late.collect({('b', 1): other, ('a', 0): config}) == first
  assert not late.collect({('b', 1): other})
  with pytest.raises(UserError, match='--minutes is too short'):
    seed_statistics.rows({}, ('name',))


def test_a_run_that_diverged_says_so_and_has_no_score(tmp_path, small):
  config = workloads.config('fashion_mnist', 4, quick=True)
  config.optimizer.learning_rate, config.optimizer.warmup_steps = 1e30, 0
  runs = KeptRuns(tmp_path).collect({('a', 0): config})
  assert 'NaN or Inf' in runs['a', 0]['diverged']
  (row,) = seed_statistics.rows(runs, ('name',))
  assert row['seeds that diverged'] == 1
  assert np.isnan(row['held-out accuracy %'])
  assert np.isnan(seed_statistics.difference(runs, ('a',), ('a',))[0])


def test_differences_are_paired_by_seed():
  at = lambda accuracy: {'records': [{'test_accuracy': accuracy}]}
  runs = {
    ('a', 0): at(0.5),
    ('a', 1): at(0.9),
    ('b', 0): at(0.4),
    ('b', 1): at(0.7),
    ('b', 2): at(0.1),
  }
  assert seed_statistics.difference(runs, ('a',), ('b',)) == pytest.approx(
    (15, 5)
  )
  assert np.isnan(seed_statistics.difference(runs, ('a',), ('c',))[0])


@pytest.mark.parametrize(
  'met, of, undecided, word',
  [
    (3, 3, '', 'holds'),
    (0, 3, '', 'does not hold'),
    (2, 3, '', 'holds in 2 of 3'),
    (0, 0, '', 'undecided: no case was measured'),
    (3, 3, 'one seed', 'undecided: one seed'),
  ],
)
def test_a_verdict_is_told_by_the_cases_in_which_a_claim_is_met(
  met, of, undecided, word
):
  assert claim.Verdict(met, of, 'x', 'x', undecided).word == word


def test_codes_of_plus_or_minus_t_cannot_follow_what_exceeds_t():
  slow = {
    (row['decode level'], row['mean gradient']): row
    for row in residual_growth.measure((1.0,), steps=2000)
  }
  assert slow['fixed', 10][GROWTH] > 0.8 > slow['threshold', 10][GROWTH]
  assert slow['threshold', 10]['residual'] > 2 * slow['mean', 10]['residual']
  assert slow['mean', 2]['residual'] > 10
