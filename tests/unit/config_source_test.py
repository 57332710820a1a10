"""Tuned values are pinned and written as the source of a config file."""

import math

import pytest
from ml_collections import ConfigDict, FieldReference

from gossipjax.config import defaults
from gossipjax.config.variants import variants
from gossipjax.errors import UserError
from gossipjax.tuning import config_source, grid
from tests.support.tuning import STRATEGIES, load, small


def test_a_value_tuned_for_one_strategy_is_pinned_only_there(tmp_path):
  config = small('topk', 'all_reduce')
  chosen = {'topk': {'strategy.density': 0.2}, 'all_reduce': {}}
  (tmp_path / 'c.py').write_text(
    config_source.source(config_source.pin(config, chosen), 'Tuned.')
  )
  runs = dict(variants(load(tmp_path / 'c.py')))
  assert runs['topk'].strategy.density == 0.2
  assert runs['all_reduce'].strategy.name == 'all_reduce'
  assert 'density' not in runs['all_reduce'].strategy


def test_variants_that_share_a_dict_get_their_own_tuned_values():
  """They share a dict and a reference to a value."""
  config = small()
  shared, size = defaults.optimizer('adam', 0.01), FieldReference(8)
  config.variants = ConfigDict(
    {
      name: {'optimizer': shared, 'batch_size': size} for name in ('two', 'one')
    },
    sort_keys=False,
  )
  chosen = {
    'two': {'optimizer.learning_rate': 0.1, 'batch_size': 4},
    'one': {'optimizer.learning_rate': 0.2, 'batch_size': 16},
  }
  pinned = config_source.pin(config, chosen).variants
  assert [*pinned] == ['two', 'one']
  for name, point in chosen.items():
    found = pinned[name].optimizer.learning_rate, pinned[name].batch_size
    assert found == (*point.values(),)


def test_values_are_pinned_for_every_seed():
  config = small('topk', 'all_reduce')
  config.seeds = (3, 4)
  point = {'optimizer.learning_rate': 0.02}
  pinned = config_source.pin(config, {'topk': point})
  rates = {n: run.optimizer.learning_rate for n, run in variants(pinned)}
  assert rates['topk-seed3'] == rates['topk-seed4'] == 0.02
  assert rates['all_reduce-seed3'] == config.optimizer.learning_rate


@pytest.mark.parametrize('strategies', [(), STRATEGIES])
def test_a_tuned_optimizer_name_keeps_the_other_optimizer_values(
  strategies, tmp_path
):
  config = small(*strategies)
  config.optimizer.learning_rate = 0.03
  point = {'optimizer.name': 'adam', 'batch_size': 8}
  runs = dict(variants(config))
  chosen = {name: point for name in runs}
  (tmp_path / 'c.py').write_text(
    config_source.source(config_source.pin(config, chosen), 'Tuned.')
  )
  for name, run in variants(load(tmp_path / 'c.py')):
    expected = {**runs[name].optimizer, 'name': 'adam'}
    assert run.optimizer.to_dict() == expected
    assert run.to_dict() == grid.at(runs[name], point).to_dict()


@pytest.mark.parametrize(
  'key, value, kinds',
  [
    ('seeds', None, 'tuple or list'),
    ('seeds', 3, 'tuple or list'),
    ('log', True, 'ConfigDict'),
    ('link', None, 'str or ConfigDict'),
    ('group_link', 5, 'str or ConfigDict'),
    ('target', '90%', 'float or int'),
    ('cluster', True, 'ConfigDict'),
    ('engine', True, 'str'),
    ('accumulate', 2.0, 'int'),
    ('devices_per_worker', True, 'int'),
    ('executor', None, 'str'),
    ('overlap', 1, 'bool'),
  ],
)
def test_a_value_of_another_type_than_its_default_is_refused(key, value, kinds):
  config = defaults.get_config()
  with config.ignore_type():
    config[key] = value
  with pytest.raises(UserError) as error:
    dict(variants(config))
  assert str(error.value) == (
    f'config.{key}={value!r} has the wrong type; it takes {kinds}.'
  )


def test_numbers_that_are_not_finite_are_written_and_read_back(tmp_path):
  config = small()
  with config.ignore_type():
    config.link = {'latency_s': 0.0, 'bytes_per_s': math.inf}
  config.cluster = {'factors': (1.0, math.inf), 'slow': (3.0,), 'failures': ()}
  (tmp_path / 'c.py').write_text(config_source.source(config, 'Tuned.'))
  assert load(tmp_path / 'c.py').to_dict() == config.to_dict()
