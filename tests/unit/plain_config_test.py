"""What a config may hold, and what is known of the code that runs it."""

import numpy as np
import optax
import pytest

import gossipjax as gj
from gossipjax import executors
from gossipjax.config import defaults, own_functions
from gossipjax.config.variants import variants
from gossipjax.errors import UserError
from gossipjax.results import provenance


@pytest.mark.parametrize(
  'rate, words',
  [
    (np.float32(0.5), r'learning_rate=.*0\.5.* of NumPy; give .*=0\.5'),
    (lambda step: 0.1, "learning_rate is '<lambda>' of type function"),
    (optax.constant_schedule(0.1), 'learning_rate is .* of type function'),
  ],
)
def test_a_value_that_no_file_can_hold_is_named(rate, words):
  config = defaults.get_config()
  with config.ignore_type():
    config.optimizer = defaults.optimizer('sgd', learning_rate=rate)
  with pytest.raises(UserError, match=rf'config\.optimizer\.{words}'):
    [*variants(config)]


@pytest.mark.parametrize(
  'given, words',
  [
    (gj.topk(), r"a is an object of type Made; .*strategy_config\('topk'"),
    (None, 'a is an object of type NoneType; give the name'),
    (gj.topk, 'a is an object of type function; give the name'),
  ],
)
def test_a_variant_that_no_config_can_hold_is_named(given, words):
  with pytest.raises(UserError, match=rf'^config\.variants\.{words}'):
    defaults.variants(a=given)


def test_a_strategy_in_place_of_its_dict_names_the_dict():
  config = defaults.get_config()
  config.variants = {'a': {'strategy': 'topk'}}
  words = r"a\.strategy='topk' has the wrong type; it takes {'name': 'topk'}\."
  with pytest.raises(UserError, match=rf'^config\.variants\.{words}$'):
    [*variants(config)]


def test_a_function_in_place_of_the_part_it_returns_is_named():
  words = r'is the function strategy; give the Compressor that it returns'
  with pytest.raises(UserError, match=rf'^gj\.compressed\.compressor {words}'):
    gj.compressed(compressor=gj.topk)


def test_annotations_may_be_texts():
  def later(tag: 'str' = 'a', other: 'Nowhere' = 1):  # noqa: F821
    del tag, other

  def known(tag: 'str' = 'a'):
    del tag

  found = own_functions.signature(known).parameters['tag'].annotation
  assert found is str
  assert own_functions.signature(later).parameters['tag'].annotation == 'str'


def test_devices_that_come_too_late_end_with_a_message(monkeypatch):
  def update(*_):
    raise RuntimeError('before backends are initialized')

  monkeypatch.setattr(executors.jax.config, 'update', update)
  executors.emulate(1)  # There are enough.
  with pytest.raises(UserError, match='module of yours, or the config'):
    executors.emulate(executors.MOST_DEVICES)


def test_the_commit_is_that_of_the_first_look(monkeypatch):
  before = provenance.of_this_process()['commit']

  def changed(*_, **__):
    raise AssertionError('looked up again')

  monkeypatch.setattr(provenance.subprocess, 'check_output', changed)
  assert provenance.of_this_process()['commit'] == before


def named(name: str = 'a'):
  """A task function with an argument that no config can set."""
  del name


def test_a_task_function_with_an_argument_called_name_is_refused():
  with pytest.raises(UserError, match='its argument `name` cannot be set'):
    defaults.task(f'{__name__}:named')
