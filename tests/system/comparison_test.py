"""The files that a comparison writes, and what it prints."""

import json
import os
import pty
import re
import subprocess
import sys
import unicodedata

import jax
import jax.numpy as jnp
import matplotlib.image
import optax
import pytest
from ml_collections import ConfigDict

import gossipjax as gj
from gossipjax import network
from gossipjax.comparison import compare
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.results import analysis
from gossipjax.training.ledger import Diverged
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train
from tests.support import program

# The variants are neither in alphabetical order nor in order of cost.
CONFIG = '''
"""A small comparison, as a user would write one."""

from gossipjax.config import defaults, resolve


def get_config():
  config = defaults.get_config()
  config.workers = 4
  config.steps = 6
  config.log_every = 1
  config.eval_every = 3
  config.variants = defaults.variants(
      rarely=resolve.strategy_config('local_sgd', period=3),
      all_reduce='all_reduce',
      gtopk=resolve.strategy_config('gtopk', density=0.01))
  return config
'''
VARIANTS = ['rarely', 'all_reduce', 'gtopk']
FIGURES = ['test_accuracy.png', 'test_loss.png', 'train_loss.png']
# Keys of an entry of `runs` in summary.json; bytes are exact, hence integers.
TYPES = {
  'name': str,
  'strategy': dict,
  'workers': int,
  'steps': int,
  'executor': str,
  'seed': int,
  'parameters': int,
  'train_loss': float,
  'test_loss': float,
  'test_accuracy': float,
  'most_frequent_label': float,
  'consensus_distance': float,
  'bytes_sent': int,
  'bytes_received': int,
  'messages': int,
  'comm_s': dict,
  'wall_s': float,
  'examples_per_s': float,
}


@pytest.fixture(scope='module')
def config(tmp_path_factory):
  """The file of a small comparison."""
  path = tmp_path_factory.mktemp('config') / 'small.py'
  path.write_text(CONFIG)
  return path


@pytest.fixture(scope='module')
def done(config, tmp_path_factory):
  """The workdir of the comparison, and how the process ended."""
  folder = tmp_path_factory.mktemp('comparison')
  ended = program.run(folder, f'--config={config}', f'--workdir={folder}/run')
  assert ended.code == 0, ended.err
  return folder / 'run', ended


@pytest.fixture(scope='module')
def summary(done):
  """summary.json of the comparison."""
  return json.loads((done[0] / 'summary.json').read_text())


def test_a_comparison_writes_the_documented_files_and_no_other(done):
  folder, _ = done
  assert sorted(p.name for p in folder.iterdir()) == sorted(
    [
      '.lock',
      'config.json',
      'log.txt',
      'manifest.json',
      'summary.json',
      'comparison.md',
      'report.html',
      *FIGURES,
      *VARIANTS,
    ]
  )
  for name in VARIANTS:
    assert sorted(p.name for p in (folder / name).iterdir()) == [
      'checkpoints',
      'manifest.json',
      'model.msgpack',
      'records.jsonl',
      'summary.json',
    ]


def test_the_log_reports_the_start_and_each_finished_variant(done):
  lines = (done[0] / 'log.txt').read_text().splitlines()
  assert 'Begins: python run.py --config=' in lines[0]
  for name, line in zip(VARIANTS, lines[2::2], strict=True):
    assert f'{name} is finished after 6 steps: ' in line
    assert 'held-out accuracy' in line
    assert line.endswith('sent per worker.')


def test_config_json_has_the_config_versions_and_devices(done):
  found = json.loads((done[0] / 'config.json').read_text())
  assert found['config']['workers'] == 4
  assert list(found['config']['variants']) == VARIANTS
  assert found['versions']['jax'] and found['commit'] and found['devices']


def test_the_summary_has_the_documented_keys_with_their_types(summary):
  for run in summary['runs']:
    assert {key: type(run[key]) for key in TYPES} == TYPES
    assert {*network.PRESETS} <= {*run['comm_s']}
    assert all(type(s) is float and s > 0 for s in run['comm_s'].values())
    assert run['most_frequent_label'] == 33 / 297  # Of the ten digits.
    assert run['workers'] == 4 and run['steps'] == 6 and run['bytes_sent'] > 0
    assert run['strategy']['name'] in resolve.STRATEGIES


def test_the_summary_agrees_with_the_last_record(done, summary):
  for run in summary['runs']:
    lines = (done[0] / run['name'] / 'records.jsonl').read_text().splitlines()
    assert [json.loads(line)['step'] for line in lines] == [1, 2, 3, 4, 5, 6]
    last = json.loads(lines[-1])
    assert run['bytes_sent'] == max(last['bytes_sent'])
    assert run['test_accuracy'] == last['test_accuracy']
    assert run['comm_s'] == last['comm_s']


def test_variants_come_in_the_order_of_the_config(done, summary):
  assert [run['name'] for run in summary['runs']] == VARIANTS
  table = [
    line
    for line in (done[0] / 'comparison.md')
    .read_text()
    .partition('## All figures')[2]
    .splitlines()
    if line.startswith('|')
  ]
  heading, line, *cells = [row.split('|')[1].strip() for row in table]
  assert heading == 'run' and set(line) == {':', '-'} and cells == VARIANTS
  assert len({row.count('|') for row in table}) == 1


@pytest.mark.parametrize('name', FIGURES)
def test_figures_are_not_blank(name, done):
  pixels = matplotlib.image.imread(done[0] / name)
  assert min(pixels.shape[:2]) > 200
  assert pixels[..., :3].std() > 0.01


def test_variants_start_from_the_same_parameters_with_the_same_examples(done):
  first = [
    json.loads((done[0] / name / 'records.jsonl').open().readline())
    for name in VARIANTS
  ]
  losses = [record['train_loss'] for record in first]
  assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)


def test_variants_see_the_same_examples_in_the_same_order():
  # With a learning rate of 0 the losses depend on the examples only.
  def losses(name):
    config = defaults.get_config(name)
    config.update(
      workers=4, steps=5, log_every=1, eval_every=0, executor='vmap'
    )
    config.optimizer.learning_rate = 0.0
    return [record.train_loss for record in train(resolve_run(config))]

  expected = losses('all_reduce')
  assert len({*expected}) == 5
  assert losses('local_sgd') == pytest.approx(expected, rel=1e-6)


def control_characters(text: str) -> set[str]:
  """Returns the control characters of a text, except newlines."""
  return {c for c in text if unicodedata.category(c) == 'Cc'} - {'\n'}


def test_output_to_a_file_has_the_table_and_no_control_characters(done):
  folder, ended = done
  assert not control_characters(ended.out + ended.err)
  table = (folder / 'comparison.md').read_text()
  assert table in ended.out and re.search('First (so far )?to ', table)
  assert [line.partition(':')[0] for line in ended.err.splitlines()] == [
    name for name in VARIANTS for _ in range(2)
  ]  # A line per evaluation.


def test_a_terminal_shows_a_progress_bar_and_a_table(config, tmp_path):
  ours, theirs = pty.openpty()
  with subprocess.Popen(
    [
      sys.executable,
      'run.py',
      f'--config={config}',
      '--config.steps=2',
      f'--workdir={tmp_path / "run"}',
    ],
    cwd=program.ROOT,
    stdout=theirs,
    stderr=theirs,
    env=os.environ | {'TERM': 'xterm', 'COLUMNS': '200'},
  ) as process:
    os.close(theirs)
    seen = b''.join(iter(lambda: _read(ours), b'')).decode()
  os.close(ours)
  assert process.returncode == 0, seen
  assert '\x1b[' in seen  # An escape sequence: it moves the cursor.
  for word in ('2/2', 'loss', 'examples/s', '━', *VARIANTS):
    assert word in seen
  assert seen.rindex('First to held-out') > seen.rindex('2/2')
  assert seen.rindex('run') > seen.rindex('First to held-out')


def _read(terminal: int) -> bytes:
  try:
    return os.read(terminal, 65536)
  except OSError:  # The other end of the terminal was closed.
    return b''


def test_a_diverged_variant_is_reported_and_stops_no_other(tmp_path, capfd):
  config = defaults.get_config()
  config.update(workers=2, steps=6, log_every=2, eval_every=6)
  one = resolve.strategy_config('all_reduce')
  diverging = lambda warmup: {
    'strategy': one,
    'optimizer': {'learning_rate': 1e30, 'warmup_steps': warmup},
  }
  config.variants = ConfigDict(
    {'at_once': diverging(0), 'later': diverging(3), 'good': {'strategy': one}}
  )
  summary = compare.compare(config, tmp_path / 'run')
  at_once, good, later = summary['runs']
  assert (at_once['steps'], later['steps'], good['steps']) == (0, 2, 6)
  assert good['test_accuracy'] and later['test_accuracy'] is None
  assert 'at_once: The loss is NaN' in (stderr := capfd.readouterr().err)
  assert 'later: ' in stderr and 'good: ' not in stderr
  table = (tmp_path / 'run/comparison.md').read_text()
  assert re.search(r'\| later +\| +diverged \|', table)
  assert 'later: The loss is NaN' in table
  assert 'later: The loss is NaN' in (tmp_path / 'run/report.html').read_text()
  frame = analysis.load(tmp_path / 'run')
  assert set(frame['run']) == {'at_once', 'later', 'good'}
  # Finished and diverged variants are not trained again.
  again = compare.compare(config, tmp_path / 'run', resume=True)
  assert again['runs'] == summary['runs']


def test_a_run_whose_last_update_is_nan_has_diverged(tmp_path):
  x = jax.random.normal(jax.random.key(0), (64, 4))
  loss = lambda params, batch: jnp.mean((batch[0] @ params - batch[1]) ** 2)
  task = gj.Task(
    init=lambda key: jnp.zeros(4),
    loss=lambda params, batch, key: loss(params, batch),
    score=lambda params, batch: {'loss': loss(params, batch)},
    train=(x, x.sum(axis=1)),
    test=(x, x.sum(axis=1)),
  )
  rate = lambda step: jnp.where(step < 5, 0.1, jnp.nan)  # NaN in step 6.
  with pytest.raises(Diverged, match='held-out loss is NaN or Inf after'):
    gj.compare(
      task,
      {'dense': gj.all_reduce()},
      optimizer=optax.sgd(rate),
      workers=2,
      steps=6,
      eval_every=3,
      executor='vmap',
      folder=tmp_path / 'run',
    )
  text = (tmp_path / 'run/dense/summary.json').read_text()
  assert 'NaN,' not in text
  summary = json.loads(text)
  assert summary['test_loss'] is None is summary['consensus_distance']
  assert summary['diverged'] == (
    'The held-out loss is NaN or Inf after the last step.'
  )
  with pytest.raises(UserError, match='and did not diverge'):
    gj.trained(tmp_path / 'run/dense')
