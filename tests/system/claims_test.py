"""Experiments that test claims: their probes, kept results, and files."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import train_1gbit, union_size
from experiments.framework import (
  finding_files,
  gates,
  lost_mass,
  own_process,
  real_time,
  residual_growth,
  seed_statistics,
  silent_steps,
  single_run,
  step_times,
  training_claim,
  workloads,
)
from experiments.framework.probe import probed
from experiments.framework.result_store import ResultStore
from gossipjax import executors, network
from gossipjax.config import resolve
from gossipjax.strategies import gtopk, union_topk

P, SIZE, STEPS = 8, 400, 6
LINK = {train_1gbit.STEP_S: 0.1, train_1gbit.WIRE: 1e6}
SECONDS = {
  step_times.GRADIENT: 0.1,
  step_times.CODING: 0.01,
  step_times.CODING + seed_statistics.ERROR: 0.001,
  step_times.TIMED_ON: 'a processor',
}
GROWTH = 'residual growth'
OLDEST = 'age of the oldest residual, steps'
pytestmark = pytest.mark.usefixtures('compile_quickly')


def play(aggregator, probe):
  """Yields the gradients, means, and states before and after, of each step."""
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
def test_lost_mass_is_neither_applied_nor_kept_as_a_residual(conserve):
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


def test_the_age_of_a_residual_is_the_steps_since_it_was_0(monkeypatch):
  monkeypatch.setattr(union_size, 'DENSITY', 0.05)
  strategy, probe = union_topk.strategy(0.05), union_size.look_at_union()
  age = np.zeros((P, SIZE))
  for *_, after in play(strategy.gradients, probe):
    age = np.where(after.inner.residual == 0, 0, age + 1)
    measured = probe.read(after.memory)
    assert measured[union_size.AGE] == pytest.approx(age.mean())
    assert measured[OLDEST] == age.max()
    assert measured[union_size.UNION] == after.inner.union[0] / (0.05 * SIZE)
  assert 1 < measured[union_size.UNION] < P and measured[OLDEST] == STEPS


def test_a_probe_changes_neither_losses_nor_bytes():
  strategy = resolve.strategy_config('gtopk', density=0.05)
  config = workloads.config('fashion', 4, 'quick', strategy)
  plain, seen = single_run.make(config), single_run.make(config, lost_mass.NAME)
  for a, b in zip(plain['records'], seen['records'], strict=True):
    for key in ('train_loss', 'test_loss', 'bytes_sent'):
      assert a.get(key) == b.get(key)
  assert plain['comm_s'] == seen['comm_s'] and not plain['told']
  assert [line['step'] for line in seen['told']] == [1, 2, 3, 4, 5, 6]


def trained_here(config, probe):
  """Trains as `own_process.in_a_process` does, but in this process: faster."""
  return single_run.make(config, probe), 1.0, {}


def made_up(config, probe):
  """Returns a result of made-up numbers with all keys that claims read."""
  rng = np.random.default_rng(len(str(config.to_dict())) + config.seed)
  records = [
    {
      'step': step,
      'train_loss': 1 / step,
      'test_loss': 1 / step,
      'test_accuracy': 0.9 - 0.5 / step + 0.01 * rng.random(),
      'bytes_sent': 4000 * step,
      'most_bytes_sent': 1000 * step,
      'virtual_s': 0.1 * step,
      'compute_s': 1.0 * step,
      'waiting_s': 0.5 * step,
      'transfer_s': 0.5 * step,
    }
    for step in range(1, 30)
  ]
  names = {lost_mass.NAME: lost_mass.LOST, union_size.PROBE: union_size.UNION}
  result = {
    'records': records,
    'comm_s': dict.fromkeys((*network.PRESETS, workloads.CUSTOM), 1e-3),
    'diverged': '',
    'told': [{'step': 6, names[probe]: 0.3}] if probe else [],
  }
  return result, 1.0, {}


def converged(config, probe):
  """Returns a result as `made_up` does, with accuracies above every gate."""
  result, *others = made_up(config, probe)
  for record in result['records']:
    record['test_accuracy'] += 0.08
  return result, *others


@functools.cache
def short_residual_growth(measure=residual_growth.measure):
  """A shorter `residual_growth.measure`, made once for all claims."""
  return measure((1.0,), steps=400)


@pytest.mark.parametrize(
  'name, make',
  [
    ('gtopk_mass', trained_here),
    ('gtopk_mass', made_up),
    ('union_size', made_up),
    ('adaptive_gossip', made_up),
    ('hylo', made_up),
    ('fronts', made_up),
    ('sites', made_up),
    ('speedups', made_up),
    ('async_crossover', made_up),
    ('stragglers', trained_here),
    ('stragglers', made_up),
    ('adaptive_time', made_up),
    ('train_1gbit', made_up),
    ('gtopk_mass', converged),
    ('adaptive_gossip', converged),
    ('fronts', converged),
    ('sites', converged),
  ],
)
def test_a_claim_ends_with_a_table_a_figure_and_a_verdict(
  name, make, tmp_path, monkeypatch
):
  monkeypatch.setattr(silent_steps, 'SIZE', 1_000)
  monkeypatch.setattr(residual_growth, 'measure', short_residual_growth)
  monkeypatch.setattr(step_times, 'of', lambda *of: SECONDS)
  timed = dict.fromkeys(train_1gbit.METHODS, LINK)
  monkeypatch.setattr(train_1gbit, 'measure', lambda rate: timed)
  module = importlib.import_module(f'experiments.{name}')
  scale = 'quick' if make is trained_here else 'cpu'
  studies, store = module.studies(scale), ResultStore(tmp_path / 'runs')
  gate = lambda name: functools.partial(gates.of_all_reduce, name, scale)
  of_gates = {(cell[0],): gate(cell[0]) for cell in studies}
  training_claim.make_all(of_gates | studies, store, make)
  found = training_claim.results(studies, store)
  assert set(found) == set(studies)
  coverage = training_claim.coverage(studies, found, store, scale)
  finding = module.find(found, coverage, store)
  finding_files.write(tmp_path, module.CLAIM, finding, 1.0, quick=True)
  kept = finding_files.read(tmp_path)
  finding_files.render(tmp_path, kept)
  text = (tmp_path / 'table.md').read_text()
  assert f'**Verdict: {finding.verdict.word}.**' in text
  undecided = kept.verdict.startswith('undecided: all-reduce has not reached')
  met = all(row['gate met'] for row in coverage)
  assert undecided != met and (met or make is not converged)
  lines = (tmp_path / 'table.csv').read_text().splitlines()
  assert len(lines) == 1 + len(finding.rows) and 'nan' not in ''.join(lines)
  module.figure(kept.rows, **kept.tables).savefig(tmp_path / 'figure.png')
  assert (tmp_path / 'figure.png').stat().st_size > 10_000


@pytest.mark.parametrize('model, devices', [('mlp', 1), ('cnn', 4)])
def test_a_run_in_its_own_process_has_the_same_losses(model, devices, tmp_path):
  config = workloads.config('fashion', 4, 'quick')
  config.task.model = model
  result, seconds, made_with = own_process.in_a_process(
    config, programs=str(tmp_path)
  )
  here = single_run.make(config)
  assert seconds > 0 and len(made_with['devices']) == devices
  for a, b in zip(result['records'], here['records'], strict=True):
    assert a['train_loss'] == pytest.approx(b['train_loss'], rel=1e-4)
    assert a['bytes_sent'] == b['bytes_sent']


def test_a_process_that_ends_without_a_result_is_an_error(tmp_path):
  config = workloads.config('fashion', 4, 'quick')
  config.task.name = 'no such task'
  with pytest.raises(RuntimeError, match='exit code 1'):
    own_process.in_a_process(config, programs=str(tmp_path))


def test_synchronous_workers_take_as_long_as_the_slowest(tmp_path, monkeypatch):
  monkeypatch.setenv('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')  # In its processes.
  config = workloads.config('fashion', 2, 'quick')
  config.log_every = config.eval_every = config.steps
  np.savetxt(tmp_path / 'trace', [[0.05, 0.4]] * config.steps)
  (end,) = real_time.train_synchronous(
    config, tmp_path / 'trace', 0.0, target=2.0
  )
  assert 0.4 <= end.seconds / config.steps < 0.7


def test_a_diverged_run_is_marked_and_has_no_score():
  config = workloads.config('fashion', 4, 'quick')
  config.optimizer.learning_rate, config.optimizer.warmup_steps = 1e30, 0
  run = single_run.make(config)
  assert 'NaN or Inf' in run['diverged']
  assert workloads.WORKLOADS['fashion'].score(run) is None


def test_codes_of_plus_or_minus_t_lag_behind_gradients_above_t():
  rows = {
    (row['decode level'], row['mean gradient']): row
    for row in residual_growth.measure((1.0,), steps=2000)
  }
  assert rows['fixed', 10][GROWTH] > 0.8 > rows['threshold', 10][GROWTH]
  assert rows['threshold', 10]['residual'] > 2 * rows['mean', 10]['residual']
  assert rows['mean', 2]['residual'] > 10
