"""The contract that every strategy keeps; new files are tested automatically.

Exceptions are detected (a strategy refuses absent workers, or uses a server),
declared in the strategy's file as NOT_CONSERVED, or listed in one of the small
tables below.
"""

import contextlib
import functools
import importlib
import inspect
import math
import pkgutil

import jax.numpy as jnp
import pytest

from gossipjax import compressors, strategies, topology
from gossipjax.aggregator import Aggregator, chain, every
from gossipjax.compressors.selections import blockwise, reused
from gossipjax.errors import UserError
from gossipjax.strategies import (
  all_reduce,
  compressed,
  gossip,
  gtopk,
  qsgd,
  sparta,
)
from gossipjax.transforms import granularity, warmup
from gossipjax.transforms.delayed import stale
from gossipjax.transforms.groups import among, consecutive_groups
from tests.support import laws
from tests.support.tiers import exhaustive

# Methods that break a law by design, and how: strict expected failures. Those
# whose file declares NOT_CONSERVED = {slot: how} are added below.
LEAKS = {
  'dgc.gradients': 'Sums velocities, to which momentum adds.',
  'gtopk.gradients': 'What one subtree drops and another keeps is forgotten.',
  'qsgd(terngrad)': 'Rounding errors cancel on average only.',
  'gtopk(butterfly)': 'As published, with fewer rounds: see gtopk.',
}
ONE_SIDED = {
  'pull_gossip.parameters': 'Others read what an absent worker published.',
  'push_gossip.parameters': 'Messages reach absent workers.',
}
# Strategies whose memory changes while a worker is absent, and why.
SHARED = {
  'sparta(partition)': 'The order of the entries depends on the step alone.',
}
# Gradient strategies whose replicas differ by design, and why.
DIVERGE: dict[str, str] = {}
# Arguments that a compressor requires, here with error feedback.
NEEDED = {'qsgd': {'bucket': 32}, 'threshold': {'threshold': 3.0}}


FILES = {
  m.name: importlib.import_module(f'gossipjax.strategies.{m.name}')
  for m in pkgutil.iter_modules(strategies.__path__)
}
LEAKS |= {
  f'{name}.{slot}': how
  for name, file in FILES.items()
  for slot, how in getattr(file, 'NOT_CONSERVED', {}).items()
}


def is_identity(aggregator: Aggregator) -> bool:
  """Whether it returns even a string unchanged, and without any workers."""
  with contextlib.suppress(Exception):
    return aggregator.update('tree', (), 0)[0] == 'tree'
  return False


def topologies():
  """Every graph in topology.py, by name."""
  for name, function in inspect.getmembers(topology, inspect.isfunction):
    kind = inspect.signature(function).return_annotation
    if kind == topology.Topology:  # Made from a seed and the like.
      yield name, function()
    elif kind == tuple[topology.Round, ...] and name[0] != '_':
      yield name, function


# Every file's strategy, with its defaults.
STRATEGIES = {name: file.strategy() for name, file in FILES.items()}
GOSSIP = {f'gossip({name})': graph for name, graph in topologies()}
AGGREGATORS = (
  {
    f'{name}.{slot}': aggregator
    for name, strategy in STRATEGIES.items()
    for slot in ('gradients', 'parameters')
    if not is_identity(aggregator := getattr(strategy, slot))
  }
  | {name: gossip.neighbor_mean(graph) for name, graph in GOSSIP.items()}
  | {
    f'compressed({name})': compressed.compressed_mean(codec)
    for name in compressors.__all__
    if name[0].islower()
    if not (codec := getattr(compressors, name)(**NEEDED.get(name, {}))).expands
  }
  | {
    'qsgd(terngrad)': qsgd.strategy(compressors.terngrad()).gradients,
    'compressed(reused)': compressed.compressed_mean(
      compressors.topk(0.01, reused.selection(2))
    ),
    'compressed(blockwise)': compressed.compressed_mean(
      compressors.topk(0.01, blockwise.selection(), 'bfloat16')
    ),
    'compressed(by layer)': compressed.strategy(
      compressors.topk(0.1), granularity=granularity.layer()
    ).gradients,
  }
  | {
    'every(2, gossip)': every(2, gossip.neighbor_mean(topology.exponential)),
    'chain(gossip, every(2, mean))': chain(
      gossip.neighbor_mean(topology.ring), every(2, all_reduce.exact_mean())
    ),
    'sparta(partition)': sparta.sampled_mean(0.3, 0, partition=True),
    'stale(compressed)': stale(
      compressed.compressed_mean(compressors.topk(0.1)), 1
    ),
    'among(pairs, compressed)': among(
      consecutive_groups(2), compressed.compressed_mean(compressors.topk(0.1))
    ),
    'gtopk(conserve)': gtopk.global_topk_mean(0.01, conserve=True),
    'gtopk(conserve, warmup)': gtopk.strategy(
      0.01, conserve=True, warmup=warmup.stages((0.1,), 2)
    ).gradients,
    'gtopk(butterfly)': gtopk.global_topk_mean(0.01, exchange='butterfly'),
    'gtopk(conserve, butterfly)': gtopk.global_topk_mean(
      0.01, conserve=True, exchange='butterfly'
    ),
  }
)
SYNCHRONOUS = {
  name: strategy
  for name, strategy in STRATEGIES.items()
  if is_identity(strategy.parameters) and name not in DIVERGE
}

OF_GRADIENTS = [
  name
  for name in AGGREGATORS
  if name.endswith('.gradients')
  or name.startswith(('compressed(', 'gtopk(', 'stale(', 'among('))
]
# These send entries drawn at random, so that a given entry may have to wait.
DRAWN = ('random_k.gradients', 'compressed(random_k)')

# Expensive tests leave out the variants of `compressed` and `gossip`.
CORE = [
  name
  for name in AGGREGATORS
  if not name.startswith(('compressed(', 'gossip('))
]


def strategies_first(names):
  """Names for a test that compiles; all are exhaustive but those of a file's
  own strategy, such as gtopk.gradients."""
  return [exhaustive(name) if '(' in name else name for name in names]


# The laws judge what is computed, not how fast.
pytestmark = pytest.mark.usefixtures('compile_quickly')
over_all = pytest.mark.parametrize('name', strategies_first(AGGREGATORS))
over_core = pytest.mark.parametrize('name', strategies_first(CORE))


@functools.lru_cache(maxsize=8)
def record(name, everyone=True, workers=laws.N):
  """Runs some rounds on one device, once for all laws that judge them."""
  return laws.record(AGGREGATORS[name], everyone, workers)


@functools.lru_cache(maxsize=8)
def replay(name, executor, everyone=True):
  return laws.replay(
    AGGREGATORS[name], record(name, everyone), executor, everyone
  )


@functools.lru_cache(maxsize=8)
def refusal(name) -> str:
  """The error of an aggregator when workers are missing; '' without one."""
  try:
    record(name, everyone=False)
  except UserError as error:
    return str(error)
  return ''


def with_absentees(name):
  """`record` with workers missing; skips a test where that is refused."""
  if refusal(name):  # Another test checks the message.
    pytest.skip(f'{name} needs every worker.')
  return record(name, everyone=False)


@functools.lru_cache(maxsize=8)
def is_served(name):
  return laws.is_served(AGGREGATORS[name])


def breaks(table, name, request):
  """Marks a test as a strict expected failure of a method in the table."""
  if name in table:
    request.applymarker(
      pytest.mark.xfail(reason=table[name], strict=True, raises=AssertionError)
    )


@over_all
def test_executors_agree_in_values_and_in_the_whole_bill(name):
  laws.executors_agree(record(name), replay(name, 'shard_map'))


@pytest.mark.exhaustive
@over_core
def test_pmap_agrees_in_values_and_in_the_whole_bill(name):
  laws.executors_agree(record(name), replay(name, 'pmap'))


@over_all
def test_executors_agree_when_workers_are_missing(name):
  events = with_absentees(name)
  laws.executors_agree(events, replay(name, 'shard_map', False))


@over_all
@pytest.mark.parametrize(
  'dtypes',
  [
    (jnp.float32, jnp.float32, jnp.float32),
    (jnp.float32, jnp.bfloat16, jnp.bfloat16),
  ],
  ids=['f32', 'mixed'],
)
def test_shapes_and_dtypes_of_tree_and_memory_are_kept(name, dtypes):
  laws.shapes_and_dtypes_are_kept(AGGREGATORS[name], *dtypes)


@pytest.mark.parametrize('name', strategies_first(OF_GRADIENTS))
@pytest.mark.parametrize('bad', [math.nan, math.inf])
def test_a_non_finite_gradient_shows_in_a_result(name, bad):
  laws.what_is_no_number_shows(AGGREGATORS[name], bad, whole=name in DRAWN)


@over_all
def test_some_worker_sends_bytes(name):
  laws.someone_talks(record(name))


@over_all
def test_nothing_is_lost(name, request):
  breaks(LEAKS, name, request)
  laws.nothing_is_lost(record(name))


@pytest.mark.parametrize(
  'name', strategies_first([n for n in AGGREGATORS if n not in LEAKS])
)
def test_nothing_is_lost_when_workers_are_missing(name):
  laws.nothing_is_lost(with_absentees(name))


@over_all
def test_absent_workers_are_left_unchanged_or_refused(name, request):
  breaks(SHARED, name, request)
  if refusal(name):
    assert 'every worker' in refusal(name)
  else:
    laws.absent_are_left_alone(record(name, everyone=False))


@over_all
def test_absent_workers_are_billed_nothing(name, request):
  breaks(ONE_SIDED, name, request)
  laws.absent_pay_nothing(with_absentees(name))


@over_all
def test_presence_flags_of_all_workers_do_not_change_results(name):
  with_flags = with_absentees(name)[-1:]
  without_flags = laws.replay(AGGREGATORS[name], with_flags, 'vmap')
  laws.executors_agree(
    [e._replace(sent=None) for e in with_flags],
    [e._replace(sent=None) for e in without_flags],
  )


@over_all
def test_bytes_sent_equal_bytes_received(name):
  laws.bills_balance(record(name), is_served(name))
  if not refusal(name):
    laws.bills_balance(record(name, everyone=False), is_served(name))


# A sum, a graph, merges of pairs and a server; all others are exhaustive.
FEW = (
  'all_reduce.gradients',
  'gossip.parameters',
  'gtopk.gradients',
  'elastic.parameters',
)


@pytest.mark.parametrize(
  'name', [name if name in FEW else exhaustive(name) for name in CORE]
)
@pytest.mark.parametrize('workers', [exhaustive(1), 3])
def test_any_number_of_workers_works_or_is_refused(name, workers):
  try:
    events = record(name, workers=workers)
  except UserError as error:
    assert f'workers={workers}' in str(error)
    return
  laws.bills_balance(events, is_served(name))
  if name not in LEAKS:
    laws.nothing_is_lost(events)


@pytest.mark.parametrize(
  'name', [exhaustive(n) if 'random' in n else n for n in GOSSIP]
)
def test_gossip_multiplies_with_the_mixing_matrix(name):
  laws.gossip_multiplies_with_w(record(name), GOSSIP[name])
  if not refusal(name):
    laws.gossip_multiplies_with_w(record(name, everyone=False), GOSSIP[name])


@pytest.mark.parametrize(
  'name',
  strategies_first(
    [n for n in AGGREGATORS if n.startswith(('compressed', 'gtopk'))]
  ),
)
@pytest.mark.parametrize('executor', ['vmap', 'shard_map'])
def test_aggregated_gradients_are_bit_identical_on_all_workers(name, executor):
  for event in replay(name, executor):
    laws.replicas_are_identical(event.new_tree)


@pytest.mark.parametrize('name', SYNCHRONOUS)
@pytest.mark.parametrize(
  'executor',
  ['vmap', 'shard_map', exhaustive('pmap')],
)
def test_synchronous_replicas_are_bit_identical(name, executor):
  for params in laws.train(SYNCHRONOUS[name], executor, workers=3):
    laws.replicas_are_identical(params)
