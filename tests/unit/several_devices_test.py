"""Training with workers of several devices: records, resume, refusals."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gossipjax as gj
from gossipjax import network
from gossipjax.comparison import table
from gossipjax.comparison.summary import summarise
from gossipjax.comparison.variant import check
from gossipjax.config import defaults
from gossipjax.data import sources
from gossipjax.distributed.interface_counters import Meter
from gossipjax.errors import UserError
from gossipjax.training.checkpoint import Store
from gossipjax.training.loop import Interrupted
from gossipjax.training.run import Overrides, resolve_run
from gossipjax.training.train import LockStep, train
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')

P, DEVICES, SIZE = 2, 2, 9
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((96, SIZE), np.float32)
Y = X @ np.arange(SIZE, dtype=np.float32)


class Lazy(sources.Source):
  """The same examples, read on demand."""

  def __len__(self):
    return len(X)

  def __getitem__(self, i):
    return X[i], Y[i]


def line(noise: float = 0.0, train=(X, Y)) -> gj.Task:
  """A regression whose state has the mean of its inputs; it may add noise."""

  def loss(params, state, batch, key):
    x, y = batch
    x = x + noise * jax.random.normal(key, x.shape)
    error = x @ params['w'] + params['b'] - y
    return jnp.mean(error**2), {'seen': x.mean(), 'steps': state['steps'] + 1}

  def score(params, state, batch):
    error = batch[0] @ params['w'] + params['b'] - batch[1]
    worst = gj.whole_set(lambda error: np.abs(error).max(), error)
    return {'loss': jnp.mean(error**2), 'worst': worst, 'seen': state['seen']}

  init = lambda key: (
    {'w': jax.random.normal(key, (SIZE,)), 'b': jnp.zeros(())},
    {'seen': jnp.zeros(()), 'steps': jnp.int32(0)},
  )
  return gj.Task(init, loss, score, train, (X[:21], Y[:21]), stateful=True)


def config(strategy='topk', **given):
  found = defaults.get_config(strategy)
  if strategy == 'topk':
    found.strategy.density = 0.5
  found.update(
    workers=P, steps=6, log_every=3, eval_every=3, batch_size=8, accumulate=0
  )
  found.optimizer.update(learning_rate=0.02, momentum=0.5)
  found.update(given)
  return found


def records(task=None, store=None, interrupted=lambda: False, **given):
  run = resolve_run(config(**given), given=Overrides(task or line()))
  return list(train(run, store, interrupted))


SEVERAL = {'devices_per_worker': DEVICES}


def close(a, b):
  np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize('data', ['arrays', exhaustive('source')])
@pytest.mark.parametrize('strategy', ['topk', 'gossip'])
@pytest.mark.parametrize('inner', ['', 'fsdp'])
def test_training_on_several_devices_equals_training_on_one(
  strategy, inner, data
):
  task = line(train=Lazy()) if data == 'source' else line()
  if strategy == 'topk' and inner:
    pytest.skip('Its selection is made per shard, see tests/laws.')
  alone = records(task, strategy=strategy)[-1]
  found = records(task, strategy=strategy, inner=inner, **SEVERAL)[-1]
  close(found.train_loss, alone.train_loss)
  close(found.test_loss, alone.test_loss)
  close(found.consensus_distance, alone.consensus_distance)
  for name in ('test_worst', 'test_seen'):
    close(found.scores[name], alone.scores[name])
  assert alone.bytes_inner is None and alone.inner_s is None
  assert min(found.bytes_inner) > 0 and found.inner_s > 0
  # Each message is padded to a multiple of the number of devices.
  sent = np.array(found.bytes_sent) - alone.bytes_sent
  assert (sent >= 0).all() and (sent <= 8 * np.array(found.messages)).all()


@pytest.mark.exhaustive
def test_devices_draw_the_same_noise_as_micro_batches():
  noisy = line(noise=0.3)
  parts = records(noisy, accumulate=DEVICES)[-1]
  found = records(noisy, **SEVERAL)[-1]
  close(found.train_loss, parts.train_loss)
  close(found.test_loss, parts.test_loss)


@pytest.mark.exhaustive
@pytest.mark.parametrize('inner', ['', 'fsdp'])
def test_a_resumed_run_is_bit_exact(inner, tmp_path):
  given = dict(inner=inner, **SEVERAL)
  whole = records(**given)
  calls = itertools.count(1)
  with pytest.raises(Interrupted):
    records(
      store=Store(tmp_path), interrupted=lambda: next(calls) == 4, **given
    )
  last = records(store=Store(tmp_path), **given)[-1]
  for name in ('test_loss', 'bytes_sent', 'bytes_inner', 'inner_s', 'messages'):
    assert getattr(last, name) == getattr(whole[-1], name), name


@pytest.mark.exhaustive
def test_a_checkpoint_has_one_copy_of_parameters_per_worker(tmp_path):
  records(store=Store(tmp_path), **SEVERAL)
  run = resolve_run(config(**SEVERAL), given=Overrides(line()))
  like = LockStep(run, None, Meter(), lambda *_: None).state()[0]
  workers, _ = Store(tmp_path).load(like)
  assert workers.params['w'].shape == (P, SIZE)


def test_seconds_within_a_worker_follow_from_its_inner_link(tmp_path):
  slow = tmp_path / 'slow.json'
  slow.write_text(
    '{"latency_s": 0.5, "bytes_per_s": 1000.0, "full_duplex": false}'
  )
  *_, fast = records(strategy='all_reduce', **SEVERAL)
  run = resolve_run(
    config('all_reduce', inner_link=str(slow), **SEVERAL),
    given=Overrides(line()),
  )
  *_, found = train(run)
  assert found.bytes_inner == fast.bytes_inner
  # In each of 6 steps: rings of two devices for the gradient and for the state,
  # of 2 rounds each, and a round that joins the parts of the exchange.
  rounds = 6 * (2 + 2 + 1)
  sent = found.bytes_inner[0] / DEVICES
  # The seconds exclude what averages the state for an evaluation.
  assert found.inner_s == pytest.approx(rounds * 0.5 + 2 * sent / 1000)
  assert any(found.bytes_evaluation)
  assert fast.inner_s < 1e-3 < found.inner_s
  assert network.INNER == 'nvlink'


def test_tables_show_bytes_and_seconds_within_a_worker():
  given = config('all_reduce', **SEVERAL)
  variant = check('x', given, given=Overrides(line()))
  *_, last = train(variant.run)
  entry = summarise(variant, last)
  assert entry['most_frequent_label'] is None  # A regression has no labels.
  (row,) = table.rows(
    {'config': given.to_dict(), 'runs': [entry], 'commit': 'abc'}
  )
  assert row['sent within a worker per step'] == table.size(
    last.bytes_inner[0] / 6
  )
  assert row['communication within a worker on nvlink (model)'].endswith(' s')


REFUSED = {
  'a batch in unequal parts': (
    {'devices_per_worker': 3},
    'devices_per_worker=3.*batch_size=8',
  ),
  'a part in unequal micro-batches': (
    {'accumulate': 8, **SEVERAL},
    'accumulate=8.*batch_size=8 / config.devices_per_worker=2',
  ),
  'too many devices': (
    {'workers': 8, **SEVERAL},
    'workers=8 of devices_per_worker=2, devices=8',
  ),
  'shards of one device': ({'inner': 'fsdp'}, 'inner=fsdp.*several devices'),
  'a link of one device': ({'inner_link': '1gbe'}, 'inner_link=1gbe'),
  'an unknown link': ({'inner_link': '2gbe', **SEVERAL}, 'inner_link=2gbe'),
  'an unknown kind': ({'inner': 'zero', **SEVERAL}, 'inner=zero.*fsdp'),
  'pmap': ({'executor': 'pmap', **SEVERAL}, 'pmap.*shard_map'),
  'a negative number': ({'devices_per_worker': -1}, 'devices_per_worker=-1'),
}


@pytest.mark.parametrize('case', REFUSED)
def test_invalid_device_settings_are_refused(case):
  given, message = REFUSED[case]
  with pytest.raises(UserError, match=message):
    resolve_run(config('all_reduce', **given), given=Overrides(line()))


def test_virtual_time_refuses_several_devices_per_worker():
  given = config(**SEVERAL)
  given.cluster = defaults.cluster()
  with pytest.raises(UserError, match='virtual time'):
    resolve_run(given, given=Overrides(line()))


@pytest.mark.exhaustive
@pytest.mark.parametrize('warmup', [0, 1000])
@pytest.mark.parametrize(
  'name',
  [
    'lamb',
    'lars',
    'muon',
    'adafactor',
    'novograd',
    'fromage',
    'prodigy',
    'dog',
  ],
)
def test_shards_refuse_an_optimizer_that_needs_whole_tensors(name, warmup):
  """The model has a matrix, since muon updates vectors as adamw does."""
  given = config(inner='fsdp', **SEVERAL)
  given.optimizer = defaults.optimizer(name, 0.001, warmup_steps=warmup)
  params, state = line().begin(jax.random.key(0))
  params['matrix'] = jnp.zeros((3, 2))
  task = line()._replace(init=lambda key: (params, state))
  with pytest.raises(UserError, match=f'{name} needs whole tensors'):
    resolve_run(given, given=Overrides(task))


# The rate is zero at first, then below 1e-6 for some steps.
SLOW = optax.linear_schedule(0.0, 1e-3, 5000)


@pytest.mark.parametrize(
  'given',
  [
    optax.lamb(SLOW),
    optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(SLOW)),
    # Small gradients pass, and only large ones are clipped.
    optax.chain(optax.clip_by_global_norm(1e5), optax.adamw(1e-4)),
  ],
  ids=['lamb', 'clipped', 'rarely clipped'],
)
def test_whole_tensor_optimizers_with_small_or_rare_effect_are_refused(given):
  with pytest.raises(UserError, match='the optimizer needs whole tensors'):
    resolve_run(
      config(inner='fsdp', **SEVERAL), given=Overrides(line(), optimizer=given)
    )


@pytest.mark.parametrize('name', ['adamw', 'lion', 'sgd'])
def test_elementwise_optimizers_support_shards(name):
  given = config(inner='fsdp', **SEVERAL)
  given.optimizer = defaults.optimizer(name, 0.01, warmup_steps=100)
  assert resolve_run(given, given=Overrides(line())).inner.kind == 'fsdp'


def test_optimizers_are_probed_with_the_structure_of_the_model():
  """One that needs whole tensors may be meant for some of the tensors only."""
  labels = {'w': 'vector', 'b': 'scalar'}

  def run(of_vectors, of_scalars):
    parts = {'vector': of_vectors, 'scalar': of_scalars}
    given = Overrides(line(), optimizer=optax.multi_transform(parts, labels))
    return resolve_run(config(inner='fsdp', **SEVERAL), given=given)

  assert run(optax.sgd(0.1), optax.adamw(0.01)).inner.kind == 'fsdp'
  with pytest.raises(UserError, match='the optimizer needs whole tensors'):
    run(optax.lars(0.1), optax.sgd(0.1))


def test_shards_accept_optimizers_whose_first_updates_are_zero():
  slow = optax.MultiSteps(optax.adamw(SLOW), 4).gradient_transformation()
  given = Overrides(line(), optimizer=slow)
  run = resolve_run(config(inner='fsdp', **SEVERAL), given=given)
  assert run.inner.kind == 'fsdp'
