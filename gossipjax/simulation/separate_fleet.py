"""A fleet for rounds of one or two workers: each worker has its own arrays.

A stack of all workers would need gathers and scatters in memory larger than any
cache.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import async_exchange
from gossipjax.collectives import WORKERS
from gossipjax.simulation.fleet import Fleet, Given, State, round_traffic_of
from gossipjax.simulation.one_worker import (
  Single,
  attend,
  gradient_of,
  with_state,
)
from gossipjax.simulation.server_leaves import Layout, center_of
from gossipjax.traffic import unpack_traffic
from gossipjax.training.optimizer import eval_params
from gossipjax.training.worker_program import WorkerProgram


class Separate(NamedTuple):
  """The states of all workers, as they lie in memory."""

  singles: tuple[Single, ...]
  server: list[jax.Array]  # Leaves of `Worker` that a server holds for all.
  computed: Any = None  # (states, results of a round) of the last bill.


def separate_fleet(
  program: WorkerProgram, given: Given, layout: Layout, kind: str
) -> Fleet:
  """Makes the fleet of asynchronous events.

  Args:
    program: of each worker.
    given: (worker, step) -> examples for `program.gradient`.
    layout: which leaves of a worker are a server's.
    kind: of the exchange, see async_exchange.py.
  """

  def params(held):
    joined = [layout.joined(s.own, held.server) for s in held.singles]
    return _stacked([eval_params(w.opt, w.params) for w in joined])

  def center(held):
    if not held.server:
      return None
    worker = layout.joined(held.singles[0].own, held.server)
    form = jax.tree.structure(worker.params)
    return jax.tree.unflatten(form, center_of(worker))

  def model_state(held):
    joined = [layout.joined(s.own, held.server) for s in held.singles]
    return _stacked([worker.state for worker in joined])

  round_traffic, run_round = _round_functions(program, layout, kind)
  return Fleet(
    hold=functools.partial(_hold, layout),
    state=functools.partial(_state, layout),
    params=params,
    model_state=model_state,
    center=center,
    start=_starting(program, given, layout),
    round_traffic=round_traffic,
    run_round=run_round,
  )


def _hold(layout: Layout, state: State) -> Separate:
  leaves = jax.tree.leaves(state.workers)
  stacked = jax.tree.map(
    jnp.asarray, Single(layout.part(leaves, False), *state[1:])
  )
  row = jax.jit(lambda tree, i: jax.tree.map(lambda x: x[i], tree))
  count = len(state.losses)
  singles = tuple(row(stacked, i) for i in range(count))
  return Separate(singles, layout.part(leaves, True))


def _state(layout: Layout, held: Separate) -> State:
  own, gradients, losses = _stacked(held.singles)
  workers = layout.joined(own, held.server)
  return State(workers, gradients, losses.astype(jnp.float32))


def _with(held: Separate, i: int, **changes: Any) -> Separate:
  singles = list(held.singles)
  singles[i] = singles[i]._replace(**changes)
  return held._replace(singles=tuple(singles))


def _starting(program: WorkerProgram, given: Given, layout: Layout) -> Any:
  """`Fleet.start`."""
  take = gradient_of(program, given, layout)

  def start(held, worker, step):
    own = held.singles[worker].own
    state, gradient, loss = take(own, held.server, worker, step)
    own = with_state(own, state)
    return _with(held, worker, own=own, gradient=gradient, loss=loss)

  return start


def _round_functions(program: WorkerProgram, layout: Layout, kind: str) -> Any:
  """`Fleet.round_traffic` and `Fleet.run_round`."""
  stepping = lambda who: who if kind == async_exchange.VISIT else who[:1]

  def arguments(held, who):
    own = [held.singles[i].own for i in who]
    return own, held.server, [held.singles[i].gradient for i in stepping(who)]

  inputs = lambda held, who: [*(held.singles[i] for i in who), held.server]
  round_ = functools.partial(_round, program, layout, kind)
  undonated, compute = jax.jit(round_), jax.jit(round_, donate_argnums=0)
  traffic = round_traffic_of(round_, arguments)

  def round_traffic(held, who, step):
    if not traffic.depends(held, who):
      return held, traffic.look_up(held, who, step)
    results = undonated(*arguments(held, who), np.int32(step))
    held = held._replace(computed=(inputs(held, who), results))
    return held, unpack_traffic(results[-1])

  def run_round(held, who, step):
    old_inputs, results = held.computed or ((), None)
    if [*map(id, old_inputs)] != [*map(id, inputs(held, who))]:
      # A state changed since `round_traffic`: compute the round again. A buffer
      # can be donated once, so nothing is donated if a worker appears twice.
      run = compute if len({*who}) == len(who) else undonated
      results = run(*arguments(held, who), np.int32(step))
    rows, server, sent = results
    for i, own in zip(who, rows, strict=True):
      held = _with(held, i, own=own)
    losses = jax.device_get([held.singles[i].loss for i in stepping(who)])
    return (
      Separate(held.singles, server),
      np.float32(losses),
      unpack_traffic(sent),
    )

  return round_traffic, run_round


def _round(program, layout, kind, own, server, gradients, step):
  """Computes a round of the workers whose leaves and gradients are given."""
  visits, update = kind == async_exchange.VISIT, attend(program, layout, kind)
  gradient, axis = (_stacked(gradients), 0) if visits else (gradients[0], None)
  rows, server, sent = jax.vmap(
    lambda own, gradient: update(own, server, gradient, step),
    axis_name=WORKERS,
    in_axes=(0, axis),
    out_axes=(0, None, 0),
  )(_stacked(own), gradient)
  return [[x[i] for x in rows] for i in range(len(own))], server, sent


def _stacked(trees: Sequence[Any]) -> Any:
  return jax.tree.map(lambda *each: jnp.stack(each), *trees)
