"""The command line replaces a task or a strategy with all its arguments."""

import pytest

from gossipjax.commands import new_part
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.tasks.task import Task


def line(slope: float, note: str = '') -> Task:
  """A task of the user; `slope` has no default."""
  raise AssertionError((slope, note))


def on_the_command_line(*words, strategy='gtopk'):
  rest, given = new_part.take(['run', *words, '--config.steps=3'])
  assert rest == ['run', '--config.steps=3']
  config = defaults.get_config(strategy)
  new_part.put(config, given)
  return config


def test_a_named_strategy_replaces_the_arguments_of_the_old_one():
  before = defaults.get_config('gtopk').strategy
  found = on_the_command_line(
    '--config.strategy.name=topk', '--config.strategy.density=0.25'
  ).strategy
  assert 'conserve' in before and 'conserve' not in found
  assert found.density == 0.25
  resolve.strategy(found)
  same = on_the_command_line(
    '--config.strategy.name=gtopk', '--config.strategy.density=0.25'
  ).strategy
  before.density = 0.25
  assert same == before


def test_look_ahead_of_a_new_strategy_follows_the_optimizer_unless_set():
  config = defaults.get_config()
  config.optimizer = defaults.optimizer('adam', learning_rate=0.01)
  for words, ahead in (((), 0.0), (('--config.strategy.look_ahead=0.9',), 0.9)):
    named = '--config.strategy.name=elastic'
    new_part.put(config, new_part.take(['run', named, *words])[1])
    assert config.strategy.look_ahead == ahead
    config.strategy = resolve.strategy_config('gossip')


@pytest.mark.parametrize('text', ['false', 'False', 'FALSE'])
def test_a_boolean_is_written_as_in_any_other_flag(text):
  found = on_the_command_line(
    '--config.strategy.name=gtopk', f'--config.strategy.conserve={text}'
  ).strategy
  assert found.conserve is False


def test_a_task_named_by_a_flag_has_only_its_own_arguments():
  found = on_the_command_line(
    '--config.task.name=text', '--config.task.width=32'
  ).task
  assert 'augment' not in found and found.width == 32
  own = on_the_command_line(
    f'--config.task.name={__name__}:line',
    '--config.task.slope=2',
    '--config.task.note=2',
  ).task
  assert own.to_dict() == {
    'name': f'{__name__}:line',
    'slope': 2,
    'note': '2',  # A string, as its annotation says.
  }


def test_a_strategy_and_its_compressor_are_set_in_one_command():
  found = on_the_command_line(
    '--config.strategy.name=compressed',
    '--config.strategy.compressor.name=topk',
    '--config.strategy.compressor.density=0.5',
  ).strategy
  assert (found.compressor.name, found.compressor.density) == ('topk', 0.5)
  resolve.strategy(found)


def test_the_command_line_replaces_the_strategy_of_a_variant():
  config = defaults.get_config()
  config.variants = defaults.variants(mine='topk', other='gtopk')
  words = 'mine.strategy.name=power_sgd', 'mine.strategy.rank=2'
  rest, given = new_part.take([f'--config.variants.{word}' for word in words])
  new_part.put(config, given)
  mine, other = config.variants.mine.strategy, config.variants.other.strategy
  assert rest == [] and (mine.name, mine.rank) == ('power_sgd', 2)
  assert 'density' not in mine and other.name == 'gtopk'
  resolve.strategy(mine)
  with pytest.raises(UserError, match="mien is unknown; did you mean 'mine'"):
    new_part.put(config, {'variants.mien.strategy': {'name': 'topk'}})


def test_flags_that_name_no_task_or_strategy_are_returned_unchanged():
  words = ['--config.strategy.density=0.25', '--config.task.width=2']
  assert new_part.take(words) == (words, {})


@pytest.mark.parametrize(
  'words, message',
  [
    (['task.name=txt'], "did you mean 'text'"),
    (['task.name=text', 'task.widht=3'], "task.widht is unknown.*'width'"),
    (
      ['strategy.name=compressed', 'strategy.compressor.nam=topk'],
      "strategy.compressor.nam is unknown; did you mean 'name'",
    ),
    (
      ['strategy.name=compressed', 'strategy.compressor.density=much'],
      'strategy.compressor.density=much has the wrong type; it takes float',
    ),
  ],
)
def test_a_mistake_ends_with_an_error_message(words, message):
  with pytest.raises(UserError, match=message):
    on_the_command_line(*(f'--config.{word}' for word in words))


def test_variants_without_a_name_are_named_after_their_strategies():
  few = resolve.strategy_config('topk', density=0.5)
  found = defaults.variants('gossip', 'all_reduce', few=few, mine='gossip')
  assert [*found] == ['gossip', 'all_reduce', 'few', 'mine']
  assert found.gossip == found.mine == defaults.variants(gossip='gossip').gossip
  assert found.few.strategy == few
  with pytest.raises(UserError, match="did you mean 'gossip'"):
    defaults.variants('gosip')
