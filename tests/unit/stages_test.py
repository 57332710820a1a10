"""Stages of a compiled program, and the bytes that each instruction touches."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from benchmarks import passes, stages
from benchmarks.accelerator import compiled
from gossipjax import collectives, executors
from gossipjax.advice import step_traffic
from gossipjax.audit import hlo
from gossipjax.compressors import Sparse, largest, merging, packing
from gossipjax.config import resolve
from gossipjax.profiling import (
  instruction_bytes,
  instruction_stages,
  stage_times,
)
from gossipjax.strategies import des_loc, topk

N, K = 100_000, 10


def stages_and_bytes(function, *like):
  """Stages of the instructions that touch memory; bytes [read, written]."""
  run = jax.jit(function).lower(*like).compile()
  module = hlo.parse(run.as_text())
  stage = instruction_stages.stages(run.as_text(), module)
  touched = {
    i.name: [
      instruction_bytes.size(x)
      for x in instruction_bytes.touched(module, body, i)
    ]
    for body in instruction_bytes.bodies(module)
    for i in body.values()
  }
  return (
    {stage[name] for name, both in touched.items() if any(both)},
    np.sum(list(touched.values()), axis=0),
  )


x = jax.ShapeDtypeStruct((N,), 'f4')
few = Sparse(jnp.ones(K), jnp.arange(K, dtype=jnp.int32))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'stage, function, like',
  [
    ('select', lambda x: largest.ascending(x, K), [x]),
    ('merge', lambda a: merging.split(merging.merge(a, a, N), K, N), [few]),
    ('pack', lambda x: packing.pack(x > 0, 1), [x]),
    (
      'exchange',
      executors.on_one_device(lambda x: collectives.swap(x, [1, 2, 0])),
      [jax.ShapeDtypeStruct((3, N), 'f4')],
    ),
    ('apply', lambda x, y: optax.apply_updates(x, y), [x, x]),
  ],
)
def test_each_instruction_is_assigned_to_its_stage(stage, function, like):
  assert stages_and_bytes(function, *like)[0] == {stage}


@pytest.mark.parametrize(
  'function, like, read, written',
  [
    (lambda x, y: x + y, [x, x], 2 * N, N),
    (lambda x: x.sum(), [x], N, 1),
    (lambda x, i: x[i], [x, few.indices], 2 * K, K),
    (lambda x: x[5 : 5 + K] + 1, [x], K, K),
  ],
)
def test_bytes_that_instructions_read_and_write_are_counted(
  function, like, read, written
):
  # Up to a scalar or two, and a converted list of indices.
  np.testing.assert_allclose(
    stages_and_bytes(function, *like)[1], [4 * read, 4 * written], atol=16 * K
  )


def test_a_scatter_in_place_does_not_pass_over_all_entries():
  add = lambda x, few: x.at[few.indices].add(few.values, mode='drop')
  run = jax.jit(add, donate_argnums=0).lower(x, few).compile()
  assert not passes.passes(run.as_text(), N).any()
  copied = jax.jit(add).lower(x, few).compile()
  np.testing.assert_array_equal(passes.passes(copied.as_text(), N), [1, 1])


@pytest.mark.exhaustive
def test_the_stages_of_a_step_are_timed():
  grads = jnp.asarray(
    np.random.default_rng(0).standard_normal((2, N), np.float32)
  )
  step = stages.stepping(topk.strategy(0.001), grads)
  turn = next(stages.turns(step, stages.reading(grads)))
  assert turn.keys() == {*stages.COLUMNS}
  assert turn['select'] > 0 and turn['apply'] > 0 and turn['merge'] == 0
  # The overhead of starting instructions depends on the load of the machine.
  assert turn['covered'] > 0 and 1 < turn['bytes'] < 10
  sums = sum(turn[name] for name in instruction_stages.STAGES)
  assert sums == pytest.approx(turn['step'] * turn['covered'])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name', [name for name in resolve.STRATEGIES if stages.every_step(name)]
)
def test_each_timed_step_sends_what_the_defaults_send_at_most(name):
  def sent(arguments, steps):
    strategy = resolve.strategy(resolve.strategy_config(name, **arguments))
    traffic = step_traffic.per_step(strategy, stages.shapes(220_234), 4, steps)
    return np.asarray(traffic.sent.bytes, float)

  at_most = sent({}, [compiled.COMMON_PERIOD - 1])
  assert at_most.min() > 0
  assert (sent(stages.arguments(name, 0.01), range(2)) >= at_most).all()


def test_a_strategy_that_exchanges_moments_is_timed_with_moments():
  step = stages.stepping(des_loc.strategy(1, 1, 1), jnp.ones((2, 4)))
  moments, *_ = step.call().opt
  np.testing.assert_allclose(moments.mu, 0.1)


def plane(name, **lines):
  """A plane of a trace; events by line, each (name, stats, nanoseconds)."""
  event = lambda name, stats, ns: SimpleNamespace(
    name=name, stats=stats.items(), duration_ns=ns
  )
  return SimpleNamespace(
    name=name,
    lines=[
      SimpleNamespace(name=line, events=[event(*e) for e in events])
      for line, events in lines.items()
    ],
  )


def test_a_kernel_that_a_trace_lists_twice_is_counted_once():
  kernel = ('input_reduce', {'hlo_op': 'fusion.1'}, 7)
  by_instruction = {'XLA Ops': [('fusion.1', {}, 7)]}
  host = plane('/host:CPU', python=[('fusion.1', {}, 100)])
  streams = {'Stream #13(Compute)': [kernel, kernel], 'Stream #14': [kernel]}
  found = lambda **lines: sum(
    e.duration_ns
    for e in stage_times._events([host, plane('/device:GPU:0', **lines)])
    if stage_times._instruction(e, {'fusion.1'})
  )
  assert found(**streams, **by_instruction) == 21
  assert found(**by_instruction) == 7
  assert sum(e.duration_ns for e in stage_times._events([host])) == 100


def test_an_instruction_of_several_kernels_counts_as_one_execution():
  histogram, sort = ('histogram', 3), ('one_sweep', 5)
  events = [
    SimpleNamespace(name=name, stats=[('hlo_op', 'sort.1')], duration_ns=ns)
    for name, ns in (histogram, sort, sort, sort) * 2
  ]
  # A kernel with the name of another instruction.
  events.append(
    SimpleNamespace(name='fusion', stats=[('hlo_op', 'other')], duration_ns=1)
  )
  seconds, executions = stage_times.count(events, {'sort.1', 'fusion'})
  assert executions == {'sort.1': 2}
  assert seconds == pytest.approx({'sort.1': 36e-9})
