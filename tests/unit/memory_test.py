"""A step that no device holds is refused before the first step."""

import pytest

from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.profiling import device_memory
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train
from tests.support.tiers import exhaustive


def losses(executor):
  """Of four steps on digits."""
  config = defaults.get_config('topk')
  config.update(steps=4, log_every=2, eval_every=0, executor=executor)
  return [record.train_loss for record in train(resolve_run(config))]


@pytest.mark.exhaustive
@pytest.mark.parametrize('executor', ['shard_map', exhaustive('vmap')])
def test_too_many_workers_are_refused_with_both_sizes(monkeypatch, executor):
  monkeypatch.setattr(device_memory, 'limit_bytes', lambda: 100_000)
  told = r'needs \d+\.\d GB, says the compiler.*use 0\.0 GB.*Fewer workers'
  with pytest.raises(UserError, match=told):
    losses(executor)


@pytest.mark.exhaustive
@pytest.mark.parametrize('executor', ['vmap', 'shard_map', 'pmap'])
def test_a_run_that_fits_is_the_same_run(monkeypatch, executor):
  expected = losses(executor)
  monkeypatch.setattr(device_memory, 'limit_bytes', lambda: 10**12)
  assert losses(executor) == expected
