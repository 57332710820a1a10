"""comparison.md and a terminal show names from files and configs literally."""

import pytest

from gossipjax.comparison import markup, progress, table

EVIL = ['<img src=x onerror=alert(1)>.json', 'a|b', '[x](y)', '`c`', '[/red]']
EVIL += ['__old__', 'my*link*.json', '~~b~~', 'a_ b _c']


def summary(name: str) -> dict:
  run = {
    'name': 'x',
    'steps': 2,
    'bytes_sent': 8,
    'test_accuracy': 0.5,
    'test_loss': 1.0,
    'train_loss': 1.0,
    'consensus_distance': 0.0,
    'comm_s': {name: 1.0},
    'examples_per_s': 1.0,
  }
  config = {'task': {'name': name}, 'workers': 2, 'steps': 2, 'seed': 0}
  config |= {'batch_size': 1, 'link': name, 'strategy': {'name': 'topk'}}
  return {'config': config, 'commit': 'abc', 'runs': [run]}


@pytest.mark.parametrize('name', EVIL)
def test_markdown_escapes_a_name(name):
  text = table.markdown(summary(name), None)
  assert name not in text and markup.escaped(name) in text
  rows = [line for line in text.splitlines() if line.startswith('|')]
  assert len({line.count('|') for line in rows}) == 1


def test_an_underscore_within_a_word_needs_no_escape():
  assert markup.escaped('all_reduce_2') == 'all_reduce_2'


@pytest.mark.parametrize('name', EVIL)
def test_a_terminal_shows_a_name_literally(name, capsys, monkeypatch):
  monkeypatch.setenv('COLUMNS', '400')
  progress._print_table(table.rows(summary(name)))
  assert f'communication on {name}' in capsys.readouterr().out


def test_an_audit_of_a_long_run_names_the_number_of_steps_audited():
  runs = lambda *steps: {'runs': [{'steps': n} for n in steps]}
  assert table.audit_note(runs(20, 3000)) == ''
  assert '3,000' in table.audit_note(runs(20, 3001))
