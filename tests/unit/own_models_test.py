"""Unchanged Flax models as tasks, and comparisons from Python."""

import inspect

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest
from flax import nnx

import gossipjax as gj
from gossipjax import compressors, executors
from gossipjax.comparison import compare, one_training
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.results import analysis
from gossipjax.training import evaluate

pytestmark = pytest.mark.usefixtures('compile_quickly')

X = np.random.default_rng(0).standard_normal((96, 4, 4, 1), np.float32) + 2
Y = (X.mean((1, 2, 3)) > 2).astype(np.int32)
DATA = {'train': (X[:64], Y[:64]), 'test': (X[64:], Y[64:])}
KEY = jax.random.key(0)


def loss(logits, y):
  return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


class Linen(nn.Module):
  """A dense layer, a batch norm, dropout, a dense layer."""

  rate: float = 0.5

  @nn.compact
  def __call__(self, x, train: bool):
    x = nn.Dense(8)(x.reshape(len(x), -1))
    x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
    return nn.Dense(2)(nn.Dropout(self.rate, deterministic=not train)(x))


class Nnx(nnx.Module):
  """The same model in NNX."""

  def __init__(self, rngs, rate=0.5):
    self.one = nnx.Linear(16, 8, rngs=rngs)
    self.norm = nnx.BatchNorm(8, momentum=0.9, rngs=rngs)
    self.dropout = nnx.Dropout(rate, rngs=rngs)
    self.two = nnx.Linear(8, 2, rngs=rngs)

  def __call__(self, x):
    x = self.norm(self.one(x.reshape(len(x), -1)))
    return self.two(self.dropout(x))


class Block(nnx.Module):
  def __init__(self, rngs):
    self.one = nnx.Linear(16, 16, rngs=rngs)
    self.dropout = nnx.Dropout(0.5, rngs=rngs)

  def __call__(self, x):
    return self.dropout(nnx.relu(self.one(x)))


class Scanned(nnx.Module):
  """Four layers with stacked weights, each with its own random key."""

  def __init__(self, rngs):
    make = nnx.vmap(lambda rngs: Block(rngs), axis_size=4)
    self.blocks = nnx.split_rngs(splits=4)(make)(rngs)
    self.two = nnx.Linear(16, 2, rngs=rngs)

  def __call__(self, x):
    run = nnx.scan(
      lambda x, block: block(x), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry
    )
    return self.two(run(x.reshape(len(x), -1), self.blocks))


def linen(rate=0.5):
  return gj.task_from_linen(Linen(rate), loss, **DATA)


def of_nnx(rate=0.5):
  return gj.task_from_nnx(lambda rngs: Nnx(rngs, rate), loss, **DATA)


@pytest.mark.parametrize('make', [linen, of_nnx])
def test_a_task_has_the_state_and_dropout_of_its_flax_model(make):
  task = make()
  assert task.stateful
  params, state = task.begin(KEY)
  assert sum(x.size for x in jax.tree.leaves(params)) == 16 * 8 + 8 + 16 + 18
  assert sum(x.size for x in jax.tree.leaves(state)) == 16
  batch = X[:32], Y[:32]
  one, after = task.training_loss(params, state, batch, KEY)
  again, _ = task.training_loss(params, state, batch, KEY)
  other, _ = task.training_loss(params, state, batch, jax.random.key(1))
  assert one == again != other  # Dropout depends on the key alone.
  means = [x for x in jax.tree.leaves(after) if (np.asarray(x) != 0).any()]
  assert means
  first, second = (task.scores(params, s, batch) for s in (state, after))
  assert first['loss'] != second['loss']


def test_the_dropout_of_scanned_layers_depends_on_the_key():
  task = gj.task_from_nnx(Scanned, loss, **DATA)
  begun = task.begin(KEY)
  at = lambda seed: task.training_loss(
    *begun, DATA['train'], jax.random.key(seed)
  )
  assert at(1)[0] == at(1)[0] != at(2)[0]


def test_linen_and_nnx_models_with_equal_weights_have_equal_losses():
  mine, theirs = linen(0.0), of_nnx(0.0)
  params, state = theirs.begin(KEY)
  like, stats = mine.begin(KEY)
  of = lambda layer, *names: {k: params[f'{layer}.{k}'] for k in names}
  same = {
    'Dense_0': of('one', 'kernel', 'bias'),
    'BatchNorm_0': of('norm', 'scale', 'bias'),
    'Dense_1': of('two', 'kernel', 'bias'),
  }
  assert jax.tree.structure(same) == jax.tree.structure(like)
  a, _ = mine.training_loss(same, stats, (X, Y), KEY)
  b, _ = theirs.training_loss(params, state, (X, Y), KEY)
  np.testing.assert_allclose(a, b, rtol=1e-5)


class Plain(nn.Module):
  """Has neither a training mode nor a state."""

  @nn.compact
  def __call__(self, x):
    return nn.Dense(2)(x.reshape(len(x), -1))


def test_a_model_without_a_state_makes_a_stateless_task():
  task = gj.task_from_linen(Plain(), loss, **DATA)
  assert not task.stateful
  assert jnp.isfinite(task.loss(task.init(KEY), (X, Y), KEY))


class Noisy(nn.Module):
  """Draws from its own random stream, `noise`, in training."""

  @nn.compact
  def __call__(self, x, train: bool):
    x = x.reshape(len(x), -1)
    if train:
      x = x + jax.random.normal(self.make_rng('noise'), x.shape)
    return nn.Dense(2)(x)


def test_a_linen_model_may_use_a_data_source_and_a_named_stream(
  tmp_path,
):
  np.savez(tmp_path / 'all.npz', x=X, y=Y)
  source = gj.npz(tmp_path / 'all.npz', ('x', 'y'))
  task = gj.task_from_linen(Noisy(), loss, train=source, test=source)
  params = task.init(KEY)
  of_key = lambda key: task.loss(params, (X, Y), key)
  assert of_key(KEY) == of_key(KEY) != of_key(jax.random.key(1))
  assert task.score(params, (X, Y))['loss'] != of_key(KEY)


@pytest.fixture(scope='module')
def result():
  return gj.compare(
    of_nnx(),
    {'all_reduce': gj.all_reduce(), 'few': gj.topk(density=0.1)},
    workers=2,
    steps=6,
    optimizer=optax.adamw(1e-2),
    batch_size=8,
    log_every=2,
    eval_every=3,
    audited=True,
  )


@pytest.mark.exhaustive
def test_a_comparison_from_python_saves_a_run_folder(result, tmp_path):
  assert {*result.frame['run']} == {'all_reduce', 'few'}
  assert result.frame['test_loss'].notna().sum() == 2 * 2
  assert '| few' in result.table and 'held-out loss' in result.table
  result.save(tmp_path / 'out')
  names = {p.name for p in (tmp_path / 'out').iterdir()}
  assert {'config.json', 'summary.json', 'report.html', 'few'} <= names
  assert (tmp_path / 'out' / 'few' / 'records.jsonl').stat().st_size
  with pytest.raises(UserError, match='exists'):
    result.save(tmp_path / 'out')


@pytest.mark.exhaustive
def test_every_run_of_a_comparison_from_python_is_audited(result):
  for run in result.summary['runs']:
    assert run['audit'] and run['parameters'] == 170


@pytest.mark.exhaustive
def test_a_resumed_comparison_gives_the_same_losses(tmp_path, monkeypatch):
  given = {
    'task': of_nnx(),
    'strategies': {'first': gj.all_reduce(), 'second': gj.topk(density=0.1)},
    'optimizer': optax.sgd(0.1),
    'workers': 2,
    'steps': 4,
    'batch_size': 8,
  }
  whole = gj.compare(**given)
  folder = tmp_path / 'run'
  with pytest.raises(UserError, match='resume=True needs the folder'):
    gj.compare(**given, folder=folder, resume=True)
  train = one_training.train

  def stopped(variant, *rest):
    if variant.name == 'second':
      raise KeyboardInterrupt
    return train(variant, *rest)

  monkeypatch.setattr(one_training, 'train', stopped)
  with pytest.raises(KeyboardInterrupt):
    gj.compare(**given, folder=folder)
  assert 'Ended by KeyboardInterrupt' in (folder / 'log.txt').read_text()
  monkeypatch.undo()
  with pytest.raises(UserError, match='resume=True'):
    gj.compare(**given, folder=folder)
  first = (folder / 'first/records.jsonl').read_bytes()
  found = gj.compare(**given, folder=folder, resume=True)
  assert (folder / 'first/records.jsonl').read_bytes() == first
  of = lambda result: [run['test_loss'] for run in result.summary['runs']]
  assert of(found) == of(whole)


@pytest.mark.exhaustive
def test_a_comparison_from_python_trains_as_its_config_does(tmp_path):
  shared = {'workers': 2, 'steps': 5, 'batch_size': 8, 'seed': 3}
  shared |= {'log_every': 1, 'eval_every': 2}
  density = 0.1
  config = defaults.get_config()
  config.update(shared)
  config.task = defaults.task(f'{__name__}:of_nnx')
  config.optimizer = defaults.optimizer('adamw', 0.01, weight_decay=0.1)
  config.variants = {
    name: {'strategy': {'name': name, 'density': density}}
    for name in ('topk', 'random_k')
  }
  compare.compare(config, tmp_path / 'run')
  found = gj.compare(
    of_nnx(),
    {'topk': gj.topk(density), 'random_k': gj.random_k(density)},
    optimizer=optax.adamw(0.01, weight_decay=0.1),
    **shared,
  ).frame
  wanted = analysis.load(tmp_path / 'run')
  columns = [x for x in found if x.startswith(('test_', 'train_loss', 'bytes'))]
  assert {'test_loss', 'train_loss', 'bytes_sent'} <= {*columns}
  assert len(found) == 2 * 5
  pd.testing.assert_frame_equal(found[columns], wanted[columns])


def test_a_comparison_from_python_records_the_arguments_of_its_strategies():
  made = gj.hierarchical(size=2, inner=gj.gossip(topology=gj.ring), outer='d2')
  assert made.config.size == 2 and made.config.inner.topology == 'ring'
  assert made.config.outer == 'd2'
  assert gj.elastic().config.look_ahead == 0
  assert gj.choco(compressor=compressors.sign()).config is None
  assert made._replace(state=None).config is None


@pytest.mark.exhaustive
def test_a_strategy_from_python_that_sent_nothing_is_reported():
  result = gj.compare(
    of_nnx(),
    {'all_reduce': gj.all_reduce(), 'rare': gj.diloco(period=np.int64(7))},
    workers=2,
    steps=2,
    optimizer=optax.sgd(0.1),
  )
  assert 'rare never exchanged in this run: its period of 7' in result.answer
  (run,) = (run for run in result.summary['runs'] if run['name'] == 'rare')
  assert run['strategy']['name'] == 'diloco'
  assert run['strategy']['period'] == 7


def linear(width=4, dtype=jnp.float32, keyed=False):
  """Two layers by hand; `keyed` adds a random key to the model's state."""

  def init(key):
    one, two = jax.random.split(key)
    params = {
      'one': 0.1 * jax.random.normal(one, (16, width), dtype),
      'two': 0.1 * jax.random.normal(two, (width, 2), dtype),
    }
    return (params, {'key': jax.random.key(3)}) if keyed else params

  def cross_entropy(params, batch):
    x = batch[0].reshape(len(batch[0]), -1).astype(dtype)
    return loss(jnp.tanh(x @ params['one']) @ params['two'], batch[1])

  if keyed:
    return gj.Task(
      init,
      lambda params, state, batch, key: (
        cross_entropy(params, batch)
        + 0 * jax.random.uniform(state['key'], dtype=dtype),
        {'key': jax.random.split(state['key'])[0]},
      ),
      lambda params, state, batch: {'loss': cross_entropy(params, batch)},
      **DATA,
      stateful=True,
    )
  return gj.Task(
    init,
    lambda params, batch, key: cross_entropy(params, batch),
    lambda params, batch: {'loss': cross_entropy(params, batch)},
    **DATA,
  )


def trained_for(steps, task, **given):
  return gj.compare(
    task,
    {'all_reduce': gj.all_reduce()},
    workers=2,
    steps=steps,
    batch_size=8,
    **{'optimizer': optax.adam(0.01), 'eval_every': 2} | given,
  )


@pytest.mark.exhaustive
def test_held_out_examples_may_be_a_frame_as_training_examples_may():
  frame = pd.DataFrame(X.reshape(96, -1))
  task = linear()._replace(
    train=(frame[:64], pd.Series(Y[:64])), test=(frame[64:], pd.Series(Y[64:]))
  )
  found, known = trained_for(2, task), trained_for(2, linear())
  for name in ('train_loss', 'test_loss'):
    assert found.frame[name].tolist() == known.frame[name].tolist()


def test_scores_of_few_examples_at_once_are_those_of_many(monkeypatch):
  task, called = linear(width=40), []
  # The largest arrays of an example: 40 and 2 numbers of four bytes.
  assert evaluate.largest_bytes(task) == 160
  begun = task.begin(KEY)
  where = executors.executor(2, 'vmap')
  many = evaluate.held_out_scorer(task, 2, where)(*begun)
  monkeypatch.setattr(evaluate, '_MOST_BYTES', 2 * 3 * 160)
  join = evaluate.metrics.joined
  monkeypatch.setattr(
    evaluate.metrics,
    'joined',
    lambda parts, total: called.append(len(parts)) or join(parts, total),
  )
  few = evaluate.held_out_scorer(task, 2, where)(*begun)
  assert called == [6]  # 32 examples, three for each of two workers.
  assert few['loss'] == pytest.approx(many['loss'], rel=1e-6)


@pytest.mark.exhaustive
def test_buckets_overlap_though_a_parameter_is_not_used():
  """The gradient of a scalar that the loss ignores is a constant."""
  task, given = linear(), {'granularity': {'name': 'layer'}}
  unused = task._replace(
    init=lambda key: task.init(key) | {'unused': jnp.zeros(())}
  )
  losses = [
    gj.compare(
      unused,
      {'all_reduce': gj.all_reduce(**given)},
      optimizer=optax.sgd(0.1),
      workers=2,
      steps=2,
      batch_size=8,
      overlap=overlap,
    ).frame['test_loss']
    for overlap in (False, True)
  ]
  assert losses[0].tolist() == losses[1].tolist()


@pytest.mark.exhaustive
def test_a_model_may_begin_with_numbers_of_python():
  task = linear()
  scaled = task._replace(
    init=lambda key: task.init(key) | {'scale': 1.0},
    loss=lambda params, batch, key: (
      params['scale'] * task.loss(params, batch, key)
    ),
  )
  assert trained_for(2, scaled).frame['test_loss'].notna().any()


@pytest.mark.exhaustive
def test_the_label_all_reduce_sets_the_target_in_python():
  """Whichever strategy has it, and else the first one."""
  compared = lambda **strategies: (
    gj.compare(
      linear(), strategies, workers=2, steps=2, optimizer=optax.sgd(0.1)
    ).answer
  )
  gossip, local = gj.gossip(), gj.local_sgd(period=1)
  found = compared(first=gossip, all_reduce=local)
  assert 'the best of all_reduce' in found
  found = compared(first=gossip, plain=gj.all_reduce())
  assert 'the best of first' in found


@pytest.mark.exhaustive
def test_a_mean_of_losses_in_bfloat16_is_accepted_as_a_mean():
  result = trained_for(2, linear(dtype=jnp.bfloat16))
  assert result.frame['test_loss'].notna().any()


@pytest.mark.exhaustive
def test_a_model_of_another_width_is_refused_before_anything_is_written(
  tmp_path,
):
  folder = tmp_path / 'run'
  trained_for(2, linear(), folder=folder)
  files = lambda: {
    path: path.read_bytes()
    for path in folder.rglob('*')
    if path.is_file() and path.name[0] != '.'
  }
  before = files()
  with pytest.raises(UserError, match=r'one float32\[2, 16, 4\].* in place of'):
    trained_for(4, linear(5), folder=folder, resume=True)
  assert files() == before


@pytest.mark.exhaustive
@pytest.mark.parametrize('devices', [0, 2])
def test_random_keys_in_a_state_are_kept_when_a_run_is_resumed(
  tmp_path, devices
):
  """Of the model, and of the optimizer, whose noise depends on its key."""
  noisy = optax.noisy_sgd(0.1, key=jax.random.key(5))
  given = {'optimizer': noisy, 'devices_per_worker': devices}
  of = lambda result: result.frame['test_loss'].dropna().tolist()
  whole = of(trained_for(4, linear(keyed=True), **given))
  given['folder'] = tmp_path / 'run'
  trained_for(2, linear(keyed=True), **given)
  resumed = trained_for(4, linear(keyed=True), **given, resume=True)
  assert of(resumed) == whole and len({*whole}) == 2


def has_look_ahead(name):
  return 'look_ahead' in resolve.strategy_config(name)


def test_strategies_in_python_have_a_look_ahead_of_0_by_default():
  ahead = [n for n in resolve.STRATEGIES if has_look_ahead(n)]
  for name in ahead:
    known = inspect.signature(getattr(gj, name)).parameters
    assert known['look_ahead'].default == 0.0
  with pytest.raises(AttributeError, match='gosip'):
    gj.gosip()


@pytest.mark.exhaustive
def test_compare_takes_keys_of_a_config_and_refuses_wrong_ones():
  given = {'optimizer': optax.sgd(0.1), 'workers': 2, 'steps': 2}
  with pytest.raises(UserError, match='no setting'):
    gj.compare(linen(), {'a': gj.all_reduce()}, **given, evalevery=3)
  mine = {'a': gj.all_reduce()}
  for task, strategies, changes, words in (
    (linen(), {}, {}, 'needs a strategy'),
    (linen(), gj.topk(), {}, 'needs a strategy'),
    (linen(), {'a.b': gj.topk()}, {}, "variant name 'a.b' is not allowed"),
    (linen(), {'a': 'topk'}, {}, "strategy 'a' is 'topk'"),
    (linen, mine, {}, 'task is function'),
    (linen(), mine, {'optimizer': 'adam'}, "optimizer is 'adam'"),
    (linen(), mine, {'workers': 2.5}, r'workers=2\.5 .* takes int'),
    (linen(), mine, {'split': 'label'}, 'split=.* takes dict'),
    (linen(), mine, {'group_link': '10gbe'}, 'is used by no variant'),
    (linen(), mine, {'split': {'nam': 'label'}}, "no key 'nam'.*'name'"),
    (linen(), mine, {'optimizer': optax.lbfgs()}, 'needs more than gradients'),
  ):
    with pytest.raises(UserError, match=words):
      gj.compare(task, strategies, **given | changes)
  virtual = gj.compare(
    linen(),
    {'met': gj.pairwise_gossip()},
    **given,
    split={'name': 'label'},
    cluster={'step_s': 0.5},
    seeds=(3, 5),
  )
  assert virtual.frame['virtual_s'].iloc[-1] > 0.9
  assert {*virtual.frame['seed']} == {3, 5}
  assert '±' in virtual.table


@pytest.mark.parametrize(
  'workers, words',
  [
    (1, 'workers=1, devices=8; set workers=2 or more'),
    (9, r'call gossipjax\.executors\.emulate\(9\) before JAX starts'),
  ],
)
def test_an_impossible_audit_is_refused_before_training(
  workers, words, tmp_path
):
  with pytest.raises(UserError, match=words):
    gj.compare(
      linen(),
      {'a': gj.all_reduce()},
      optimizer=optax.sgd(0.1),
      workers=workers,
      steps=2,
      batch_size=1,
      folder=tmp_path / 'run',
      audited=True,
    )
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize(
  'settings, words',
  [
    ({'seeds': 3}, 'seeds=3 has the wrong type; it takes tuple of int'),
    ({'seed': 1, 'seeds': (2, 3)}, 'seed=1 has no effect beside'),
    ({'link': 5}, 'link=5 .* takes str or dict'),
    ({'target_score': 3}, 'target_score=3 .* takes str'),
    ({'target': 'x'}, "target='x' .* takes float or int"),
    ({'steps': True}, 'steps=True .* takes int'),
    ({'log': 3}, 'log=3 .* takes dict'),
    ({'folder': 3}, 'the folder is 3; it has to be a path'),
  ],
)
def test_a_wrong_setting_of_compare_ends_with_an_error_message(settings, words):
  with pytest.raises(UserError, match=f'compare: {words}'):
    gj.compare(
      linen(), {'a': gj.all_reduce()}, optimizer=optax.sgd(0.1), **settings
    )


@pytest.mark.parametrize(
  'make, words',
  [
    (lambda: gj.topk(density='x'), "gj.topk.density='x' .* takes float"),
    (lambda: gj.topk('x'), "gj.topk.density='x' .* takes float"),
    (lambda: gj.topk(denisty=1), "gj.topk.denisty .* mean 'density'"),
    (lambda: gj.gossip(topology='rnig'), "topology=rnig .* mean 'ring'"),
    (
      lambda: gj.gossip(topology=gj.random_matching),
      r'topology is the function random_matching; .*=random_matching\(',
    ),
    (lambda: gj.gossip(gj.ring, 1, 2), 'takes topology, period, each once'),
    (lambda: gj.local_sgd(period=2.5), 'period=2.5 .* takes int'),
  ],
)
def test_a_wrong_argument_of_a_strategy_ends_with_a_message(make, words):
  with pytest.raises(UserError, match=words):
    make()


def test_a_strategy_in_python_takes_part_names_and_numpy_numbers():
  by_name = gj.gossip(topology='ring', period=np.int64(1))
  by_value = gj.gossip(topology=gj.ring, period=1)
  tree = jnp.arange(12.0).reshape(4, 3)

  def exchanged(strategy):
    mean = executors.on_one_device(strategy.parameters.update)
    state = jax.vmap(strategy.parameters.init)(tree)
    return mean(tree, state, step=jnp.int32(0))[0]

  np.testing.assert_array_equal(exchanged(by_name), exchanged(by_value))
  assert np.ptp(exchanged(by_name)) < np.ptp(tree)
  assert gj.topk(density=np.float32(0.5))


def three(make):
  """A task whose examples are no pair."""
  return make(train=(X[:64], Y[:64], Y[:64]), test=(X[64:], Y[64:], Y[64:]))


class Faulty(nn.Module):
  """Its call takes the inputs, and has a fault of its own."""

  @nn.compact
  def __call__(self, x):
    return nn.Dense(2)(x) + len(3)


class Pair(nn.Module):
  """Its call takes more than the inputs."""

  @nn.compact
  def __call__(self, x, targets):
    return nn.Dense(2)(x) + targets


class Synchronised(nn.Module):
  """Averages its batch statistics over the devices of an axis."""

  @nn.compact
  def __call__(self, x, train: bool):
    x = nn.Dense(2)(x.reshape(len(x), -1))
    return nn.BatchNorm(use_running_average=not train, axis_name='batch')(x)


class Switched(nn.Module):
  """A field, not an argument of the call, switches dropout off."""

  deterministic: bool = False

  @nn.compact
  def __call__(self, x):
    x = nn.Dense(2)(x.reshape(len(x), -1))
    return nn.Dropout(0.1, deterministic=self.deterministic)(x)


def compared(task):
  return gj.compare(
    task, {'a': gj.all_reduce()}, optimizer=optax.sgd(0.1), workers=2, steps=1
  )


@pytest.mark.parametrize(
  'make, words',
  [
    (
      lambda: gj.task_from_nnx(Nnx(nnx.Rngs(0)), loss, **DATA),
      'an object of type Nnx; give its class',
    ),
    (
      lambda: gj.task_from_nnx(lambda rngs: None, loss, **DATA),
      'an object of type NoneType; give its class',
    ),
    (
      lambda: gj.task_from_nnx(lambda rngs: Nnx(), loss, **DATA),
      'makes the model raises TypeError',
    ),
    (
      lambda: gj.task_from_linen(Linen, loss, **DATA),
      'the class Linen; give Net',
    ),
    (
      lambda: gj.task_from_linen(Pair(), loss, **DATA),
      "argument: 'targets'.*one positional argument.*Wrap it in a module",
    ),
    (
      lambda: three(lambda **data: gj.task_from_linen(Linen(), loss, **data)),
      r'train has to be a pair \(inputs, targets\)',
    ),
    (
      lambda: three(lambda **data: gj.task_from_nnx(Nnx, loss, **data)),
      r'train has to be a pair \(inputs, targets\)',
    ),
    (
      lambda: gj.task_from_linen(Faulty(), loss, **DATA),
      "the model raises TypeError: object of type 'int' has no len",
    ),
    (
      lambda: compared(gj.task_from_linen(Synchronised(), loss, **DATA)),
      "averages over the axis 'batch', and there is none",
    ),
    (
      lambda: compared(gj.task_from_linen(Switched(), loss, **DATA)),
      'in evaluation a model gets no random numbers',
    ),
  ],
)
def test_an_unsupported_model_ends_with_an_error_message(make, words):
  with pytest.raises(UserError, match=words):
    make()
