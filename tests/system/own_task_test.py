"""User-defined tasks, outside the checkout, with the installed wheel."""

import json
import re

import numpy as np
import pytest
from PIL import Image

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


def pictures(size: int = 4):
  # Dark and bright ones, read from folders.
  count = 3 * size * size

  def logits(params, x):
    return (x / 255.0 - 0.5).reshape(len(x), -1) @ params['w'] + params['b']

  def score(params, batch):
    found = logits(params, batch[0])
    right = jnp.mean(found.argmax(-1) == batch[1])
    return {'loss': cross_entropy(found, batch[1]), 'accuracy': right}

  return gj.Task(
    init=lambda key: {'w': jnp.zeros((count, 2)), 'b': jnp.zeros(2)},
    loss=lambda params, batch, key: cross_entropy(
      logits(params, batch[0]), batch[1]
    ),
    score=score,
    train=gj.ImageFolder('pictures/train', size),
    test=gj.ImageFolder('pictures/test', size),
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
# An existing training loop on a mesh of two axes; only the import of gossipjax
# and the line with `as_optax` are new.
LOOP = """
import os

os.environ['NPROC'] = '32'  # A thread per core is too few for 4 devices.
import jax

jax.config.update('jax_num_cpu_devices', 4)
import jax.numpy as jnp
import numpy as np
import optax

import gossipjax as gj

mesh = jax.make_mesh(
  (2, 2), ('node', 'gpu'), axis_types=(jax.sharding.AxisType.Auto,) * 2
)
random = np.random.default_rng(0)
x = random.standard_normal((64, 5), np.float32)
y = x @ np.arange(5, dtype=np.float32)
tx = optax.chain(
  gj.as_optax(gj.topk(density=0.5).gradients, axis=('node',), inner='gpu'),
  optax.sgd(0.1),
)


def loss(params, x, y):
  return jnp.mean((x @ params - y) ** 2)


def step(rows, x, y):
  params, state = jax.tree.map(lambda leaf: leaf[0], rows)
  mine = jax.lax.pcast(params, ('gpu',), to='varying')
  value, grads = jax.value_and_grad(loss)(mine, x, y)
  value, grads = jax.lax.pmean((value, grads), 'gpu')
  updates, state = tx.update(grads, state, params)
  params = optax.apply_updates(params, updates)
  rows = jax.tree.map(lambda leaf: leaf[None], (params, state))
  return rows, value[None]


rows, examples = jax.P('node'), jax.P(('node', 'gpu'))
run = jax.jit(
  jax.shard_map(
    step,
    mesh=mesh,
    in_specs=(rows, examples, examples),
    out_specs=(rows, rows),
  )
)
params = jnp.zeros(5)
start = jax.tree.map(
  lambda leaf: jnp.stack([jnp.asarray(leaf)] * 2), (params, tx.init(params))
)
for _ in range(60):
  start, losses = run(start, x, y)
(params, (state, _)) = start
assert (params[0] == params[1]).all()
assert losses.max() < 0.1, losses
sent = np.asarray(state.sent_total.bytes)
print('sent by a device', sent[0], 'to', 'others of its worker', end=' ')
print(np.asarray(state.sent_total.inner)[0])
"""
COMMANDS = {
  'run': 'run --audit --workdir=out --config.seeds=(0,1)',
  'virtual time': 'run --workdir=out',
  'tune': 'tune --processes=2 --seeds=1 --workdir=out '
  '--grid=optimizer.learning_rate=0.01,0.1',
  'advise': 'advise --link=wan --minutes=0.5 --table --workdir=out',
  'several devices': 'run --audit --workdir=out --config.devices_per_worker=2',
}
# `run` gets every task, the others two of them. convnet has state beside its
# parameters, pictures reads image files, line has a score of a whole set.
CASES = (
  *(('run', task) for task in ('convnet', 'line', 'pictures')),
  *(('virtual time', task) for task in ('convnet', 'line')),
  *(('tune', task) for task in ('line', 'pictures')),
  *(('advise', task) for task in ('convnet', 'line')),
  *(('several devices', task) for task in ('convnet', 'pictures')),
)
SCORES = {
  'convnet': ('accuracy', 'loss'),
  'line': ('mae', 'r2'),
  'pictures': ('accuracy', 'loss'),
}


@pytest.fixture
def folder(tmp_path):
  """A folder outside the checkout, with a user's tasks, configs and images."""
  (tmp_path / 'my_tasks.py').write_text(TASKS)
  (tmp_path / 'my_config.py').write_text(CONFIG)
  virtual = CONFIG.replace(
    '  return config',
    '  config.cluster = defaults.cluster(asynchronous=False)\n  return config',
  )
  (tmp_path / 'my_virtual.py').write_text(virtual)
  random = np.random.default_rng(0)
  for part, many in (('train', 24), ('test', 8)):
    for name, light in (('bright', 180), ('dark', 20)):
      where = tmp_path / 'pictures' / part / name
      where.mkdir(parents=True)
      for i in range(many):
        dots = random.integers(light, light + 60, (5, 6, 3), np.uint8)
        Image.fromarray(dots).save(where / f'{i}.png')
  return tmp_path


@pytest.mark.parametrize('command, task', CASES)
def test_a_users_task_runs_with_each_command(command, task, python, folder):  # noqa: F811
  name = 'my_virtual' if command == 'virtual time' else 'my_config'
  words = [f'--config={name}.py:{task}', *COMMANDS[command].split()[1:]]
  verb = COMMANDS[command].split()[0]
  done = ended(python, folder, '-m', 'gossipjax', verb, *words)
  assert done.returncode == 0, done.stderr
  if command == 'advise':
    assert re.search(r'\| sparse', done.stdout)
    return
  # `tune` prints only the score by which it chooses.
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
    if 'audit' in COMMANDS[command]:
      assert run['audit']
    if command == 'several devices':
      assert run['bytes_inner'] > 0
      assert 'sent within a worker per step' in done.stdout
    if command == 'virtual time':
      assert run['virtual_s'] > 0


SEVERAL = '--config.devices_per_worker=2'


@pytest.mark.parametrize(
  'task, flags',
  [
    ('convnet', ''),
    ('line', SEVERAL),
    ('pictures', f'{SEVERAL} --config.inner=fsdp'),
  ],
)
def test_processes_agree_with_one_process(task, flags, python, folder):  # noqa: F811
  config = f'--config=my_config.py:{task}', *flags.split()
  one = ended(
    python, folder, *('-m', 'gossipjax', 'run', *config), '--workdir=one'
  )
  assert one.returncode == 0, one.stderr
  two = ended(
    python,
    folder,
    *('-m', 'gossipjax', 'launch', '--processes=2', '--', *config),
    '--workdir=two',
  )
  assert two.returncode == 0, two.stderr
  mine, theirs = (
    json.loads((folder / name / 'summary.json').read_text())['runs']
    for name in ('one', 'two')
  )
  for a, b in zip(mine, theirs, strict=True):
    assert a['bytes_sent'] == b['bytes_sent']
    assert a['bytes_inner'] == b['bytes_inner']
    for score in SCORES[task]:
      assert abs(a[f'test_{score}'] - b[f'test_{score}']) < 1e-4


def test_an_existing_loop_can_use_a_strategy(python, folder):  # noqa: F811
  (folder / 'my_loop.py').write_text(LOOP)
  done = ended(python, folder, 'my_loop.py')
  assert done.returncode == 0, done.stderr
  # Half of 5 entries are 2, with an index each: 16 bytes, 8 from each device.
  assert f'sent by a device {60 * 8} ' in done.stdout, done.stdout


# Mistake: a task with flags, and words that the error message contains.
WRONG = {
  'a module that is not there': ('no_tasks:line', 'no_tasks not import'),
  'a function that is not there': ('my_tasks:lin', "'lin' 'line'"),
  'a wrong argument': (
    'my_tasks:line --config.task.slope=steep',
    'slope float',
  ),
}


@pytest.mark.parametrize('what', WRONG)
def test_a_mistake_ends_with_an_error_and_writes_nothing(what, python, folder):  # noqa: F811
  task, words = WRONG[what]
  name, *flags = task.split()
  done = ended(
    python,
    folder,
    *('-m', 'gossipjax', 'run', '--config=my_config.py:line'),
    *('--workdir=out', f'--config.task.name={name}', *flags),
  )
  assert done.returncode == 2, done.stderr
  assert done.stderr.count('\n') == 1, done.stderr
  for word in words.split():
    assert word in done.stderr
  assert not (folder / 'out').exists()
