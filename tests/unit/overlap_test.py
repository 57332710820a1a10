"""Exchanges that overlap with computation do not change the results."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax.aggregator import chain, identity
from gossipjax.comparison import variant
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.strategies import all_reduce, delayed_averaging, gossip
from gossipjax.training import gradient_stages, overlap_slot
from gossipjax.training.checkpoint import Store
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train
from gossipjax.transforms.delayed import delayed
from tests.support import program
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')
LAYER = {'granularity': {'name': 'layer'}}
GRADIENTS = {
  'all_reduce': LAYER,
  'gtopk': LAYER | {'density': 0.3},
  'qsgd': {'granularity': {'name': 'bucket', 'bytes': 100}},
  'union_topk': LAYER | {'density': 0.3},
}
STRATEGIES = {
  'delayed_all_reduce': {'delay': 2},
  'delayed_averaging': {'period': 2, 'delay': 3},
  'delayed_gossip': {'delay': 2},
  'streaming_diloco': {'period': 4, 'delay': 2},
}
TIMES = {'wall_s', 'train_s', 'examples_per_s'}
# A task with a state: batch statistics and a step counter.
NORMED = 'tests.unit.model_state_test:normed'


def config(name, **given):
  found = defaults.get_config(name)
  # Not with GRADIENTS: the last bit could decide which entries they select.
  if name not in GRADIENTS:
    found.task = defaults.task(NORMED)
  found.update(workers=2, steps=12, batch_size=4, log_every=3, eval_every=0)
  found.strategy.update((STRATEGIES | GRADIENTS).get(name, {}))
  found.update(checkpoint_every=0, **given)
  return found


def trained(of, folder):
  """The records without times, and the arrays of the last checkpoint."""
  folder.mkdir(exist_ok=True)
  records = [
    {k: getattr(r, k) for k in r.__struct_fields__ if k not in TIMES}
    for r in train(resolve_run(of), Store(folder))
  ]
  return records, program.arrays(folder)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name',
  [
    name if name in ('delayed_averaging', 'all_reduce') else exhaustive(name)
    for name in STRATEGIES | GRADIENTS
  ],
)
def test_overlap_changes_no_byte_and_resuming_it_changes_no_bit(name, tmp_path):
  plain, without = trained(config(name), tmp_path / 'without')
  of = lambda **given: config(name, overlap=True, **given)
  overlapped, whole = trained(of(), tmp_path / 'whole')
  trained(of(steps=7), tmp_path / 'parts')  # Ends with exchanges in flight.
  _, resumed = trained(of(), tmp_path / 'parts')
  assert whole.keys() == resumed.keys() == without.keys() and len(whole) > 8
  for place, array in whole.items():
    assert array.tobytes() == resumed[place].tobytes(), place
    # XLA may round differently where it fuses operations of one program.
    np.testing.assert_allclose(array, without[place], rtol=1e-5, atol=1e-6)
  for key in ('bytes_sent', 'bytes_received', 'messages', 'exchanges'):
    assert [r[key] for r in plain] == [r[key] for r in overlapped]
  assert plain[-1]['comm_s'] == overlapped[-1]['comm_s']
  assert plain[-1]['hidden_s'] is None
  if name in GRADIENTS:  # Time hidden by gradient stages is not modelled.
    assert overlapped[-1]['hidden_s'] is None
    return
  for link, hidden in overlapped[-1]['hidden_s'].items():
    assert 0 < hidden < plain[-1]['comm_s'][link]


@pytest.mark.parametrize(
  'name, changes, words',
  [
    (
      'topk',
      {'strategy': {'granularity': {'name': 'model'}}},
      'topk waits for an exchange.*granularity.name=layer',
    ),
    ('delayed_averaging', {'strategy': {'delay': 0}}, r'strategy\.delay=1'),
    (
      'delayed_averaging',
      {'cluster': defaults.cluster(asynchronous=False)},
      'lock-step',
    ),
    ('delayed_averaging', {'devices_per_worker': 2}, 'one device'),
    ('delayed_averaging', {'state_period': 1}, r'config\.state_period=0'),
  ],
)
def test_a_run_that_cannot_overlap_is_refused_with_advice(name, changes, words):
  found = config(name, overlap=True)
  found.update(changes)
  with pytest.raises(UserError, match=words):
    resolve_run(found)


@pytest.mark.parametrize('name', resolve.STRATEGIES)
def test_a_refusal_advises_existing_settings_that_enable_overlap(name):
  found = defaults.get_config(name)
  found.update(workers=4, overlap=True)
  try:
    resolve_run(found)
  except UserError as error:
    advised = re.findall(r'strategy\.([a-z.]+)=(\w+)', str(error))
  else:
    return  # It overlaps as it is.
  assert bool(advised) == ('granularity' in found.strategy)
  found.update_from_flattened_dict({f'strategy.{k}': v for k, v in advised})
  if advised:
    assert resolve_run(found).overlap


@pytest.mark.parametrize(
  'changes',
  [
    {'accumulate': 2},  # One loop computes the gradients of all layers.
    {'strategy': {'granularity': {'name': 'bucket', 'bytes': 10**6}}},
  ],
)
def test_buckets_that_complete_at_the_same_time_are_refused(changes):
  found = config('all_reduce', overlap=True)
  found.update(changes)
  with pytest.raises(UserError, match='complete at the same time'):
    variant.check('cut', found)  # Before any variant is trained.


def test_stages_compute_the_last_layers_gradient_first_and_match_jax():
  weights = [jnp.eye(3) * w for w in (1.0, 2.0, 3.0)]

  def loss(weights, x):
    for w in weights:
      x = jnp.tanh(x @ w)
    return (x**2).sum()

  closed = jax.make_jaxpr(jax.value_and_grad(loss))(weights, jnp.ones(3))
  ready = [gradient_stages.ready(closed, [i]) for i in (1, 2, 3)]
  assert ready == sorted(ready, reverse=True) and len({*ready}) == 3
  found = gradient_stages.stages(closed, [[0, 3], [2], [1]])
  assert found[0].needs == [] and found[-1].makes == []
  kept, results = {}, []
  for stage, count in zip(found, (2, 1, 1), strict=True):
    of_stage = stage.run(*weights, jnp.ones(3), *(kept[v] for v in stage.needs))
    results += of_stage[:count]
    kept |= zip(stage.makes, of_stage[count:], strict=True)
  value, third, second, first = results
  expected, grads = jax.value_and_grad(loss)(weights, jnp.ones(3))
  for ours, theirs in zip(
    (value, first, second, third), (expected, *grads), strict=True
  ):
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_overlap_needs_a_late_exchange_that_is_the_only_one():
  late = delayed_averaging.strategy()
  assert overlap_slot.slot(late) == 'parameters'
  mean = all_reduce.exact_mean()
  assert overlap_slot.slot(late._replace(gradients=mean)) is None
  assert overlap_slot.slot(gossip.strategy()) is None
  of_gossip = delayed(gossip.strategy().parameters, 1)
  assert overlap_slot.slot(late._replace(parameters=of_gossip)) == 'parameters'
  # A chain does not expose its parts.
  both = chain(of_gossip, identity())
  assert overlap_slot.slot(late._replace(parameters=both)) is None
