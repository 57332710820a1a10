"""A run that exceeds a device's memory is refused before its first step."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax.comparison import variant
from gossipjax.config import defaults
from gossipjax.data.sources import Arrays
from gossipjax.errors import UserError
from gossipjax.profiling import device_memory
from gossipjax.tasks.task import Task
from gossipjax.training.run import Overrides, resolve_run
from gossipjax.training.train import train
from tests.support.tiers import exhaustive

START = r'need (\d+\.\d) GB for parameters.* (\d+\.\d) GB for their examples'
MESSAGE = r'compiler, .* needs \d+\.\d GB; JAX may use 0\.0 GB.*Fewer workers'


def losses(executor, task=None):
  """Returns the losses of four steps on digits, or on another task."""
  config = defaults.get_config('topk')
  config.update(steps=4, log_every=2, eval_every=0, executor=executor)
  run = resolve_run(config, given=Overrides(task=task))
  return [record.train_loss for record in train(run)]


@pytest.mark.exhaustive
@pytest.mark.parametrize('executor', ['shard_map', exhaustive('vmap')])
def test_too_many_workers_are_refused_with_both_memory_sizes(
  monkeypatch, executor
):
  monkeypatch.setattr(device_memory, 'limit_bytes', lambda: 100_000)
  with pytest.raises(UserError, match=MESSAGE):
    losses(executor)


@pytest.mark.exhaustive
def test_memory_is_checked_if_batches_are_read_on_demand(monkeypatch):
  pytest.importorskip('grain')
  x = np.float32(np.arange(600).reshape(300, 2))
  loss = lambda params, batch: jnp.mean(batch @ params)
  task = Task(
    init=lambda key: jnp.zeros(2),
    loss=lambda params, batch, key: loss(params, batch),
    score=lambda params, batch: {'loss': loss(params, batch)},
    train=Arrays(x),
    test=x,
  )
  monkeypatch.setattr(device_memory, 'limit_bytes', lambda: 100)
  with pytest.raises(UserError, match=MESSAGE):
    losses('vmap', task)
  monkeypatch.setattr(device_memory, 'limit_bytes', lambda: 10**12)
  assert len(losses('vmap', task)) == 2


def check_wide_network(executor):
  config = defaults.get_config('topk')
  config.task = defaults.task('digits', model='mlp', width=65_536)
  config.update(workers=8, executor=executor)
  variant.check('topk', config)


def needed(monkeypatch, executor):
  """GB that the message says a device needs, before anything is placed."""
  monkeypatch.setattr(device_memory, 'limit_bytes', lambda: 1)
  with pytest.raises(UserError, match=START) as caught:
    check_wide_network(executor)
  return [float(number) for number in re.findall(START, str(caught.value))[0]]


def test_workers_that_do_not_fit_are_refused_before_they_are_placed(
  monkeypatch,
):
  entries = 65 * 65_536 + 65_537 * 10  # Digits: 64 pixels, 10 classes.
  state, examples = needed(monkeypatch, 'vmap')
  # Parameters, momentum and residual of 8 workers.
  assert state == pytest.approx(8 * 4 * 3 * entries / 1e9, abs=0.05)
  apart, _ = needed(monkeypatch, 'shard_map')
  assert apart == pytest.approx(state / 8, abs=0.05) and examples < 0.1
  monkeypatch.setattr(device_memory, 'limit_bytes', lambda: 10**9)
  check_wide_network('vmap')


@pytest.mark.exhaustive
@pytest.mark.parametrize('executor', ['vmap', 'shard_map', 'pmap'])
def test_the_memory_check_does_not_change_a_run_that_fits(
  monkeypatch, executor
):
  expected = losses(executor)
  monkeypatch.setattr(device_memory, 'limit_bytes', lambda: 10**12)
  assert losses(executor) == expected
