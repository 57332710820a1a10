"""Every number of every config has a range, and its default lies in it."""

import json
import math

import pytest
from ml_collections import ConfigDict

from gossipjax.config import defaults, ranges, resolve
from gossipjax.config.variants import variants
from gossipjax.errors import UserError
from gossipjax.training import run


def numbers(config, path=''):
  """The dotted keys of a config that take a number, and their values."""
  for key in config:
    value = config[key]
    if isinstance(value, ConfigDict):
      yield from numbers(value, f'{path}{key}.')
    elif value is None and config.get_type(key) in (int, float):
      yield f'{path}{key}', ()
    elif isinstance(value, int | float | tuple) and not isinstance(value, bool):
      yield f'{path}{key}', value


def configs():
  """Yields (name, config): the defaults, each strategy, three of the tasks."""
  whole = defaults.get_config()
  whole.cluster = defaults.cluster()
  yield 'defaults', whole
  for name in resolve.STRATEGIES:
    yield name, ConfigDict({'strategy': resolve.strategy_config(name)})
  for name in ('digits', 'cifar10', 'text'):
    yield name, ConfigDict({'task': defaults.task(name)})


KEYS = dict(item for _, config in configs() for item in numbers(config))


@pytest.mark.parametrize('key', sorted(KEYS))
def test_a_number_has_a_declared_range_that_contains_its_default(key):
  assert key in ranges.RANGES or key.split('.')[-1] in ranges.RANGES, (
    f'{key} has no range; declare it in config/ranges.py.'
  )
  ranges.check({key: KEYS[key]})


@pytest.mark.parametrize('key', sorted(KEYS))
def test_no_key_accepts_nan_minus_infinity_or_a_huge_integer(key):
  for number in (math.nan, 10**400, -(10**400), -math.inf):
    with pytest.raises(UserError, match=f'config.{key}='):
      ranges.check({key: number})


@pytest.mark.parametrize(
  'key, number',
  [
    ('cluster.latency_s', math.inf),
    ('cluster.step_s', math.inf),
    ('cluster.timeout_s', math.inf),
    ('cluster.factors', (1.0, math.inf)),
    ('strategy.threshold', math.nan),
    ('strategy.weight', math.nan),
    ('strategy.stepsize', -3.0),
    ('optimizer.momentum', 5.0),
    ('optimizer.warmup_steps', -5),
    ('optimizer.learning_rate', 1e308),
    ('seed', -1),
    ('task.mine', math.inf),
  ],
)
def test_numbers_that_prevent_or_spoil_training_are_refused(key, number):
  outer, _, inner = key.rpartition('.')
  config = {outer: {inner: number}} if outer else {inner: number}
  with pytest.raises(UserError, match=f'config.{key}='):
    ranges.check(config)


def test_alpha_may_be_0_in_a_schedule_or_a_strategy_but_not_in_a_split():
  ranges.check({'optimizer': {'schedule': {'alpha': 0.0}}})
  ranges.check({'strategy': {'name': 'streaming_diloco', 'alpha': 0.0}})
  with pytest.raises(UserError, match=r'split\.alpha'):
    ranges.check({'split': {'alpha': 0.0}})


def test_keys_missing_from_an_older_config_are_added_at_any_depth():
  config = defaults.get_config('topk')
  config.cluster = defaults.cluster()
  config.variants = defaults.variants(a='gtopk')
  whole = json.loads(config.to_json())
  older = json.loads(config.to_json())
  for part, key in (
    (older, 'accumulate'),
    (older['split'], 'shards'),
    (older['strategy'], 'warmup'),
    (older['strategy']['granularity'], 'number'),
    (older['task'], 'whiten'),
    (older['cluster'], 'shards'),
    (older['variants']['a']['strategy'], 'density'),
  ):
    del part[key]
  assert defaults.filled(older) == defaults.filled(whole) == whole


def test_keys_of_a_user_function_have_no_listed_range_unless_nested():
  mine = {'name': 'my_tasks:line', 'size': 100_000, 'weight': -1.0}
  ranges.check({'task': mine, 'variants': {'a': {'strategy': mine}}})
  with pytest.raises(UserError, match=r'task\.weight=-1\.0 is out of range'):
    ranges.check({'task': {'name': 'line', 'weight': -1.0}})
  inside = {'name': 'my_strategies:mine', 'compressor': {'density': 7.0}}
  with pytest.raises(UserError, match=r'compressor\.density=7\.0 is out'):
    ranges.check({'strategy': inside})


def test_the_error_message_has_the_range_and_its_unit():
  with pytest.raises(
    UserError,
    match=r'config\.split\.validation=1\.0 .* above 0 and below 1 \(a share\)',
  ):
    ranges.check({'split': {'validation': 1.0}})


@pytest.mark.parametrize(
  'steps, limit',
  [
    (0, r'at least 1 \(steps\)'),
    (2**31, r'at least 1 and at most 2147483647 \(steps\)'),
  ],
)
def test_the_error_message_has_the_limit_that_a_number_violates(steps, limit):
  with pytest.raises(UserError, match=rf'must be {limit}\.$'):
    ranges.check({'steps': steps})


def test_a_target_of_nan_is_not_attributed_to_a_variant():
  config = defaults.get_config()
  config.target = float('nan')
  config.variants = defaults.variants('topk')
  with pytest.raises(UserError, match=r'^config\.target=nan is out of range'):
    list(variants(config))


@pytest.mark.parametrize('key', ['link', 'group_link'])
def test_all_variants_of_a_comparison_use_one_link(key):
  config = defaults.get_config()
  config.variants = {'near': {}, 'far': {key: 'wan'}}
  with pytest.raises(UserError, match=rf'variants\.far\.{key}.*one {key}'):
    list(variants(config))


def test_a_variant_may_have_a_cluster_if_the_config_has_none():
  config = defaults.get_config()
  config.workers, config.executor = 2, 'vmap'
  machines = defaults.cluster(step_s=0.1, asynchronous=False)
  config.variants = {'virtual': {'cluster': machines}}
  ((_, found),) = variants(config)
  assert run.resolve_run(found).cluster.step_s == 0.1
  config.variants.virtual = {'cluster': {'step_seconds': 0.1}}
  ((_, wrong),) = variants(config)
  with pytest.raises(UserError, match=r'cluster.step_seconds is unknown'):
    run.resolve_run(wrong)


@pytest.mark.parametrize(
  'key, value', [('cluster', {'step_s': 0.1}), ('engine', 'ray')]
)
def test_variants_must_all_obtain_their_seconds_in_the_same_way(key, value):
  config = defaults.get_config()
  config.variants = {'a': {}, 'b': {key: value}}
  with pytest.raises(UserError, match=rf'b and a: only one has .*\.{key}'):
    list(variants(config))


def test_arguments_of_functions_of_one_s_own_have_no_range():
  own = {'name': 'mine:f', 'decay': 2.0, 'rate': -1.0}
  ranges.check({'optimizer': own | {'schedule': own}, 'strategy': own})
  for key in ('learning_rate', 'warmup_steps', 'boundaries', 'weight_decay'):
    with pytest.raises(UserError, match=rf'optimizer\.{key}'):
      ranges.check({'optimizer': own | {key: -1}})
  with pytest.raises(UserError, match=r'schedule\.decay'):
    ranges.check({'optimizer': {'schedule': own | {'name': 'exponential'}}})
