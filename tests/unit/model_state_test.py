"""State of a model besides parameters: one per worker, averaged, billed."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gossipjax as gj
from gossipjax import audit
from gossipjax.config import defaults
from gossipjax.distributed.interface_counters import Meter
from gossipjax.errors import UserError
from gossipjax.simulation import simulate
from gossipjax.training import worker_program
from gossipjax.training.run import resolve_run
from gossipjax.training.train import LockStep, train

pytestmark = pytest.mark.usefixtures('compile_quickly')

ME, P, WIDTH = __name__, 4, 3
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((160, 8), np.float32) * 3 + 1
Y = (X[:, 0] > 1).astype(np.int32)


class Net(nn.Module):
  """A dense layer, a batch norm, dropout, a dense layer."""

  @nn.compact
  def __call__(self, x, train):
    x = nn.Dense(WIDTH)(x)
    x = nn.BatchNorm(use_running_average=not train, momentum=0.8)(x)
    x = nn.Dropout(0.5, deterministic=not train)(nn.relu(x))
    return nn.Dense(2)(x)


def normed() -> gj.Task:
  """A classification by `Net`; the state also counts the steps."""
  net = Net()

  def init(key):
    found = net.init(key, X[:1], train=False)
    return found['params'], {'stats': found['batch_stats'], 'steps': 0}

  def loss(params, state, batch, key):
    logits, new = net.apply(
      {'params': params, 'batch_stats': state['stats']},
      batch[0],
      train=True,
      rngs={'dropout': key},
      mutable=['batch_stats'],
    )
    error = optax.softmax_cross_entropy_with_integer_labels(logits, batch[1])
    new = {'stats': new['batch_stats'], 'steps': state['steps'] + 1}
    return error.mean(), new

  def score(params, state, batch):
    variables = {'params': params, 'batch_stats': state['stats']}
    logits = net.apply(variables, batch[0], train=False)
    error = optax.softmax_cross_entropy_with_integer_labels(logits, batch[1])
    right = logits.argmax(-1) == batch[1]
    return {'loss': error.mean(), 'accuracy': right.mean()}

  return gj.Task(
    init, loss, score, (X[:128], Y[:128]), (X[128:], Y[128:]), stateful=True
  )


def config(strategy='all_reduce', **given):
  found = defaults.get_config(strategy)
  found.task = defaults.task(f'{ME}:normed')
  found.optimizer = defaults.optimizer('sgd', 0.1)
  found.update(
    workers=P, steps=6, log_every=3, eval_every=3, executor='vmap', batch_size=4
  )
  found.update(given)
  return found


def ring(size: int) -> int:
  """Bytes that a worker sends in a ring all-reduce of `size` bytes."""
  return 2 * (P - 1) * -(-size // P)


def size_of(state) -> int:
  return sum(x.nbytes for x in jax.tree.leaves(state['stats']))


def trained(run, steps):
  """The workers after some steps, and the records of the run."""
  found = []
  watch = lambda step, workers: found.append(jax.device_get(workers))
  records = list(train(run, watch=watch))
  return found[steps - 1], records


@pytest.mark.exhaustive
def test_every_worker_keeps_statistics_of_its_own_batches():
  workers, _ = trained(resolve_run(config()), 6)
  mean = workers.state['stats']['BatchNorm_0']['mean']
  assert len({row.tobytes() for row in mean}) == P
  np.testing.assert_array_equal(workers.state['steps'], [6] * P)
  # After one step: 0.8 times 0, plus 0.2 times the mean of a batch, which is
  # between the extremes of all examples of the worker.
  run = resolve_run(config(steps=1))
  (workers, _), task = trained(run, 1), run.task
  params, _ = task.begin(jax.random.key(0))
  got = workers.state['stats']['BatchNorm_0']['mean']
  dense = jax.device_get(params['Dense_0'])
  everyone = task.train[0] @ dense['kernel'] + dense['bias']
  low, high = everyone.min(axis=1), everyone.max(axis=1)
  assert ((0.2 * low <= got) & (got <= 0.2 * high)).all()
  assert (got != 0).all()


def test_statistics_are_averaged_for_evaluation_and_billed_separately():
  run = resolve_run(config())
  training = LockStep(run, None, Meter(), lambda *_: None)
  for _ in range(3):
    training.advance()
  training.settle()
  before = training.record(scored=False)
  record = training.record(scored=True)
  workers = jax.device_get(training.state()[0])
  assert before.bytes_evaluation is None
  assert record.bytes_evaluation == [ring(size_of(_one(workers)))] * P
  for name in ('bytes_sent', 'bytes_received', 'messages', 'comm_s'):
    assert getattr(record, name) == getattr(before, name)
  params = jax.tree.map(lambda x: x[0], workers.params)
  mean = jax.tree.map(
    lambda x: x.mean(0, dtype=x.dtype) if x.dtype.kind == 'f' else x[0],
    workers.state,
  )
  by_hand = run.task.score(params, mean, run.task.test)
  np.testing.assert_allclose(record.test_loss, by_hand['loss'], rtol=1e-5)
  np.testing.assert_allclose(record.test_accuracy, by_hand['accuracy'])
  own = run.task.score(params, _one(workers), run.task.test)
  np.testing.assert_allclose(record.worker0_loss, own['loss'], rtol=1e-5)
  assert abs(own['loss'] - by_hand['loss']) > 1e-3 * own['loss']


def _one(workers):
  return _first(workers.state)


@pytest.mark.exhaustive
def test_averaged_states_are_equal_and_are_billed_and_audited():
  own, shared = (
    trained(resolve_run(config(state_period=n, eval_every=0)), 6)
    for n in (0, 2)
  )
  for row in jax.tree.leaves(shared[0].state['stats']):
    np.testing.assert_array_equal(row, np.stack([row[0]] * P))
  more = np.subtract(shared[1][-1].bytes_sent, own[1][-1].bytes_sent)
  assert (more == 3 * ring(size_of(_one(own[0])))).all()
  run = resolve_run(config(state_period=2))
  shapes = worker_program.trace_step(run)
  rows = audit.report('normed', run.strategy, *shapes, P, 4)
  assert {row['step'] % 2 for row in rows} == {0, 1}
  low, high = sorted(row['ledger'] for row in rows)[:: len(rows) - 1]
  assert high - low == ring(size_of(_one(own[0])))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy, cluster',
  [
    ('all_reduce', {'asynchronous': False}),
    ('pairwise_gossip', {}),
    ('parameter_server', {}),
  ],
)
def test_virtual_time_keeps_a_state_per_worker(strategy, cluster):
  given = config(strategy)
  if 'look_ahead' in given.strategy:
    given.strategy.look_ahead = 0.0
  lock_step = [*train(resolve_run(given))] if cluster else None
  given.cluster = defaults.cluster(**cluster)
  training = simulate.VirtualTime(resolve_run(given), None)
  records = []
  while training.step < 6:
    training.advance()
    training.settle()
    records.append(training.record(scored=training.step % 3 == 0))
  state = jax.device_get(training._runner.model_state)
  assert state['steps'].sum() >= 6 * P
  assert len({x.tobytes() for x in state['stats']['BatchNorm_0']['mean']}) == P
  assert np.isfinite(records[-1].test_loss)
  if lock_step:  # In lock-step, virtual time changes no result.
    np.testing.assert_allclose(
      [r.test_loss for r in records if r.test_loss is not None],
      [r.test_loss for r in lock_step],
      rtol=1e-5,
    )
    np.testing.assert_allclose(
      records[-1].worker0_loss, lock_step[-1].worker0_loss, rtol=1e-5
    )
    for name in ('bytes_sent', 'bytes_evaluation'):
      assert getattr(records[-1], name) == getattr(lock_step[-1], name)


@pytest.mark.parametrize('absent', [[0], [1, 3]])
def test_absent_workers_are_not_in_the_scored_state_and_send_nothing(
  absent, monkeypatch
):
  given = config('pairwise_gossip')
  given.strategy.look_ahead = 0.0
  given.cluster = defaults.cluster()
  run = resolve_run(given)
  training = simulate.VirtualTime(run, None)
  for _ in range(3):
    training.advance()
  training.settle()
  present = [i for i in range(P) if i not in absent]
  monkeypatch.setattr(simulate.ComputeTimes, 'up', lambda self, now: present)
  record = training.record(scored=True)
  held = training._runner
  rows = jax.device_get((held.params, held.model_state))
  mean = lambda x: x[present].mean(0) if x.dtype.kind == 'f' else x[present[0]]
  params, state = jax.tree.map(mean, rows)
  by_hand = run.task.score(params, state, run.task.test)
  np.testing.assert_allclose(record.test_loss, by_hand['loss'], rtol=1e-5)
  size = size_of(_first(rows[1]))
  sent = 2 * (len(present) - 1) * -(-size // len(present))
  bill = [sent if i in present else 0 for i in range(P)]
  assert record.bytes_evaluation == bill


def _first(state):
  return jax.tree.map(lambda x: x[0], state)


def test_a_state_period_needs_workers_that_wait():
  given = config('pairwise_gossip', state_period=1)
  given.strategy.look_ahead = 0.0
  given.cluster = defaults.cluster()
  with pytest.raises(UserError, match='state_period'):
    resolve_run(given)


def noisy() -> gj.Task:
  """Its gradient is a random number, by the key of a worker and a step."""
  return gj.Task(
    init=lambda key: jnp.zeros(()),
    loss=lambda params, batch, key: params * jax.random.uniform(key),
    score=lambda params, batch: {'loss': params},
    train=X[:128],
    test=X[128:],
  )


def test_keys_differ_by_worker_and_step():
  given = config('local_sgd', steps=2, eval_every=0)
  given.strategy.period = 100
  given.task = defaults.task(f'{ME}:noisy')
  found = []
  watch = lambda step, workers: found.append(jax.device_get(workers.params))
  list(train(resolve_run(given), watch=watch))
  drawn = np.concatenate([found[0], found[1] - found[0]])
  assert len({*drawn.tolist()}) == 2 * P
