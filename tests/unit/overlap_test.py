"""Exchanges beside computing find what an exchange within its step finds."""

import numpy as np
import pytest

from gossipjax.aggregator import chain, identity
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.strategies import all_reduce, delayed_averaging, gossip
from gossipjax.training import late_slot
from gossipjax.training.checkpoint import Store
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train
from gossipjax.transforms.delayed import delayed
from tests.support import program

pytestmark = pytest.mark.usefixtures('compile_quickly')
STRATEGIES = {
  'delayed_all_reduce': {'delay': 2},
  'delayed_averaging': {'period': 2, 'delay': 3},
  'delayed_gossip': {'delay': 2},
  'streaming_diloco': {'period': 4, 'delay': 2},
}
TIMES = {'wall_s', 'train_s', 'examples_per_s'}
# Has a state: batch statistics, and a number of steps.
NORMED = 'tests.unit.model_state_test:normed'


def config(name, **given):
  found = defaults.get_config(name)
  found.task = defaults.task(NORMED)
  found.update(workers=2, steps=12, batch_size=4, log_every=3, eval_every=0)
  found.strategy.update(STRATEGIES.get(name, {}))
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


@pytest.mark.parametrize('name', STRATEGIES)
def test_overlap_changes_no_byte_and_a_stop_in_it_no_bit(name, tmp_path):
  plain, without = trained(config(name), tmp_path / 'without')
  of = lambda **given: config(name, overlap=True, **given)
  beside, whole = trained(of(), tmp_path / 'whole')
  trained(of(steps=7), tmp_path / 'parts')  # With exchanges in flight.
  _, found = trained(of(), tmp_path / 'parts')
  assert whole.keys() == found.keys() == without.keys() and len(whole) > 8
  for place, array in whole.items():
    assert array.tobytes() == found[place].tobytes(), place
    # XLA may round otherwise where it fuses what is one program.
    np.testing.assert_allclose(array, without[place], rtol=1e-5, atol=1e-6)
  for key in ('bytes_sent', 'bytes_received', 'messages', 'exchanges'):
    assert [r[key] for r in plain] == [r[key] for r in beside]
  assert plain[-1]['comm_s'] == beside[-1]['comm_s']
  assert plain[-1]['hidden_s'] is None
  for link, hidden in beside[-1]['hidden_s'].items():
    assert 0 < hidden < plain[-1]['comm_s'][link]


@pytest.mark.parametrize(
  'name, changes, words',
  [
    ('all_reduce', {}, 'all_reduce waits for an exchange'),
    ('delayed_averaging', {'strategy': {'delay': 0}}, 'at least 1 step'),
    (
      'delayed_averaging',
      {'cluster': defaults.cluster(asynchronous=False)},
      'lock-step',
    ),
    ('delayed_averaging', {'devices_per_worker': 2}, 'one device'),
    ('delayed_averaging', {'state_period': 1}, 'waits for an exchange'),
  ],
)
def test_what_cannot_overlap_is_refused_with_a_sentence(name, changes, words):
  found = config(name, overlap=True)
  found.update(changes)
  with pytest.raises(UserError, match=words):
    resolve_run(found)


def test_the_only_exchange_of_a_strategy_is_the_late_one():
  late = delayed_averaging.strategy()
  assert late_slot.slot(late) == 'parameters'
  mean = all_reduce.exact_mean()
  assert late_slot.slot(late._replace(gradients=mean)) is None
  assert late_slot.slot(gossip.strategy()) is None
  of_gossip = delayed(gossip.strategy().parameters, 1)
  assert late_slot.slot(late._replace(parameters=of_gossip)) == 'parameters'
  # Nobody knows the parts of a chain.
  both = chain(of_gossip, identity())
  assert late_slot.slot(late._replace(parameters=both)) is None
