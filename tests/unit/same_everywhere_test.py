"""What has to be the same in processes that train together."""

import re
import types

import jax
import pytest

from gossipjax.commands import run, same_everywhere
from gossipjax.config import defaults
from gossipjax.errors import UserError


def refusal(mine, other, monkeypatch):
  """The message in process 0 if process 1 was given `other`."""
  monkeypatch.setattr(same_everywhere.processes, 'distributed', lambda: True)
  texts = map(same_everywhere.json.dumps, (mine, other))
  monkeypatch.setattr(same_everywhere, '_gathered', lambda text: [*texts])
  with pytest.raises(UserError) as refused:
    same_everywhere.check(mine)
  return str(refused.value)


@pytest.fixture
def no_flags(monkeypatch):
  names = ('workdir', 'resume', 'num_processes', 'interface')
  given = {name: types.SimpleNamespace(value=None) for name in names}
  monkeypatch.setattr(run.flags, 'FLAGS', given)


@pytest.mark.usefixtures('no_flags')
def test_processes_compare_code_and_settings_besides_the_config(monkeypatch):
  config = defaults.get_config()
  config.task = defaults.task('tests.unit.own_models_test:of_nnx')
  mine = run._given(config)
  assert mine['versions']['jax'] == jax.__version__
  assert mine['module tests.unit.own_models_test']
  assert mine['commit'] and mine['config']['task']['name']
  with jax.threefry_partitionable(False):
    other = run._given(config)
  words = 'settings.jax_threefry_partitionable=False and not True'
  found = refusal(mine, other, monkeypatch)
  assert re.search(f'Process 1 has other .*: {words}', found)


@pytest.mark.usefixtures('no_flags')
def test_a_file_of_the_config_that_differs_is_named(monkeypatch, tmp_path):
  config, file = defaults.get_config(), tmp_path / 'link.json'
  config.link = str(file)
  given = []
  for text in ('{"latency_s": 1}', '{"latency_s": 2}'):
    file.write_text(text)
    given.append(run._given(config))
  found = refusal(*given, monkeypatch)
  digits = '[0-9a-f]{12}'
  assert re.search(f': file {file}={digits} and not {digits}. Start', found)
