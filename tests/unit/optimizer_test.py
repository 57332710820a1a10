"""Optimizers and schedules of optax by name, precision, micro-batches."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from ml_collections import ConfigDict

from gossipjax.commands import new_optimizer
from gossipjax.config import defaults, optimizers
from gossipjax.errors import UserError
from gossipjax.simulation import simulate
from gossipjax.training import momentum, optimizer
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train

pytestmark = pytest.mark.usefixtures('compile_quickly')

PARAMS = {'w': jnp.ones((8, 4)), 'b': jnp.ones(3)}
NEEDS_MORE = (  # The loss, another optimizer or per-example gradients.
  'dpsgd',
  'lbfgs',
  'momo',
  'momo_adam',
  'schedule_free',
  'sophia',
)
KNOWN = sorted(optimizers.known())


@pytest.mark.parametrize('name', [n for n in KNOWN if n not in NEEDS_MORE])
def test_every_optax_optimizer_is_made_by_name_and_keeps_shapes(name):
  tx = optimizer.make({'name': name, 'learning_rate': 0.1}, 10)
  step = lambda params: tx.update(params, tx.init(params), params)[0]
  updates = jax.eval_shape(step, PARAMS)
  assert jax.tree.map(jnp.shape, updates) == jax.tree.map(jnp.shape, PARAMS)


@pytest.mark.parametrize(
  'name, decay', [('adamw', 1e-4), ('lion', 1e-3), ('lamb', 0.0), ('sgd', 0.0)]
)
def test_a_config_file_has_the_optimizers_own_weight_decay(name, decay):
  config = defaults.optimizer(name, learning_rate=1.0)
  assert config.weight_decay == decay
  tx = optimizer.make(config, 10)
  params = jax.tree.map(lambda x: 1000 * x, PARAMS)
  zeros = jax.tree.map(jnp.zeros_like, params)
  updates = tx.update(zeros, tx.init(params), params)[0]
  np.testing.assert_allclose(updates['b'], -1000 * decay, rtol=1e-5)


def own_noise(learning_rate, seed: int = 4):
  return optax.noisy_sgd(learning_rate, key=seed)


@pytest.mark.parametrize(
  'given, own_seed',
  [
    ({'name': 'noisy_sgd'}, 0),
    ({'name': 'noisy_sgd', 'key': 2}, 2),
    ({'name': 'noisy_sgd', 'seed': 2}, 2),
    ({'name': f'{__name__}:own_noise'}, 4),
  ],
)
def test_the_runs_seed_is_added_to_the_seed_of_the_optimizer(given, own_seed):
  def noise(tx):
    return tx.update(PARAMS, tx.init(PARAMS), PARAMS)[0]['w']

  for seed in (0, 3):
    found = optimizer.make({'learning_rate': 0.1, **given}, 10, seed)
    by_hand = optax.noisy_sgd(0.1, key=own_seed + seed)
    np.testing.assert_array_equal(noise(found), noise(by_hand))
  config = defaults.get_config()
  config.update(seed=3, workers=2)
  config.optimizer = ConfigDict({'learning_rate': 0.1, **given})
  run = resolve_run(config)
  np.testing.assert_array_equal(noise(run.optimizer), noise(by_hand))


def test_muon_prodigy_and_schedule_free_are_known():
  assert {'muon', 'prodigy', 'schedule_free_adamw', 'adamw'} <= {*KNOWN}
  assert not [name for name in KNOWN if name.startswith('_')]


@pytest.mark.exhaustive
@pytest.mark.parametrize('virtual', [False, True])
def test_schedule_free_sgd_is_evaluated_at_its_average(virtual):
  config = defaults.get_config()
  config.optimizer = defaults.optimizer('schedule_free_sgd', 0.1)
  config.update(workers=2, steps=9, eval_every=9, log_every=9, executor='vmap')
  if virtual:
    config.cluster = defaults.cluster(asynchronous=False)
  run, kept = resolve_run(config), []
  *_, last = (
    simulate.simulate(run)
    if virtual
    else train(run, watch=lambda _, workers: kept.append(workers))
  )
  if virtual:
    config.cluster = {}
    list(train(resolve_run(config), watch=lambda _, w: kept.append(w)))
  worker = jax.tree.map(lambda x: x[0], kept[-1])
  (free,) = (s for s in worker.opt if hasattr(s, 'z'))
  by_hand = jax.tree.map(
    lambda y, z: (y - (1 - free.b1) * z) / free.b1, worker.params, free.z
  )
  score = lambda params: float(run.task.score(params, run.task.test)['loss'])
  np.testing.assert_allclose(last.test_loss, score(by_hand), rtol=1e-4)
  assert abs(score(worker.params) - score(by_hand)) > 1e-3 * score(by_hand)


@pytest.mark.parametrize('name', NEEDS_MORE)
def test_an_optimizer_that_needs_more_than_gradients_is_refused(name):
  with pytest.raises(UserError, match=r'optimizer\.'):
    optimizer.make({'name': name, 'learning_rate': 0.1}, 10)


@pytest.mark.parametrize(
  'chosen, by_hand',
  [
    ('exponential_decay', None),
    (
      {'name': 'exponential_decay', 'decay_rate': 0.5, 'transition_steps': 4},
      optax.exponential_decay(0.1, 4, 0.5),
    ),
    ('cosine_decay_schedule', optax.cosine_decay_schedule(0.1, 20)),
    ('cosine', optax.cosine_decay_schedule(0.1, 20)),
    (
      {'name': 'cosine', 'alpha': 0.3},
      optax.cosine_decay_schedule(0.1, 20, alpha=0.3),
    ),
    ({'name': 'constant', 'value': 0.3}, lambda step: 0.3),
    (
      {'name': 'piecewise', 'boundaries_and_scales': {5: 0.5}},
      optax.piecewise_constant_schedule(0.1, {5: 0.5}),
    ),
    (
      {'name': 'warmup_cosine_decay_schedule', 'warmup_steps': 5},
      optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 20),
    ),
    (
      {'name': 'linear_schedule', 'end_value': 0.0},
      optax.linear_schedule(0.1, 0.0, 20),
    ),
    ('constant_schedule', lambda step: 0.1),
    ('linear_onecycle_schedule', optax.linear_onecycle_schedule(20, 0.1)),
  ],
)
def test_schedules_of_optax_are_made_by_name(chosen, by_hand):
  if by_hand is None:
    with pytest.raises(UserError, match=r'schedule\.decay_rate is missing'):
      optimizer.schedule(0.1, 20, chosen)
    return
  found = optimizer.schedule(0.1, 20, chosen)
  for step in (0, 3, 10, 19):
    np.testing.assert_allclose(found(step), by_hand(step), rtol=1e-6)


def on_the_command_line(*words):
  rest, given = new_optimizer.take(['run', *words, '--config.steps=3'])
  assert rest == ['run', '--config.steps=3']
  config = defaults.get_config()
  config.optimizer.schedule = 'cosine'
  new_optimizer.put(config, given)
  return config.optimizer


@pytest.mark.parametrize(
  'chosen', ['constant', 'cosine', 'cosine_decay_schedule']
)
def test_boundaries_are_refused_unless_the_schedule_uses_them(chosen):
  given = {'learning_rate': 0.1, 'schedule': chosen, 'warmup_steps': 3}
  with pytest.raises(UserError, match=rf'\(5, 7\) are not used by .*{chosen}'):
    optimizer.rate(given | {'boundaries': (5, 7)}, 10)
  optimizer.rate(given | {'boundaries': ()}, 10)


def test_a_new_optimizer_on_the_command_line_has_its_own_arguments():
  found = on_the_command_line(
    '--config.optimizer.name=adamw',
    '--config.optimizer.b1=0.8',
    '--config.optimizer.learning_rate=0.003',
  )
  assert 'momentum' not in found and not found.nesterov  # AdamW's own flag.
  assert (found.name, found.b1, found.b2) == ('adamw', 0.8, 0.999)
  assert (found.learning_rate, found.schedule) == (0.003, 'cosine')
  assert found.weight_decay == 1e-4  # AdamW's default.
  optimizer.make(found, 10)
  same = on_the_command_line('--config.optimizer.name=sgd')
  assert same.momentum == 0.9
  scheduled = on_the_command_line(
    '--config.optimizer.name=muon',
    '--config.optimizer.schedule.name=exponential_decay',
    '--config.optimizer.schedule.decay_rate=0.5',
  )
  optimizer.make(scheduled, 10)


def own(learning_rate, clip: float = 1.0):
  return optax.chain(optax.clip_by_global_norm(clip), optax.sgd(learning_rate))


def test_the_command_line_sets_arguments_that_the_config_lacks():
  config = defaults.get_config()
  config.optimizer = defaults.optimizer(f'{__name__}:own', 0.1)
  assert 'clip' not in config.optimizer
  kept, given = new_optimizer.take(
    ['--config.optimizer.clip=0.5', '--config.optimizer.learning_rate=0.2']
  )
  assert kept == ['--config.optimizer.learning_rate=0.2']  # A common key.
  new_optimizer.put(config, given)
  assert (config.optimizer.clip, config.optimizer.learning_rate) == (0.5, 0.1)
  with pytest.raises(UserError, match="clap is unknown; did you mean 'clip'"):
    new_optimizer.put(config, {'clap': '1'})


def test_look_ahead_follows_the_optimizer_of_the_command_line():
  config = defaults.get_config('elastic')
  config.variants = defaults.variants('elastic', 'gossip', 'pull_gossip')
  config.variants.pull_gossip.strategy.look_ahead = 0.5  # Not the momentum.
  look_aheads = lambda: [
    config.strategy.look_ahead,
    config.variants.elastic.strategy.look_ahead,
    config.variants.pull_gossip.strategy.look_ahead,
  ]
  assert look_aheads() == [0.9, 0.9, 0.5]
  new_optimizer.put(config, {'momentum': '0.8'})
  assert look_aheads() == [0.8, 0.8, 0.5]
  new_optimizer.put(config, {'name': 'adam'})
  assert look_aheads() == [0.0, 0.0, 0.5]
  momentum.check(config.strategy, config.optimizer)
  with pytest.raises(
    UserError, match=r'variants\.VARIANT\.strategy\.look_ahead'
  ):
    momentum.check(config.variants.pull_gossip.strategy, config.optimizer)


def test_a_refused_look_ahead_comes_with_the_one_that_suits_the_optimizer():
  strategy = {'name': 'elastic', 'look_ahead': 0.9}
  sgd = {'name': 'sgd', 'nesterov': True, 'momentum': 0.5}
  for given, remedy in ((sgd, '0.5'), ({'name': 'adam'}, '0')):
    with pytest.raises(UserError, match=f'strategy.look_ahead={remedy},'):
      momentum.check(strategy, given)
    momentum.check(strategy | {'look_ahead': float(remedy)}, given)


def test_look_ahead_follows_only_in_variants_that_name_a_strategy():
  variants = ConfigDict({'a': {'strategy': {'period': 2}}, 'b': {}})
  variants.b = ConfigDict({'optimizer': {'learning_rate': 0.3}})
  variants.b.strategy = ConfigDict({'name': 'elastic', 'look_ahead': 0})
  config = defaults.get_config('elastic')
  config.optimizer.nesterov = False
  config.variants = variants
  new_optimizer.put(config, {'nesterov': 'true'})
  assert 'look_ahead' not in config.variants.a.strategy
  assert config.variants.b.strategy.look_ahead == 0.9
  new_optimizer.put(config, {'name': 'adam'}, follow=False)
  assert config.variants.b.strategy.look_ahead == 0.9


def test_the_command_line_sets_a_schedule_without_an_optimizer():
  found = on_the_command_line(
    '--config.optimizer.schedule.name=exponential_decay',
    '--config.optimizer.schedule.decay_rate=0.5',
  )
  assert (found.name, found.momentum) == ('sgd', 0.9)
  assert optimizer.rate(found, 10)(10) == pytest.approx(0.05)
  config = defaults.get_config()
  config.optimizer = found
  kept, of_optimizer = new_optimizer.take(
    ['--config.optimizer.schedule.decay_rate=0.1', '--config.steps=3']
  )
  new_optimizer.put(config, of_optimizer)
  assert kept == ['--config.steps=3']
  assert optimizer.rate(config.optimizer, 10)(10) == pytest.approx(0.01)
  config.optimizer = defaults.optimizer('sgd', 0.1, schedule='cosine')
  new_optimizer.put(config, {'schedule.alpha': '0.5'})
  assert optimizer.rate(config.optimizer, 10)(10) == pytest.approx(0.05)


@pytest.mark.parametrize('name', [n for n in KNOWN if n not in NEEDS_MORE])
def test_every_optimizer_can_be_chosen_on_the_command_line(name):
  words = (
    f'--config.optimizer.name={name}',
    '--config.optimizer.schedule=constant',
  )
  optimizer.make(on_the_command_line(*words), 10)


@pytest.mark.parametrize(
  'words, message',
  [
    (['--config.optimizer.name=sdg'], "did you mean 'sgd'"),
    (
      ['--config.optimizer.name=adamw', '--config.optimizer.momentum=0.9'],
      'momentum is unknown',
    ),
    (
      ['--config.optimizer.name=adamw', '--config.optimizer.b1=big'],
      'it takes float',
    ),
  ],
)
def test_a_mistake_on_the_command_line_ends_with_a_message(words, message):
  with pytest.raises(UserError, match=message):
    on_the_command_line(*words)


def test_the_error_shows_how_a_config_file_sets_another_optimizer():
  config = defaults.get_config()
  config.optimizer.name = 'adam'
  with pytest.raises(UserError, match='momentum is unknown to adam') as error:
    optimizer.make(config.optimizer, 10)
  assert "defaults.optimizer('adam', learning_rate=...)" in str(error.value)


def last_record(**given):
  config = defaults.get_config()
  config.update(workers=2, steps=4, log_every=4, eval_every=0, executor='vmap')
  config.update(given)
  return [*train(resolve_run(config))][-1]


@pytest.mark.exhaustive
def test_micro_batches_give_the_same_losses_and_bytes():
  whole, cut = last_record(), last_record(accumulate=4)
  np.testing.assert_allclose(whole.train_loss, cut.train_loss, rtol=1e-5)
  np.testing.assert_allclose(whole.test_loss, cut.test_loss, rtol=1e-5)
  assert whole.bytes_sent == cut.bytes_sent
  with pytest.raises(UserError, match='accumulate=3 has to divide'):
    last_record(accumulate=3)


@pytest.mark.exhaustive
def test_a_lower_precision_changes_losses_but_not_bytes():
  exact, low = last_record(), last_record(compute_dtype='bfloat16')
  assert exact.train_loss != low.train_loss
  np.testing.assert_allclose(exact.train_loss, low.train_loss, rtol=0.02)
  assert exact.bytes_sent == low.bytes_sent
  with pytest.raises(UserError, match='compute_dtype'):
    last_record(compute_dtype='bfloat')


def test_a_run_that_ends_before_its_schedule_reports_it():
  warning = lambda **given: optimizer.unreached(given, 20)
  assert warning(name='sgd') == warning(warmup_steps=19, boundaries=()) == ''
  late = warning(warmup_steps=20, boundaries=(10, 30))
  assert late == (
    'The 20 steps end before config.optimizer.warmup_steps=20 and '
    'config.optimizer.boundaries=(10, 30).'
  )


@pytest.mark.parametrize(
  'name', ['default', 'cifar10', 'fashion_mnist', 'text']
)
def test_every_config_runs_any_strategy_with_its_optimizer(name):
  get_config = importlib.import_module(f'configs.{name}').get_config
  for strategy in ('elastic', 'pull_gossip', 'push_gossip', 'dgc', 'demo'):
    config = get_config(strategy)
    momentum.check(config.strategy, config.optimizer)
