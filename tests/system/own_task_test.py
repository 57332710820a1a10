"""Tasks of one's own, outside the checkout, with the installed wheel."""

import json
import re

import pytest

from tests.system.install_test import ended, python  # noqa: F401 A fixture.

TASKS = """
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import gossipjax as gj

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((120, 4, 4, 1), np.float32)
Y = (X.sum((1, 2, 3)) > 0).astype(np.int32)


class Net(nnx.Module):

  def __init__(self, rngs, width):
    self.conv = nnx.Conv(1, width, (3, 3), rngs=rngs)
    self.norm = nnx.BatchNorm(width, rngs=rngs)
    self.dropout = nnx.Dropout(0.2, rngs=rngs)
    self.out = nnx.Linear(16 * width, 2, rngs=rngs)

  def __call__(self, x):
    x = nnx.relu(self.norm(self.conv(x)))
    return self.out(self.dropout(x.reshape(len(x), -1)))


def cross_entropy(logits, y):
  return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def convnet(width: int = 2):
  return gj.task_from_nnx(
    lambda rngs: Net(rngs, width),
    cross_entropy,
    train=(X[:80], Y[:80]),
    test=(X[80:], Y[80:]),
    scores=lambda logits, y: {
      'loss': cross_entropy(logits, y),
      'accuracy': jnp.mean(logits.argmax(-1) == y),
    },
  )


def r2(guess, y):
  return 1 - ((guess - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()


def line(slope: float = 2.0):
  x, y = X[:, :, 0, 0], slope * X[:, 0, 0, 0]
  return gj.Task(
    init=lambda key: jnp.zeros(4),
    loss=lambda params, batch, key: jnp.mean(
      (batch[0] @ params - batch[1]) ** 2
    ),
    score=lambda params, batch: {
      'mae': jnp.abs(batch[0] @ params - batch[1]).mean(),
      'r2': gj.whole_set(r2, batch[0] @ params, batch[1]),
    },
    train=(x[:80], y[:80]),
    test=(x[80:], y[80:]),
    higher_is_better=('r2',),
  )
"""
CONFIG = """
from gossipjax.config import defaults, resolve


def get_config(task):
  config = defaults.get_config()
  config.task = defaults.task(f'my_tasks:{task}')
  config.optimizer = defaults.optimizer('sgd', 0.05)
  config.update(
    workers=2, steps=4, batch_size=8, log_every=2, eval_every=2
  )
  config.variants = defaults.variants(
    dense='all_reduce', sparse=resolve.strategy_config('topk', density=0.5)
  )
  return config
"""
COMMANDS = {
  'run': 'run --workdir=out',
  'audit': 'run --audit --workdir=out',
  'seeds': 'run --workdir=out --config.seeds=(0,1)',
  'virtual time': 'run --workdir=out',
  'tune': 'tune --processes=2 --seeds=1 --workdir=out '
  '--grid=optimizer.learning_rate=0.01,0.1',
  'advise': 'advise --link=1gbe',
}
SCORES = {'convnet': ('accuracy', 'loss'), 'line': ('mae', 'r2')}


@pytest.fixture
def folder(tmp_path):
  """A folder that is no checkout, with two files of a stranger's."""
  (tmp_path / 'my_tasks.py').write_text(TASKS)
  (tmp_path / 'my_config.py').write_text(CONFIG)
  virtual = CONFIG.replace(
    '  return config',
    '  config.cluster = defaults.cluster(asynchronous=False)\n  return config',
  )
  (tmp_path / 'my_virtual.py').write_text(virtual)
  return tmp_path


@pytest.mark.parametrize('task', SCORES)
@pytest.mark.parametrize('command', COMMANDS)
def test_a_task_of_ones_own_runs_everywhere(command, task, python, folder):  # noqa: F811
  name = 'my_virtual' if command == 'virtual time' else 'my_config'
  words = [f'--config={name}.py:{task}', *COMMANDS[command].split()[1:]]
  verb = COMMANDS[command].split()[0]
  done = ended(python, folder, '-m', 'gossipjax', verb, *words)
  assert done.returncode == 0, done.stderr
  if command == 'advise':
    assert re.search(r'\| sparse', done.stdout)
    return
  # Tuning tells the one that it chooses by.
  for score in SCORES[task][: 1 if command == 'tune' else None]:
    assert score in done.stdout, done.stdout
  if command == 'tune':
    again = ended(
      python,
      folder,
      *('-m', 'gossipjax', 'run', '--config=out/tuned.py', '--workdir=best'),
    )
    assert again.returncode == 0, again.stderr
    return
  for run in json.loads((folder / 'out/summary.json').read_text())['runs']:
    assert {f'test_{score}' for score in SCORES[task]} <= {*run}
    if command == 'audit':
      assert run['audit']
    if command == 'virtual time':
      assert run['virtual_s'] > 0


@pytest.mark.parametrize('task', SCORES)
def test_processes_find_what_one_process_finds(task, python, folder):  # noqa: F811
  config = f'--config=my_config.py:{task}'
  one = ended(python, folder, '-m', 'gossipjax', 'run', config, '--workdir=one')
  assert one.returncode == 0, one.stderr
  two = ended(
    python,
    folder,
    *('-m', 'gossipjax', 'launch', '--processes=2', '--', config),
    '--workdir=two',
  )
  assert two.returncode == 0, two.stderr
  mine, theirs = (
    json.loads((folder / name / 'summary.json').read_text())['runs']
    for name in ('one', 'two')
  )
  for a, b in zip(mine, theirs, strict=True):
    assert a['bytes_sent'] == b['bytes_sent']
    for score in SCORES[task]:
      assert abs(a[f'test_{score}'] - b[f'test_{score}']) < 1e-4


WRONG = {
  'a module that is not there': ('no_tasks:line', 'no_tasks not import'),
  'a function that is not there': ('my_tasks:lin', "'lin' 'line'"),
  'a wrong argument': (
    'my_tasks:line --config.task.slope=steep',
    'slope float',
  ),
}


@pytest.mark.parametrize('what', WRONG)
def test_a_mistake_is_one_sentence_and_writes_nothing(what, python, folder):  # noqa: F811
  task, words = WRONG[what]
  name, *more = task.split()
  done = ended(
    python,
    folder,
    *('-m', 'gossipjax', 'run', '--config=my_config.py:line'),
    *('--workdir=out', f'--config.task.name={name}', *more),
  )
  assert done.returncode == 2, done.stderr
  assert done.stderr.count('\n') == 1, done.stderr
  for word in words.split():
    assert word in done.stderr
  assert not (folder / 'out').exists()
