"""The ledger matches the compiled program; the audit detects mismatches."""

import dataclasses
import importlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gossipjax import (
  audit,
  collectives,
  executors,
  strategies,
  topology,
)
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  chain,
  every,
  identity,
  stateless,
)
from gossipjax.audit import comparison, hlo, routes
from gossipjax.audit.control_paths import control_paths
from gossipjax.collectives import WORKERS
from gossipjax.config import resolve
from gossipjax.devices import inner_devices
from gossipjax.errors import UserError
from gossipjax.strategies import (
  adaptive_gossip,
  elastic,
  gossip,
  gtopk,
  pull_gossip,
  push_gossip,
  topk,
)
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.traffic import SILENCE, Count, Traffic, nbytes
from gossipjax.transforms import granularity
from tests.support.tiers import exhaustive

COMMON_PERIOD = 2**9 * 3**2 * 5**4 * 7 * 13  # A multiple of any usual period.
PARAMS = {
  'dense': jax.ShapeDtypeStruct((60, 50), jnp.float32),
  'bias': jax.ShapeDtypeStruct((37,), jnp.float32),
}
SMALL = {'x': jax.ShapeDtypeStruct((11,), jnp.float32)}
# One for each kind of message; auditing the others is exhaustive.
KINDS = (
  'all_reduce',
  'adaptive_gossip',
  'elastic',
  'gossip',
  'gtopk',
  'hylo',
  'power_sgd',
  'topk',
)


def of_all(kinds: tuple[str, ...]):
  """All strategies; those that are not in `kinds` are exhaustive."""
  return [
    m.name if m.name in kinds else exhaustive(m.name)
    for m in pkgutil.iter_modules(strategies.__path__)
  ]


ALL = of_all(KINDS)


def on_gradients(aggregator):
  return Strategy(aggregator, identity())


def on_parameters(aggregator):
  return Strategy(identity(), aggregator)


def agree(found: list[audit.Row]) -> list[audit.Row]:
  for row in found:
    print(audit.sentence(row))
    assert audit.holds(row), audit.sentence(row)
  return found


@pytest.mark.parametrize('name', ALL)
def test_the_ledger_matches_the_compiled_program(name):
  strategy = importlib.import_module(f'gossipjax.strategies.{name}').strategy
  found = agree(audit.audit(strategy(), PARAMS, 8, [COMMON_PERIOD - 1]))
  assert found[0].ledger.any()
  assert found[0].paths == 1
  assert {r.reason for r in found} <= {'', 'served', 'masked'}


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['union_topk', 'ok_topk', 'topk'])
def test_the_ledger_of_shards_matches_the_compiled_program(name):
  """Also where each shard chooses the size of its messages by itself."""
  module = importlib.import_module(f'gossipjax.strategies.{name}')
  cut = module.strategy(granularity=granularity.shards(2))
  found = agree(audit.audit(cut, PARAMS, 8, [COMMON_PERIOD - 1]))
  assert found[0].ledger.any()
  assert {r.reason for r in found} <= {'', 'served'}


@pytest.mark.exhaustive
@pytest.mark.parametrize('exchange', gtopk.EXCHANGES)
@pytest.mark.parametrize('workers', [8, 5])
def test_a_tree_of_merges_is_counted_per_worker(exchange, workers):
  (row,) = agree(
    audit.audit(
      gtopk.strategy(0.01, conserve=True, exchange=exchange),
      PARAMS,
      workers,
      [0],
    )
  )
  assert row.reason == ''
  if exchange == 'tree':  # Worker 0 only sends down the tree.
    rounds = (workers - 1).bit_length()
    assert row.ledger[0] == row.ledger.max() == rounds * 8 * 30


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'graph',
  [
    topology.ring,
    topology.exponential,
    topology.hypercube,
    topology.complete,
    topology.random_matching(schedule=2),
  ],
)
def test_every_round_of_a_topology_is_counted(graph):
  steps = range(min(3, len(graph(8))))
  agree(audit.audit(gossip.strategy(graph), SMALL, 8, steps))


def test_the_steps_that_communicate_are_found():
  mean = exact_mean()
  find = lambda strategy: audit.audit_steps(strategy, SMALL, 8, 150).numbers
  assert find(on_gradients(mean)) == [0]
  assert find(on_parameters(every(3, mean))) == [0, 2]
  assert find(on_parameters(every(100, mean))) == [0, 99]


def test_a_silent_step_sends_nothing_and_the_next_one_does():
  strategy = on_parameters(every(3, exact_mean()))
  silent, talking = agree(audit.audit(strategy, PARAMS, 8, [1, 2]))
  assert not silent.compiled.any()
  assert list(talking.kinds) == ['all-reduce']


def test_the_traffic_of_chained_aggregators_adds_up():
  both = chain(gossip.neighbor_mean(topology.ring), exact_mean())
  (row,) = agree(audit.audit(on_parameters(both), PARAMS, 8, [0]))
  assert set(row.kinds) == {'collective-permute', 'all-reduce'}


def test_a_server_is_billed_an_upload_though_compiled_as_an_all_reduce():
  strategy = Strategy(exact_mean(), elastic.elastic_mean(0.5))
  (row,) = agree(audit.audit(strategy, PARAMS, 8, [0]))
  size = nbytes(PARAMS)
  assert row.reason == 'served'
  np.testing.assert_array_equal(row.compiled, 2 * 2 * 7 * size // 8)
  np.testing.assert_array_equal(row.ledger, 2 * 7 * size // 8 + size)


@pytest.mark.parametrize(
  'mean',
  [
    exact_mean(),
    gossip.neighbor_mean(topology.ring),
    elastic.elastic_mean(0.5),
    topk.strategy(0.5).gradients,
  ],
)
def test_absent_workers_are_billed_nothing_though_messages_move(mean):
  everyone, some = agree(
    audit.audit(on_parameters(mean), PARAMS, 8, [0], absent=[1, 6])
  )
  assert 'masked' in some.reason and 'masked' not in everyone.reason
  assert not some.ledger[[1, 6]].any()
  np.testing.assert_array_equal(some.compiled, everyone.compiled)
  present = [0, 2, 3, 4, 5, 7]
  np.testing.assert_array_equal(some.ledger[present], everyone.ledger[present])


@pytest.mark.parametrize(
  'mean', [push_gossip.push_mean(), pull_gossip.pull_mean(1)]
)
def test_messages_that_need_one_end_only_are_billed_with_their_flags(mean):
  agree(audit.audit(on_parameters(mean), PARAMS, 8, [0], absent=[1, 6]))


@pytest.mark.parametrize('field', ['rounds', 'path_bytes'])
def test_a_bill_without_rounds_or_path_bytes_is_caught(field):
  def update(tree, step, active):
    del step, active
    total, count, sent = collectives.all_reduce(tree)
    mean = jax.tree.map(lambda x: x / count, total)
    return mean, dataclasses.replace(sent, **{field: Count.of(0)})

  with pytest.raises(audit.Unbalanced, match='modelled seconds'):
    audit.audit(on_gradients(stateless(update)), SMALL, 8, [0])


def votes_of(name):
  def votes(tree):
    raised = {k: x > 0 for k, x in tree.items()}
    if name == 'all_sum':
      return collectives.all_sum(raised['x'])
    total, _, sent = getattr(collectives, name)(raised)
    return total['x'], sent

  return votes


@pytest.mark.parametrize('name', ['all_reduce', 'serve', 'all_sum'])
def test_booleans_are_summed_and_billed_as_integers(name):
  x, votes = np.arange(8 * 11).reshape(8, 11) % 3 - 1.0, votes_of(name)
  for where in ('vmap', 'shard_map'):
    found, _ = executors.executor(8, where).run(votes)({'x': x})
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found[0], (x > 0).sum(axis=0))

  def update(tree, step, active):
    total, sent = votes(tree)
    return {'x': tree['x'] * total}, sent

  (row, *_) = agree(audit.audit(on_gradients(stateless(update)), SMALL, 8, [0]))
  size = 4 * 11
  assert row.ledger[0] == (size if name == 'serve' else 2 * 7 * size // 8)


def _at_a_server(tree, step, active):
  many = (jnp.abs(tree['x']) > 1).sum(dtype=jnp.int32)
  (total, many), here, sent = collectives.serve((tree, many), active)
  return jax.tree.map(lambda x: x / (here + many), total), sent


@pytest.mark.parametrize('absent', [(), (2,)])
def test_an_integer_at_a_server_is_not_taken_for_a_presence_count(absent):
  mean = on_gradients(stateless(_at_a_server))
  for row in agree(audit.audit(mean, SMALL, 8, [0], absent)):
    assert {*row.ledger} <= {4 * 11 + 4, 0}


def test_an_unbilled_integer_at_a_server_is_caught():
  def update(tree, step, active):
    total, sent = _at_a_server(tree, step, active)
    low = jnp.asarray(sent.bytes.low)
    low = jnp.where(low > 0, low - 4, 0)
    fewer = dataclasses.replace(sent.bytes, low=low)
    return total, dataclasses.replace(sent, bytes=fewer)

  mean = on_gradients(stateless(update))
  rows = audit.audit(mean, SMALL, 8, [0], (2,))
  assert not all(map(audit.holds, rows))


def _narrow(name, kind):
  def update(tree, step, active):
    narrow = jax.tree.map(lambda x: x.astype(kind), tree)
    if name == 'send':
      pairs = [(i, (i + 1) % 8) for i in range(8)]
      found, _, sent = collectives.send(narrow, pairs)
    else:
      found, _, sent = getattr(collectives, name)(narrow)
    if name == 'all_gather':
      found = jax.tree.map(lambda x: x.astype(jnp.float32).sum(axis=0), found)
    return jax.tree.map(lambda x: x.astype(jnp.float32), found), sent

  return on_gradients(stateless(update))


@pytest.mark.parametrize(
  'name, kind',
  [
    ('all_gather', jnp.int4),
    *(
      pytest.param(name, kind, marks=pytest.mark.exhaustive)
      for name in ('send', 'all_reduce', 'serve', 'all_gather')
      for kind in (jnp.int4, jnp.uint4)
    ),
  ],
)
def test_an_entry_of_fewer_than_eight_bits_moves_and_is_billed_as_a_byte(
  name, kind
):
  (row,) = agree(audit.audit(_narrow(name, kind), SMALL, 8, [0]))
  parts = {'send': 11, 'serve': 11, 'all_gather': 7 * 11}
  assert row.ledger[0] == parts.get(name, -(-2 * 7 * 11 // 8))
  assert 'widened' not in row.reason


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'mean', [exact_mean(), gossip.neighbor_mean(topology.ring)]
)
def test_bf16_is_billed_as_such_though_cpus_move_f32(mean):
  mixed = {
    'a': jax.ShapeDtypeStruct((64,), jnp.bfloat16),
    'b': jax.ShapeDtypeStruct((64,), jnp.float32),
  }
  (row,) = agree(audit.audit(on_gradients(mean), mixed, 8, [0]))
  assert row.reason == 'widened'
  assert (row.compiled * 6 == row.ledger * 8).all()


def test_rounding_up_to_whole_bytes_is_no_difference():
  (row,) = agree(audit.audit(on_gradients(exact_mean()), SMALL, 5, [0]))
  assert row.ledger[0] == 71  # Of 70.4.


# Aggregators that count wrongly.


def _sloppy(move):
  """An aggregator of `move(leaf) -> (leaf, bytes)`, which bills the bytes."""

  def update(tree, step, active):
    del step, active
    moved = {k: move(x) for k, x in tree.items()}
    size = sum(size for _, size in moved.values())
    return {k: x for k, (x, _) in moved.items()}, Traffic.of(size, 1)

  return stateless(update)


def _permute(x):
  return lax.ppermute(x, WORKERS, [(i, (i + 1) % 8) for i in range(8)])


def _branch(charged):
  """Communicates if the data meet a condition; the bill never changes."""

  def move(x):
    go = lax.pmax(x.sum(), WORKERS) > -1e9  # That is 7 bytes.
    return lax.cond(go, lambda: lax.pmean(x, WORKERS), lambda: x), charged

  return _sloppy(move)


def _claims_absence(tree, step, active):
  del step, active
  total, count, sent = collectives.all_reduce(tree)
  return jax.tree.map(lambda x: x / count, total), sent * jnp.bool_(False)


def _with_a_norm(tree, step, active):
  del step
  norm = lax.psum(sum(jnp.vdot(x, x) for x in tree.values()), WORKERS)
  total, count, sent = collectives.all_reduce(tree, active)
  return jax.tree.map(lambda x: x / (count + norm), total), sent


def _bf16_is_charged_twice(tree, step, active):
  del step, active
  part = tree['x'][:8]  # Whole bytes for each worker.
  rough, _, sent = collectives.all_reduce(part.astype(jnp.bfloat16))
  total, count, _ = collectives.all_reduce(part)
  mean = (total + rough) / count
  return {'x': tree['x'].at[:8].set(mean)}, sent + sent


WRONG = {
  'nothing is charged': _sloppy(lambda x: (lax.pmean(x, WORKERS), 0)),
  'a norm is not charged': stateless(_with_a_norm),
  'a gather is charged one copy': _sloppy(
    lambda x: (lax.all_gather(x, WORKERS).mean(0), nbytes(x))
  ),
  'a permute is charged half': _sloppy(lambda x: (_permute(x), nbytes(x) // 2)),
  'a permute is charged twice': _sloppy(lambda x: (_permute(x), nbytes(x) * 2)),
  'one byte too many': _sloppy(lambda x: (_permute(x), nbytes(x) + 1)),
  'a sum is charged as if served': _sloppy(
    lambda x: (lax.psum(x, WORKERS), nbytes(x))
  ),
  'what decides on a branch is not charged': _branch(0),
  'everybody claims to be absent': stateless(_claims_absence),
  'f32 is charged as the bf16 beside it': stateless(_bf16_is_charged_twice),
}


@pytest.mark.parametrize('fault', WRONG)
def test_a_wrong_ledger_is_caught(fault):
  (row, *_) = audit.audit(on_gradients(WRONG[fault]), SMALL, 8, [0])
  assert not audit.holds(row)
  assert 'DIFFERS' in audit.sentence(row)


def test_a_branch_with_the_bill_of_the_other_is_caught():
  (row, *_) = audit.audit(on_gradients(_branch(7)), SMALL, 8, [0])
  assert row.paths == 1
  assert not audit.holds(row)


def test_a_bill_to_a_wrong_worker_is_caught_though_the_sum_is_right():
  def update(tree, step, active):
    del step, active
    moved = jax.tree.map(lambda x: lax.ppermute(x, WORKERS, [(0, 1)]), tree)
    me = lax.axis_index(WORKERS)
    return moved, Traffic.of(nbytes(tree), 1) * (me == 1)

  (row,) = audit.audit(on_gradients(stateless(update)), SMALL, 8, [0])
  assert row.ledger.sum() == row.explained.sum()
  assert not audit.holds(row)


def test_a_run_that_bills_more_than_it_sends_is_caught():
  """A masked bill may be less than what moves, never more."""

  def update(tree, step, active):
    del step, active
    quiet = (tree['x'] == 0).all()
    return jax.tree.map(_permute, tree), Traffic.of(nbytes(tree), 1) * (
      1 + quiet
    )

  found = audit.audit(on_gradients(stateless(update)), SMALL, 8, [0])
  assert [audit.holds(row) for row in found] == [True, False]


@pytest.mark.parametrize('halved', [False, True])
def test_a_quiet_branch_that_sends_more_than_the_full_one_is_caught(halved):
  """It is caught whether it bills as much as the full one or less."""

  def update(tree, step, active):
    del step, active
    quiet = (tree['x'] == 0).all()
    times = lambda n: lambda x: lax.fori_loop(0, n, lambda _, y: _permute(y), x)
    moved = lax.cond(quiet, times(4), times(1), tree['x'])
    bill = Traffic.of(nbytes(tree) // 2, 1) * (2 - (quiet & halved))
    return {'x': moved}, bill

  found = audit.audit(on_gradients(stateless(update)), SMALL, 8, [0])
  assert [audit.holds(row) for row in found] == [True, False]
  assert found[1].compiled[0] == 4 * nbytes(SMALL)


def _in_turn(tree, step, active):
  """Adjacent workers send different tensors."""
  del active
  me, sent, found = lax.axis_index(WORKERS), SILENCE, {}
  for i, (name, x) in enumerate(sorted(tree.items())):
    mine = (step + me) % len(tree) == i
    total, count, more = collectives.all_reduce(x, mine)
    found[name], sent = jnp.where(mine, total / count, x), sent + more
  return found, sent


def _all_in_turn(tree, step, active):
  """All send the same tensor, which the step chooses."""
  del active

  def send(name):
    total, count, sent = collectives.all_reduce(tree[name])
    return {**tree, name: total / count}, sent

  return lax.cond(step % 2 == 0, lambda: send('a'), lambda: send('b'))


def _wholly_in_turn(tree, step, active):
  """Every second worker sends all tensors."""
  del active
  mine = (step + lax.axis_index(WORKERS)) % 2 == 0
  total, count, sent = collectives.all_reduce(tree, mine)
  keep = lambda t, x: jnp.where(mine, t / count, x)
  return jax.tree.map(keep, total, tree), sent


def test_masking_one_tensor_and_sending_another_is_refused_with_advice():
  two = {k: jax.ShapeDtypeStruct((ord(k),), jnp.float32) for k in 'ab'}
  report = lambda update: audit.report(
    'mine', on_parameters(stateless(update)), two, (), 4, 8
  )
  with pytest.raises(audit.Unbalanced, match='the same for all'):
    report(_in_turn)
  assert report(_all_in_turn)
  assert {row['reason'] for row in report(_wholly_in_turn)} <= {'', 'masked'}


def test_a_message_that_is_billed_at_a_later_step_is_caught():
  """What is sent at even steps is billed at odd ones."""

  def update(tree, step, active):
    del active
    bill = Traffic.of(nbytes(tree), 1)
    return lax.cond(
      step % 2 == 0,
      lambda: (jax.tree.map(_permute, tree), bill * jnp.bool_(False)),
      lambda: (tree, bill * jnp.bool_(True)),
    )

  late = on_gradients(stateless(update))
  steps, _ = audit.audit_steps(late, SMALL, 8, 20)
  assert steps == [0, 1]
  assert not any(map(audit.holds, audit.audit(late, SMALL, 8, steps)))


@pytest.mark.exhaustive
def test_a_message_that_is_billed_only_every_other_time_is_caught():
  """A bill that is not zero equals what its branch sends."""

  def update(tree, step, active):
    del active
    talks = step % 5 == 4
    mixed = lax.cond(talks, lambda: jax.tree.map(_permute, tree), lambda: tree)
    bill = Traffic.of(nbytes(tree), 1) * (talks & (step % 2 == 0))
    return mixed, bill

  late = on_gradients(stateless(update))
  with pytest.raises(audit.Unbalanced, match='at step 9'):
    audit.report('late', late, SMALL, (), 8, 60)


def test_a_second_message_that_is_billed_every_other_time_is_caught():
  """The steps that bill both do not excuse those that bill one."""

  def update(tree, step, active):
    del active
    once = jax.tree.map(_permute, tree)
    bill = Traffic.of(nbytes(tree), 1)
    return jax.tree.map(_permute, once), bill + bill * (step % 2 == 0)

  with pytest.raises(audit.Unbalanced, match='at step 1'):
    audit.report('half', on_gradients(stateless(update)), SMALL, (), 8, 60)


QUIET = Traffic.of(0, 0) * False


def _send_billed(x, times=1):
  """Sends an array once, and bills it `times` times."""
  return _permute(x), Traffic.of(nbytes(x), 1) * times


@pytest.mark.parametrize('adds_up', [True, False])
def test_a_loop_with_branches_is_billed_for_every_iteration(adds_up):
  """An iteration that overwrites the bill of earlier ones has the bytes of some
  path through the loop, but not of the path that was taken."""

  def update(tree, step, active):
    del step, active

    def turn(carry, i):
      x, paid = carry
      x, more = lax.cond(i % 2 == 0, _send_billed, lambda x: (x, QUIET), x)
      return (x, paid + more if adds_up else more), None

    (x, sent), _ = lax.scan(turn, (tree['x'], QUIET), jnp.arange(5))
    return {'x': x}, sent

  found = audit.audit(on_gradients(stateless(update)), SMALL, 8, [0])
  assert {*map(audit.holds, found)} == {adds_up}
  assert found[0].paths == 1 and found[0].compiled[0] == 3 * 44


@pytest.mark.parametrize('paid', [2, 1])
def test_a_branch_for_gradients_of_medium_size_is_audited(paid):
  def update(tree, step, active):
    del step, active
    size, flags = collectives.all_max(jnp.abs(tree['x']).max())
    which = jnp.where(size > 100, 2, jnp.where(size > 1e-9, 1, 0))
    branches = (
      lambda x: (x, QUIET),
      lambda x: (_permute(_permute(x)), _send_billed(x, paid)[1]),
      _send_billed,
    )
    moved, sent = lax.switch(which, branches, tree['x'])
    return {'x': moved}, flags + sent

  found = audit.audit(on_gradients(stateless(update)), SMALL, 8, [0])
  assert all(map(audit.holds, found)) == (paid == 2)
  assert max(row.compiled[0] for row in found) == 2 * 44 + found[-1].ledger[0]


@pytest.mark.exhaustive
def test_large_tensors_are_audited_at_the_step_that_sends_them():
  """The small model of the audit never sends their message."""

  def update(tree, step, active):
    del active
    small, sent = _send_billed(tree['bias'])
    large, more = tree['dense'], QUIET
    if large.size > 32 * 32:
      of_large = lambda x: _send_billed(x, times=0)
      large, more = lax.cond(step == 20, of_large, lambda x: (x, QUIET), large)
    return {'bias': small, 'dense': large}, sent + more

  late = on_gradients(stateless(update))
  with pytest.raises(audit.Unbalanced, match='at step 20'):
    audit.report('late', late, PARAMS, (), 8, 30)


@pytest.mark.exhaustive
@pytest.mark.parametrize('later', [0, 20])
def test_branches_that_differ_only_in_bits_are_told_apart(later):
  """One step sends f32, but bills the bf16 of all other steps."""
  low = lambda x: x.astype(jnp.bfloat16)

  def update(tree, step, active):
    del active
    sent = Traffic.of(nbytes(low(tree['x'])), 1) * (step >= 0)
    moved = lax.cond(
      step == later,
      _permute,
      lambda x: _permute(low(x)).astype(x.dtype),
      tree['x'],
    )
    return {'x': moved}, sent

  swapped = on_gradients(stateless(update))
  with pytest.raises(audit.Unbalanced, match=f'at step {later}'):
    audit.report('swapped', swapped, SMALL, (), 8, 30)


def test_a_request_must_be_billed_to_the_worker_that_sends_it():
  """Here the receiver of a request is billed for it and for its response."""
  back = [((i + 1) % 8, i) for i in range(8)]

  def update(tree, step, active):
    del step, active
    wants = tree['x'].sum() > 0
    requested, theirs = _permute(wants), lax.ppermute(tree['x'], WORKERS, back)
    bill = Traffic.of(nbytes(tree) + 1, 2) * requested
    return {'x': jnp.where(wants, theirs, tree['x'])}, bill

  with pytest.raises(audit.Unbalanced, match='at step 0'):
    audit.report('ask', on_gradients(stateless(update)), SMALL, (), 8, 20)


def test_branches_with_the_same_messages_in_another_order_are_audited():
  """Workers that took different branches would wait forever."""

  def update(tree, count, step, active=True):
    del step, active
    talks = lax.axis_index(WORKERS) % 2 == 0
    mine = jnp.where(talks, tree['x'], 0)
    total = lambda x: lax.psum(jnp.where(talks, jnp.sin(x).sum(), 0), WORKERS)
    messages = lax.cond(
      count % 2 == 0,
      lambda: (there := _permute(mine)) + 0 * total(there),
      lambda: _permute(mine + 0 * total(mine)),
    )
    bill = Traffic.of(nbytes(tree) + 7, 2) * talks
    return {'x': (tree['x'] + messages) / 2}, count + 1, bill

  honest = on_parameters(Aggregator(lambda like: jnp.int32(0), update))
  (row,) = audit.report('order', honest, SMALL, (), 8, 20)
  assert row['reason'] == 'masked'


@pytest.mark.exhaustive
def test_a_control_path_without_a_bill_is_audited_where_it_runs():
  """An exchange at every twentieth step whose bill is dropped."""

  def update(tree, step, active):
    del active
    talk = lambda: jax.tree.map(_permute, tree)
    return lax.cond(step % 20 == 19, talk, lambda: tree), SILENCE

  silent = on_gradients(stateless(update))
  assert 19 in audit.audit_steps(silent, SMALL, 8, 60).numbers
  with pytest.raises(audit.Unbalanced, match='at step 19'):
    audit.report('silent', silent, SMALL, (), 8, 60)


def _counting(fifth):
  """An all-reduce that counts its steps, and does `fifth` at every fifth."""

  def update(tree, count, step, active=True):
    del step, active
    tree, sent = lax.cond(
      count % 5 == 4,
      fifth,
      lambda tree: exact_mean().update(tree, (), 0)[::2],
      tree,
    )
    return tree, count + 1, sent

  return on_gradients(Aggregator(lambda like: jnp.int32(0), update))


@pytest.mark.exhaustive
@pytest.mark.parametrize('sent', [0, 1], ids=['nothing', 'a byte too few'])
def test_a_branch_on_the_state_is_audited_where_it_runs(sent):
  def fifth(tree):
    bill = Traffic.of(nbytes(tree) - 1, 1) if sent else SILENCE
    return jax.tree.map(_permute, tree), bill

  with pytest.raises(audit.Unbalanced, match=r'at step [34]'):
    audit.report('counting', _counting(fifth), SMALL, (), 8, 60)


def _later(before, after, begun=20):
  """Does `before` until step `begun`, and `after` from then on.

  Both are `(tree, messages) -> (tree, bill)`; all steps send the same."""

  def update(tree, count, step, active=True):
    del step, active
    messages = jax.tree.map(_permute, tree)
    results = [how(tree, messages) for how in (before, after)]
    late = count >= begun
    tree, bill = jax.tree.map(lambda a, b: jnp.where(late, b, a), *results)
    return tree, count + 1, bill

  return on_gradients(Aggregator(lambda like: jnp.int32(0), update))


def _uses_and_bills(tree, messages):
  return messages, Traffic.of(nbytes(tree), 1) * jnp.bool_(True)


def _uses_unbilled(tree, messages):
  return messages, SILENCE


def _ignores(tree, messages):
  return tree, SILENCE


@pytest.mark.parametrize('before', [_uses_and_bills, exhaustive(_ignores)])
def test_using_later_messages_without_a_bill_is_caught(before):
  """It is caught whether messages were billed before, or every bill is zero."""
  with pytest.raises(audit.Unbalanced, match=r'at step (19|2.)'):
    audit.report('free', _later(before, _uses_unbilled), SMALL, (), 8, 60)


def test_messages_are_masked_until_they_are_used_and_billed():
  found = audit.report(
    'late', _later(_ignores, _uses_and_bills), SMALL, (), 8, 60
  )
  assert [(row['step'], row['reason']) for row in found] == [
    (0, 'masked'),
    (20, ''),
  ]


def test_a_counter_that_is_sent_without_a_bill_is_caught():
  def update(tree, count, step, active=True):
    del step, active
    theirs = _permute(count)
    return jax.tree.map(lambda x: x + theirs, tree), count + 1, SILENCE

  free = on_gradients(Aggregator(lambda like: jnp.int32(0), update))
  with pytest.raises(audit.Unbalanced, match='at step 0'):
    audit.report('free', free, SMALL, (), 8, 60)


def test_signs_that_are_sent_without_a_bill_are_caught():
  def update(tree, step, active):
    del step, active
    signs = jax.tree.map(lambda x: _permute(jnp.sign(x)), tree)
    return jax.tree.map(lambda s, x: s * jnp.abs(x), signs, tree), SILENCE

  free = on_gradients(stateless(update))
  with pytest.raises(audit.Unbalanced, match='at step 0'):
    audit.report('free', free, SMALL, (), 8, 60)


def test_layers_with_counters_of_their_own_are_masked():
  """Two permutes of equal size; each is ignored except at its own period."""

  def update(tree, counts, step, active=True):
    del step, active
    bill, mixed = SILENCE, []
    for x, count, period in zip(tree['x'], counts, (2, 3), strict=True):
      talks = count % period == period - 1
      mixed.append(jnp.where(talks, _permute(x), x))
      bill += Traffic.of(nbytes(x), 1) * talks
    return {'x': mixed}, counts + 1, bill

  apart = on_gradients(Aggregator(lambda like: jnp.zeros(2, jnp.int32), update))
  layer = jax.ShapeDtypeStruct((11,), jnp.float32)
  found = audit.report('apart', apart, {'x': [layer] * 2}, (), 8, 20)
  assert {(row['ledger'], row['compiled']) for row in found} == {
    (0, 88),
    (44, 88),
    (88, 88),
  }


def test_a_state_may_hold_a_random_key():
  def update(tree, key, step, active=True):
    del step, active
    talks = (tree['x'] != 0).any()
    bill = Traffic.of(nbytes(tree), 1) * talks
    mixed = jax.tree.map(lambda x: jnp.where(talks, _permute(x), x), tree)
    return mixed, key, bill

  keyed = on_gradients(Aggregator(lambda like: jax.random.key(0), update))
  found = audit.report('keyed', keyed, SMALL, (), 8, 4)
  assert [row['reason'] for row in found] == ['', 'masked']


@pytest.mark.exhaustive
def test_a_trigger_is_masked_while_it_must_wait():
  waiting = adaptive_gossip.strategy(shortest=3)
  found = audit.report('waiting', waiting, SMALL, (), 8, 60)
  rows = [(row['step'], row['reason']) for row in found]
  assert rows[:2] == [(0, 'masked'), (2, '')]
  # After some 40 steps the workers no longer fire together.
  assert {reason for _, reason in rows[2:]} <= {'masked'}


@pytest.mark.parametrize('per_layer', [False, True])
@pytest.mark.parametrize(
  'name',
  [
    'norm_slope',
    *map(
      exhaustive,
      ('random', 'fixed', 'relative_drift', 'step_size', 'target_interval'),
    ),
  ],
)
def test_every_trigger_passes_the_audit(name, per_layer):
  config = resolve.strategy_config('adaptive_gossip', per_layer=per_layer)
  config.trigger.name = name
  if name == 'step_size':
    config.trigger.learning_rate = 0.1
  found = audit.report(name, resolve.strategy(config), PARAMS, (), 8, 40)
  assert any(row['compiled'] for row in found)


def test_a_report_has_each_kind_of_step_that_the_state_selects():
  fifth = lambda tree: (
    jax.tree.map(_permute, tree),
    Traffic.of(nbytes(tree), 1),
  )
  found = audit.report('counting', _counting(fifth), SMALL, (), 8, 60)
  assert [row['step'] for row in found] == [0, 4]
  assert [row['ledger'] for row in found] == [77, 44]


def test_a_report_refuses_a_wrong_ledger_by_name():
  good = audit.report('plain', on_gradients(exact_mean()), SMALL, (), 8, 5)
  assert [row['ledger'] for row in good] == [77]
  with pytest.raises(audit.Unbalanced, match='--audit of broken: at step 0'):
    audit.report(
      'broken', on_gradients(WRONG['nothing is charged']), SMALL, (), 8, 5
    )


@pytest.mark.parametrize(
  'horizon, wanted',
  [exhaustive(399, [0]), (401, [0, 399])],
  ids=['never', 'late'],
)
def test_a_report_has_a_late_exchange_and_one_row_for_all_silent_steps(
  horizon, wanted
):
  late = on_gradients(every(400, exact_mean()))
  found = audit.report('late', late, SMALL, (), 8, horizon)
  assert [row['step'] for row in found] == wanted
  assert [row['ledger'] for row in found] == [0, 77][: len(wanted)]


@pytest.mark.parametrize('workers', [1, 9, 65])
def test_an_audit_without_enough_workers_or_devices_is_refused(workers):
  with pytest.raises(UserError, match=f'workers={workers}, devices=8'):
    audit.audit(on_gradients(exact_mean()), SMALL, workers, [0])


# The text of compiled programs.


ADD = """
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""


def moved(*lines: str, rest: str = '', source: str = '', workers: int = 8):
  """Bytes by kind of collective and worker, of a program with one path."""
  text = '\n'.join(
    [
      f'HloModule m, num_partitions={workers}',
      ADD,
      rest,
      'ENTRY %main (p: f32[8]) -> f32[8] {',
      *('  ' + line for line in lines),
      '}',
    ]
  )
  program = hlo.parse(text)
  (path,) = control_paths(program, hlo.parse(source))
  sent = Traffic.of(np.zeros(workers), np.zeros(workers))
  found = comparison.compare(0, [(path,)], sent).kinds
  return {kind: each.tolist() for kind, each in found.items()}


def test_a_merged_all_reduce_counts_all_its_parts():
  assert moved(
    '%all-reduce = (f32[37]{0}, bf16[30,100]{1,0}, /*index=2*/s32[]) '
    'all-reduce(%a, %b, %c), channel_id=1, '
    'replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, '
    'to_apply=%add'
  ) == {'all-reduce': [14 * (148 + 6000 + 4) // 8] * 8}


def test_asynchronous_pairs_count_once():
  # As XLA prints them for an H100 and a TPU v5e.
  everyone = 'replica_groups={{0,1,2,3,4,5,6,7}}, '
  assert moved(
    '%s = bf16[1000]{0} all-reduce-start(%b), channel_id=1, '
    + everyone
    + 'to_apply=%add, backend_config={"operation_queue_id":"0"}',
    '%d = bf16[1000]{0} all-reduce-done(%s)',
  ) == {'all-reduce': [3500] * 8}
  assert moved(
    '%s = ((f32[1,1000]{1,0}, f32[1,30]{1,0}), (f32[8,1000]{1,0}, '
    'f32[8,30]{1,0})) all-gather-start(%x, %y), channel_id=1, '
    + everyone
    + 'dimensions={0}, use_global_device_ids=true',
    '%d = (f32[8,1000]{1,0}, f32[8,30]{1,0}) all-gather-done(%s)',
  ) == {'all-gather': [7 * 4120] * 8}
  assert moved(
    '%s = ((f32[8000]{0}), f32[1000]{0}) reduce-scatter-start(%b), '
    + everyone
    + 'dimensions={0}, to_apply=%add',
    '%d = f32[1000]{0} reduce-scatter-done(%s)',
  ) == {'reduce-scatter': [7 * 4000] * 8}
  assert moved(
    '%s = ((f32[8000]{0}), f32[8000]{0}) all-to-all-start(%b), '
    + everyone
    + 'dimensions={0}',
    '%d = f32[8000]{0} all-to-all-done(%s)',
  ) == {'all-to-all': [7 * 4000] * 8}


@pytest.mark.parametrize('context', ['', ', u32[]{:S(2)}, u32[]{:S(2)}'])
def test_only_the_sources_of_a_permute_send(context):
  assert moved(
    '%collective-permute-start = (f32[1000]{0:T(1024)S(1)}, '
    f'f32[1000]{{0:T(1024)S(1)}}{context}) collective-permute-start(%b), '
    'channel_id=1, source_target_pairs={{0,1},{3,2},{4,4}}, '
    'metadata={op_name="jit(f)/ppermute" stack_frame_id=6}',
    '%collective-permute-done = f32[1000]{0:T(1024)S(1)} '
    'collective-permute-done(%collective-permute-start)',
  ) == {'collective-permute': [4000, 0, 0, 4000, 0, 0, 0, 0]}


def test_a_wrapped_computation_counts_at_its_start_only():
  assert moved(
    '%s = ((f32[1000]{0}), f32[8000]{0}, u32[]) async-start(%p), '
    'calls=%wrapped',
    '%u = ((f32[1000]{0}), f32[8000]{0}, u32[]) async-update(%s), '
    'calls=%wrapped',
    'ROOT %d = f32[8000]{0} async-done(%u), calls=%wrapped',
    rest="""
%wrapped (x: f32[1000]) -> f32[8000] {
  %x = f32[1000]{0} parameter(0)
  ROOT %g = f32[8000]{0} all-gather(%x), replica_groups={}, dimensions={0}
}, execution_thread="other"
""",
  ) == {'all-gather': [28000] * 8}


def test_an_all_to_all_may_come_in_pieces():
  pieces = ', '.join(['f32[10]{0}'] * 8)
  assert moved(
    f'%a = ({pieces}) all-to-all(%b, %c, %d, %e, /*index=4*/%f, %g, %h, '
    '%i), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}'
  ) == {'all-to-all': [280] * 8}


@pytest.mark.parametrize(
  'groups, size',
  [
    ('{{0,1},{2,3},{4,5},{6,7}}', 2),
    ('{{0,1,2,3},{4,5,6,7}}', 4),
    ('{}', 8),
    ('[1,8]<=[8]', 8),
    ('[4,2]<=[2,4]T(1,0)', 2),
    ("mesh['workers'=8] {'workers'}", 8),
    ("mesh['a'=2,'b'=4] {'b'}", 4),
    ("mesh['a'=2,'b'=4,'c'=1] {'b','a'}", 8),
    ("mesh['a'=8] {'a':(2)2}", 2),
  ],
)
def test_a_ring_is_as_long_as_its_group(groups, size):
  assert moved(
    f'%g = s8[80]{{0}} all-gather(%b), replica_groups={groups}, '
    'dimensions={0}'
  ) == {'all-gather': [80 * (size - 1) // size] * 8}


@pytest.mark.parametrize(
  'groups, expected',
  [
    ("mesh['a'=2,'b'=4] {'a'}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
    ("mesh['a'=2,'b'=4] {'b'}", [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ("mesh['a'=8] {'a':(1)2}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
    ("mesh['a'=8] {'a':(2)2}", [[0, 2], [1, 3], [4, 6], [5, 7]]),
    ("mesh['a'=8] {'a':(1)2,'a':(4)2}", [[0, 1, 4, 5], [2, 3, 6, 7]]),
    ("mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'y'}", [[0, 2], [1, 3]]),
    ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}", [[0, 2], [1, 3]]),
  ],
)
def test_groups_along_mesh_axes_are_read_as_xla_defines_them(groups, expected):
  text = f'%r = f32[8] all-reduce(%b), replica_groups={groups}, to_apply=%add'
  (instruction,) = hlo.parse(
    f'HloModule m\nENTRY %m () -> f32[8] {{\n  {text}\n}}'
  ).instructions()
  found = routes.route(instruction)
  assert sorted(map(sorted, found)) == expected


def test_a_worker_in_no_group_sends_nothing():
  found = moved(
    '%r = f32[8] all-reduce(%b), replica_groups={{1,2}}, to_apply=%add'
  )
  assert found == {'all-reduce': [0, 32, 32, 0, 0, 0, 0, 0]}


LOOP = """
%body (p: f32[80]) -> f32[80] {
  %p.1 = f32[80]{0} parameter(0)
  ROOT %c = f32[80]{0} collective-permute(%p.1), source_target_pairs={{0,1}}
}

%condition (p: f32[80]) -> pred[] {
  %p.2 = f32[80]{0} parameter(0)
  %m = f32[] all-reduce(%x), replica_groups={}, to_apply=%add
  ROOT %lt = pred[] compare(%m, %y), direction=LT
}
"""
WHILE = '%w = f32[80]{0} while(%p), condition=%condition, body=%body'


@pytest.mark.parametrize(
  'config',
  [
    ', backend_config={"known_trip_count":{"n":"5"},"other":{"n":"3"}}',
    r', backend_config="{\"known_trip_count\":{\"n\":\"5\"}}"',
  ],
)
def test_a_loop_is_counted_for_each_iteration(config):
  found = moved(WHILE + config, rest=LOOP)
  assert found['collective-permute'][0] == 5 * 320
  assert found['all-reduce'] == [6 * 7] * 8  # The condition runs once more.


def test_a_loop_of_unknown_length_is_refused_if_it_communicates():
  with pytest.raises(UserError, match='number of iterations is unknown'):
    moved(WHILE, rest=LOOP)
  silent = LOOP.replace('collective-permute', 'copy').replace(
    'all-reduce', 'reduce'
  )
  assert moved(WHILE, rest=silent) == {}


def test_a_collective_without_a_rule_is_refused():
  with pytest.raises(UserError, match='collective-broadcast'):
    moved('%b = f32[8] collective-broadcast(%p), replica_groups={{0,1}}')
  with pytest.raises(UserError, match='cannot read the replica_groups'):
    moved('%r = f32[8] all-gather(%p), replica_groups=@mesh {"x"}')


def test_an_unnamed_all_reduce_is_served_if_its_reducer_is():
  # XLA for GPUs merges leaves into one buffer and drops the name.
  program = hlo.parse("""HloModule m, num_partitions=8

%region_0.0 (psum.0: f32[], psum.1: f32[]) -> f32[] {
  %psum.1 = f32[] parameter(1), metadata={op_name="served/psum"}
  ROOT %add = f32[] add(%psum.0, %psum.1), metadata={op_name="served/add"}
}

ENTRY %main (p: f32[370]) -> f32[370] {
  %p = f32[370]{0} parameter(0)
  ROOT %r = f32[370]{0} all-reduce(%p), replica_groups={}, to_apply=%region_0.0
}
""")
  (path,) = control_paths(program, program)
  ((transfer, times),) = path
  assert (transfer.served, times) == (True, 1)


BRANCHES = """
%one (p: f32[10]) -> f32[10] {
  %p.1 = f32[10]{0} parameter(0)
  ROOT %c1 = f32[10]{0} collective-permute(%p.1), source_target_pairs={{1,0}}
}

%two (p: f32[10]) -> f32[10] {
  %p.2 = f32[10]{0} parameter(0)
  ROOT %c2 = f32[10]{0} collective-permute(%p.2), source_target_pairs={{2,0}}
}
"""


@pytest.mark.parametrize(
  'literal, branches, source',
  [
    (
      'pred[] constant(true)',
      'true_computation=%two, false_computation=%one',
      2,
    ),
    (
      'pred[] constant(false)',
      'true_computation=%two, false_computation=%one',
      1,
    ),
    ('s32[] constant(0)', 'branch_computations={%one, %two}', 1),
    ('s32[] constant(7)', 'branch_computations={%one, %two}', 2),
    ('s32[] constant(-1)', 'branch_computations={%one, %two}', 2),
  ],
)
def test_a_branch_on_a_constant_is_resolved(literal, branches, source):
  found = moved(
    f'%constant.66 = {literal}, metadata={{op_name="jit(f)/cond (1)"}}',
    f'%copy.3 = {literal.split()[0]} copy(%constant.66)',
    f'%r = (f32[10]{{0}}) conditional(%copy.3, %t, %t), {branches}',
    rest=BRANCHES,
  )
  assert found == {'collective-permute': [40 * (i == source) for i in range(8)]}


def test_branches_are_alternatives_and_may_nest():
  def program(x, *, key):
    hop = lambda k: (
      lambda: lax.ppermute(x, WORKERS, [(i, (i + k) % 8) for i in range(8)])
    )
    inner = lambda: lax.switch(
      key, [hop(1), lambda: lax.pmean(x, WORKERS), lambda: x]
    )
    x = lax.cond(key > 5, inner, lambda: hop(3)() + hop(5)())
    return lax.fori_loop(
      0, 5, lambda _, x: lax.ppermute(x, WORKERS, [(0, 1)]), x
    )

  lowered = (
    executors.executor(8, 'shard_map')
    .run(program)
    .lower(jax.ShapeDtypeStruct((8, 10), jnp.float32), key=jnp.int32(0))
  )
  found = control_paths(
    hlo.parse(lowered.compile().as_text()),
    hlo.parse(lowered.as_text(dialect='hlo')),
  )
  assert {
    sum(k * float(t.compiled_bytes(8)[7]) for t, k in path) for path in found
  } == {0, 40, 70, 80}
  assert {
    sum(k * float(t.compiled_bytes(8)[0]) for t, k in path) for path in found
  } == {200, 240, 270, 280}


def test_the_text_of_the_installed_compiler_is_read_correctly():
  """Every kind of collective, against closed forms, on this machine."""

  def program(x):
    return (
      lax.psum(x, WORKERS),
      lax.all_gather(x[:10], WORKERS),
      lax.psum_scatter(x[:40], WORKERS, tiled=True),
      lax.all_to_all(x[:16], WORKERS, 0, 0, tiled=True),
      lax.ppermute(x, WORKERS, [(0, 1), (2, 2), (3, 0)]),
    )

  lowered = (
    executors.executor(8, 'shard_map')
    .run(program)
    .lower(jax.ShapeDtypeStruct((8, 80), jnp.float32))
  )
  found = moved_by(lowered)
  assert found == {
    'all-reduce': [2 * 7 * 40] * 8,
    'all-gather': [7 * 40] * 8,
    'reduce-scatter': [7 * 20] * 8,
    'all-to-all': [7 * 8] * 8,
    'collective-permute': [320, 0, 0, 320, 0, 0, 0, 0],
  }


def moved_by(lowered):
  (path,) = control_paths(
    hlo.parse(lowered.compile().as_text()),
    hlo.parse(lowered.as_text(dialect='hlo')),
  )
  total = {}
  for transfer, times in path:
    sent = times * np.array(transfer.compiled_bytes(8))
    total[transfer.kind] = sent + total.get(transfer.kind, 0)
  return {kind: sent.astype(int).tolist() for kind, sent in total.items()}


# A sum, merges of pairs, a server.
FEW = ('all_reduce', 'gtopk', 'elastic')


@pytest.mark.parametrize('kind', ['', 'fsdp'])
@pytest.mark.parametrize('name', of_all(FEW))
def test_bytes_within_a_worker_match_the_compiled_program(name, kind):
  inner = inner_devices.inner(2, kind, PARAMS)
  file = importlib.import_module(f'gossipjax.strategies.{name}')
  strategy = inner.exchanging(file.strategy())
  found = agree(
    audit.audit(strategy, PARAMS, 4, [COMMON_PERIOD - 1], inner=inner)
  )
  assert [r.within for r in found[:2]] == [False, True]
  assert found[0].ledger.any() and found[1].ledger.any()
  assert {r.reason for r in found if r.within} <= {''}
