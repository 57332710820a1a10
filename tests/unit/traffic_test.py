"""Bills are exact integers, wherever they are added up."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossipjax.traffic import (
  SILENCE,
  Count,
  Traffic,
  at_once,
  nbytes,
  pack_traffic,
  unpack_traffic,
)

LIMIT = 2**52
exactly = settings(max_examples=200, deadline=None, derandomize=True)
# Numbers of every magnitude, and some around powers of two, such as 2^20, the
# base of the two digits of a Count.
numbers = st.integers(0, 10**15) | st.integers(0, 50).flatmap(
  lambda bits: st.integers(max(0, 2**bits - 2), 2**bits + 2)
)
factors = st.integers(0, 4095)


@given(numbers)
@exactly
def test_a_count_reads_as_the_number_it_was_made_of(value):
  assert int(Count.of(value)) == value


@given(numbers, numbers)
@exactly
def test_a_sum_equals_that_of_python_integers(a, b):
  assert int(Count.of(a) + Count.of(b)) == a + b


@given(numbers, factors)
@exactly
def test_a_product_with_a_small_factor_equals_that_of_python_integers(a, n):
  a = min(a, (LIMIT - 1) // max(n, 1))
  assert int(Count.of(a) * n) == a * n


@given(st.lists(numbers, min_size=1, max_size=4), st.booleans())
@exactly
def test_sums_in_a_compiled_program_are_exact(values, present):
  assert int(_total(Count.of(values), present)) == sum(values) * present


@jax.jit
def _total(counts, present):
  total = Count.of(0)
  for i in range(counts.low.size):
    total += counts.at(i)
  return total * present


@pytest.mark.exhaustive
@given(st.lists(numbers, min_size=3, max_size=3), st.integers(0, 2))
@settings(exactly, max_examples=50)
def test_counts_are_exact_in_batches_and_branches(values, index):
  batch = jax.vmap(lambda c: c + c)(Count.of(values))
  assert batch[:].tolist() == [2 * v for v in values]

  branch = jax.lax.cond(
    index > 0,
    lambda c: c.at(index) + Count.of(1),
    lambda c: c.at(0),
    jax.tree.map(jnp.asarray, Count.of(values)),
  )
  assert int(branch) == values[index] + (index > 0)


@given(
  st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=4)
)
@exactly
def test_sums_and_maxima_on_the_host_are_exact(table):
  counts, table = Count.of(table), np.asarray(table, np.int64)
  np.testing.assert_array_equal(counts, table)
  np.testing.assert_array_equal(counts.sum(axis=0), table.sum(axis=0))
  assert counts.sum() == table.sum() and counts.max() == table.max()


@pytest.mark.parametrize('value', [-1, LIMIT, 2**63, 2**70, [1, -2]])
def test_a_value_out_of_range_of_a_count_is_refused(value):
  with pytest.raises(ValueError, match=r'within \[0, 4\.5e15\]'):
    Count.of(value)


@pytest.mark.parametrize('value', [0.5, np.float64(1e9) / 3])
def test_a_count_of_fractions_is_refused(value):
  with pytest.raises(ValueError, match=r'integer'):
    Count.of(value)


def test_the_largest_count_is_exact():
  assert int(Count.of(LIMIT - 1)) == LIMIT - 1 > 4.5e15


def test_a_bill_by_default_receives_what_it_sends():
  bill = Traffic.of(7, 3)
  assert [int(c) for c in bill.counts()] == [7, 7, 3, 3, 7, *[0] * 5]
  bill = Traffic.of(7, 3, received=1, rounds=2, path_bytes=9)
  assert [int(c) for c in bill.counts()] == [7, 1, 3, 2, 9, *[0] * 5]


def test_bills_add_up_and_absent_workers_are_billed_nothing():
  bill = Traffic.of(7, 3) + SILENCE + Traffic.of(10**15, 1)
  assert int(bill.bytes) == 10**15 + 7 and int(bill.messages) == 4
  present = jnp.array([True, False])
  bills = jax.vmap(lambda active: bill * active)(present)
  np.testing.assert_array_equal(bills.bytes, [10**15 + 7, 0])
  np.testing.assert_array_equal(bills.rounds, [4, 0])
  assert bill * True is bill


def test_simultaneous_exchanges_share_a_link_and_await_the_slowest():
  bills = [
    Traffic.of(2**21 - 1, 3, rounds=2**20 + 1) + Traffic.inside(5, 2),
    Traffic.of(2**21 - 1, 1, rounds=2**20) + Traffic.inside(6, 3),
  ]
  each = jax.tree.map(lambda *x: jnp.stack(x), *bills)
  found = [int(c) for c in at_once(each).counts()]
  sent = 2 * (2**21 - 1)
  assert found == [sent, sent, 4, 2**20 + 1, sent, *[0] * 3, 11, 3]
  together = unpack_traffic(jax.vmap(pack_traffic)(each)[None], of=2)
  assert [int(c[0]) for c in together.counts()] == found


def test_the_size_of_a_message_is_that_of_its_arrays():
  message = {
    'codes': jnp.zeros((3, 5), jnp.int8),
    'flag': jnp.bool_(True),
    'scale': jnp.float32(1),
    'half': jnp.zeros(2, jnp.bfloat16),
  }
  assert nbytes(message) == 15 + 1 + 4 + 4


@pytest.mark.exhaustive
def test_importing_the_package_does_not_start_jax():
  # Otherwise devices could no longer be emulated.
  program = """
import importlib, pkgutil, gossipjax
for module in pkgutil.walk_packages(gossipjax.__path__, 'gossipjax.'):
  importlib.import_module(module.name)
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
from gossipjax import executors
executors.emulate(3)
import jax
assert jax.device_count() == 3
"""
  subprocess.run([sys.executable, '-c', program], check=True, timeout=120)


def test_simultaneous_exchanges_await_the_slowest_in_groups_too():
  import dataclasses

  import jax

  bills = [
    dataclasses.replace(
      Traffic.of([10, 10], [4, 4]),
      local_rounds=Traffic.of([rounds] * 2, [0] * 2).bytes,
    )
    for rounds in (2, 3)
  ]
  each = jax.tree.map(lambda *x: np.stack(x), *bills)
  assert np.asarray(at_once(each).local_rounds).tolist() == [3, 3]
