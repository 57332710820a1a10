"""A fleet for rounds of all workers, which keeps their states in one stack."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax import collectives
from gossipjax.collectives import WORKERS
from gossipjax.simulation.fleet import (
  Fleet,
  Given,
  State,
  round_traffic_of,
  rows_of,
)
from gossipjax.traffic import pack_traffic, unpack_traffic
from gossipjax.training.optimizer import eval_params
from gossipjax.training.worker_program import WorkerProgram


def stacked_fleet(program: WorkerProgram, given: Given, size: int) -> Fleet:
  """Makes the fleet of synchronous rounds.

  Args:
    program: of each worker.
    given: (worker, step) -> examples for `program.gradient`.
    size: number of workers.
  """
  round_ = functools.partial(_round, program)
  run_round = _round_functions(round_, size)
  arguments = functools.partial(_arguments, size)
  traffic = round_traffic_of(round_, arguments)

  def round_traffic(state, who, step):
    find_bill = (
      traffic.compute if traffic.depends(state, who) else traffic.look_up
    )
    return state, find_bill(state, who, step)

  return Fleet(
    hold=lambda state: state,
    state=lambda state: state,
    params=lambda state: eval_params(
      state.workers.opt, state.workers.params, 1
    ),
    model_state=lambda state: state.workers.state,
    center=lambda state: None,
    start=_starting(program, given),
    round_traffic=round_traffic,
    run_round=run_round,
    run_silent_round=_run_silent_round(round_, size, run_round),
    fetch=_fetching(),
  )


def _arguments(size, state, who):
  """Arguments of a round, with None for `who` if all attend: no gather."""
  attending = None if len(who) == size else np.int32(who)
  return state.workers, state.gradients, attending


def _round(program, workers, grads, who, step):

  def update(worker, grads):
    worker, sent = program.update(worker, grads, step)
    return worker, pack_traffic(sent)

  return _over_workers(update, rows_of(workers, who), rows_of(grads, who))


def _starting(program: WorkerProgram, given: Given) -> Any:
  """`Fleet.start`."""

  def take_gradient(held, params, examples, worker, step):
    (grads, states), losses = held
    row = rows_of((params, states), worker)
    (loss, after), grad = program.gradient(*row, examples, worker, step)
    updated = _put_back((grads, states), (grad, after), worker)
    return updated, losses.at[worker].set(loss)

  def start(state, worker, step):
    workers = state.workers
    (grads, states), losses = take(
      ((state.gradients, workers.state), state.losses),
      workers.params,
      given(worker, step),
      np.int32(worker),
      np.int32(step),
    )
    return State(workers._replace(state=states), grads, losses)

  take = jax.jit(take_gradient, donate_argnums=0)
  return start


def _round_functions(round_, size: int) -> Any:
  """`Fleet.run_round`."""
  # A separate program writes the rows back: if one program reads and writes
  # them, XLA copies all workers first, at nine times a CNN's gradient.
  of_some, put = jax.jit(round_), jax.jit(_put_back, donate_argnums=0)
  of_all = jax.jit(round_, donate_argnums=0)

  def run_round(state, who, step):
    args = (*_arguments(size, state, who), np.int32(step))
    if len(who) == size:
      workers, sent = of_all(*args)
    else:
      rows, sent = of_some(*args)
      workers = put(state.workers, rows, np.int32(who))
    losses = np.asarray(state.losses)[list(who)]
    return state._replace(workers=workers), losses, unpack_traffic(sent)

  return run_round


def _run_silent_round(round_, size: int, run_round) -> Any:
  """`Fleet.run_silent_round`; runs the round of all workers, because a strategy
  may have no program for the few that are left."""
  of_all, put = jax.jit(round_), jax.jit(_put_back, donate_argnums=0)

  def run_silent_round(state, who, step):
    if len(who) == size:
      return run_round(state, who, step)
    alive = np.int32(who)
    after, sent = of_all(state.workers, state.gradients, None, np.int32(step))
    workers = put(state.workers, rows_of(after, alive), alive)
    losses = np.asarray(state.losses)[alive]
    return state._replace(workers=workers), losses, unpack_traffic(sent[alive])

  return run_silent_round


def _fetching() -> Any:
  """`Fleet.fetch`."""
  adopt, put = jax.jit(_adopt), jax.jit(_put_back, donate_argnums=0)
  bill = jax.jit(lambda workers, who: _adopt(workers, who)[1])

  def fetch(state, worker, giver, dry_run):
    who = np.int32([worker, giver])
    if dry_run:
      return state, unpack_traffic(bill(state.workers, who))
    rows, sent = adopt(state.workers, who)
    workers = put(state.workers, rows, who)
    return state._replace(workers=workers), unpack_traffic(sent)

  return fetch


def _adopt(workers, who):
  """Copies parameters and optimizer state of the second worker to the first."""

  def of_worker(worker):
    mine, late = (worker.params, worker.opt), lax.axis_index(WORKERS) == 0
    theirs, _, sent = collectives.read(mine, (1, 1), late)
    params, opt = jax.tree.map(lambda t, x: jnp.where(late, t, x), theirs, mine)
    return worker._replace(params=params, opt=opt), pack_traffic(sent)

  return _over_workers(of_worker, rows_of(workers, who))


def _over_workers(function, *args):
  return jax.vmap(function, axis_name=WORKERS)(*args)


def _put_back(tree, rows, who):
  return jax.tree.map(lambda x, new: x.at[who].set(new), tree, rows)
