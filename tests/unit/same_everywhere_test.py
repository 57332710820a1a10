"""What has to be the same in processes that train together."""

import types

import jax
import pytest

from gossipjax.commands import run, same_everywhere
from gossipjax.config import defaults
from gossipjax.errors import UserError


def test_processes_compare_code_and_settings_besides_the_config(monkeypatch):
  names = ('workdir', 'resume', 'num_processes', 'interface')
  given = {name: types.SimpleNamespace(value=None) for name in names}
  monkeypatch.setattr(run.flags, 'FLAGS', given)
  config = defaults.get_config()
  config.task = defaults.task('tests.unit.own_models_test:of_nnx')
  mine = run._given(config)
  assert mine['versions']['jax'] == jax.__version__
  assert [*mine['modules']] == ['tests.unit.own_models_test']
  assert mine['commit'] and mine['config']['task']['name']
  with jax.threefry_partitionable(False):
    other = run._given(config)
  monkeypatch.setattr(same_everywhere.processes, 'distributed', lambda: True)
  texts = map(same_everywhere.json.dumps, (mine, other))
  monkeypatch.setattr(same_everywhere, '_gathered', lambda text: [*texts])
  words = 'settings.jax_threefry_partitionable=False and not True'
  with pytest.raises(UserError, match=f'Process 1 has other .*: {words}'):
    same_everywhere.check(mine)
