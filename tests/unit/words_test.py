"""Config overrides in every form that absl accepts."""

from contextlib import nullcontext

import pytest

from gossipjax.commands import command_line
from gossipjax.commands.words import check_used, joined
from gossipjax.config import defaults
from gossipjax.errors import UserError


@pytest.mark.parametrize(
  'given, expected',
  [
    ('--config my.py --workdir w', '--config=my.py --workdir w'),
    ('--config.steps 3 --resume', '--config.steps=3 --resume'),
    ('--config.seed -1', '--config.seed=-1'),
    ('-config.steps=3 -config.seed 1', '--config.steps=3 --config.seed=1'),
    ('--config.overlap', '--config.overlap=True'),
    ('--config.overlap --audit', '--config.overlap=True --audit'),
    ('--noconfig.overlap runs/a', '--config.overlap=False runs/a'),
    ('--resume -- --config.steps 3', '--resume -- --config.steps 3'),
    ('--config', '--config'),
    ('', ''),
  ],
)
def test_every_form_of_an_override_becomes_one_word(given, expected):
  assert joined(given.split()) == expected.split()


def test_the_rerun_command_has_the_overrides_quoted_for_a_shell(monkeypatch):
  monkeypatch.setattr(command_line.sys, 'argv', ['my code/run.py'])
  words = ['--config', 'a b.py', '-config.strategy.density', '0.5']
  assert command_line.rerun_command([*words, '--workdir', 'w']) == (
    "python 'my code/run.py' '--config=a b.py' --config.strategy.density=0.5"
  )


@pytest.mark.parametrize(
  'words, error',
  [
    ('--config.strategy.density=0.5', 'variants.all_reduce.strategy.density'),
    ('--config.seed=1 --config.seeds=(0,1)', r'config\.seeds=\(0, 1\)'),
    ('--config.steps=3 --config.optimizer.learning_rate=1', ''),
    ('--config.variants.topk.strategy.density=0.5 --audit --config=a.py', ''),
  ],
)
def test_an_override_that_all_variants_replace_is_refused(words, error):
  config = defaults.get_config()
  config.variants = defaults.variants('all_reduce', 'topk')
  config.seeds = (0, 1) if 'seeds' in words else ()
  refused = pytest.raises(UserError, match=error) if error else nullcontext()
  with refused:
    check_used(words.split(), config)


@pytest.mark.parametrize('key', ['steps', 'optimizer.learning_rate'])
def test_an_override_of_a_number_that_all_variants_set_is_refused(key):
  config = defaults.get_config('topk')
  own = {'steps': 4, 'optimizer': {'learning_rate': 0.1}}
  config.variants = {'a': own, 'b': own}
  message = f'sets its own {key}; set --config.variants.a.{key}'
  with pytest.raises(UserError, match=message):
    check_used([f'--config.{key}=5'], config)
  check_used(['--config.optimizer.momentum=0.5'], config)


@pytest.mark.parametrize(
  'key, error',
  [
    ('a.strategy.density', 'variant b, too, since'),
    ('b.strategy.density', 'variant a, too, since'),
    ('c.steps', 'variant d, too, since'),
    ('a.steps', ''),
    ('e.strategy.density', ''),
    ('a.unknown.key', ''),
  ],
)
def test_an_override_of_a_variant_that_changes_another_is_refused(key, error):
  config = defaults.get_config('topk')
  shared, whole = {'name': 'topk', 'density': 0.1}, {'steps': 4}
  config.variants = {
    'a': {'strategy': shared, 'steps': 3},
    'b': {'strategy': shared, 'steps': 3},
    **{'c': whole, 'd': whole},
    'e': {'strategy': dict(shared), 'steps': 3},
  }
  refused = pytest.raises(UserError, match=error) if error else nullcontext()
  with refused:
    check_used([f'--config.variants.{key}=5'], config)


def test_an_override_that_some_variant_uses_is_accepted():
  config = defaults.get_config('topk')
  config.variants = {'a': {'strategy': {'density': 0.1}}, 'b': {'steps': 3}}
  check_used(['--config.strategy.density=0.5'], config)
  check_used(['--config.strategy.density=0.5'], defaults.get_config('topk'))


def test_a_single_number_as_seeds_is_refused():
  config = defaults.get_config()
  with pytest.raises(UserError, match='seed 3 alone: name several seeds, such'):
    check_used(['--config.seeds=3'], config)
  check_used(['--config.seeds=0,1,2'], config)
  check_used(['--config.seeds=(3,)'], config)
