"""Overrides of the config in every form that absl takes."""

import pytest

from gossipjax.commands import command_line
from gossipjax.commands.words import joined


@pytest.mark.parametrize(
  ('given', 'one'),
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
def test_an_override_is_one_word(given, one):
  assert joined(given.split()) == one.split()


def test_the_command_that_is_told_has_them_and_can_be_typed(monkeypatch):
  monkeypatch.setattr(command_line.sys, 'argv', ['my code/run.py'])
  words = ['--config', 'a b.py', '-config.strategy.density', '0.5']
  assert command_line.again([*words, '--workdir', 'w']) == (
    "python 'my code/run.py' '--config=a b.py' --config.strategy.density=0.5"
  )
