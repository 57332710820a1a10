"""One step of one worker: aggregate, optimize, aggregate. All runs use it."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax import aggregator as agg
from gossipjax import collectives
from gossipjax.errors import UserError, check_kind
from gossipjax.norms import needs_floats
from gossipjax.traffic import SILENCE, Traffic
from gossipjax.transforms import checked


class Worker(NamedTuple):
  """The state of one worker."""

  params: agg.Tree
  opt: optax.OptState
  gradients: agg.State  # Memory of the gradient aggregator.
  parameters: agg.State  # Memory of the parameter aggregator.
  moments: agg.State = ()  # Memory of the aggregator of optimizer states.
  state: agg.Tree = ()  # The model's other state, such as batch statistics.


def probe(strategy: agg.Strategy, rate: float) -> optax.GradientTransformation:
  """Returns the optimizer with which the traffic of a strategy is measured.

  It is SGD, which has no state, or, for strategies that exchange moments, Adam,
  which has two moments.
  """
  return optax.adam(rate) if strategy.moments else optax.sgd(rate)


def make_worker(
  strategy: agg.Strategy, optimizer: optax.GradientTransformation
):
  """Returns the pure functions of one worker.

  Args:
    strategy: all of its aggregators run.
    optimizer: the local optimizer, which sees no other worker.

  Returns:
    `init(params, state=()) -> Worker`, and `update(worker, grads, step,
    stepping=True, talking=True) -> (Worker, Traffic)`; init raises a
    UserError for integer parameters.
  """

  def init(params, state=()) -> Worker:
    needs_floats(params, 'A tree of parameters', jnp.inexact)
    opt = optimizer.init(params)
    gradients = strategy.gradients.init(params)
    parameters = strategy.parameters.init(params)
    moments = strategy.moments.init(opt) if strategy.moments else ()
    return Worker(params, opt, gradients, parameters, moments, state)

  def update(worker, grads, step, stepping=True, talking=True):
    """Takes a local step if `stepping`, and exchanges if `talking`."""
    grads, gradients, sent_g = strategy.gradients.update(
      grads, worker.gradients, step, talking
    )
    updates, opt = optimizer.update(grads, worker.opt, worker.params)
    stepped = optax.apply_updates(worker.params, updates)
    params, opt = agg.select(
      stepping, (stepped, opt), (worker.params, worker.opt)
    )
    params, parameters, sent_p = strategy.parameters.update(
      params, worker.parameters, step, talking
    )
    sent, moments = sent_g + sent_p, worker.moments
    if strategy.moments:
      opt, moments, cost = strategy.moments.update(opt, moments, step, talking)
      sent += cost
    state, sent_s = _exchanged_state(strategy, worker.state, step, talking)
    worker = Worker(params, opt, gradients, parameters, moments, state)
    return worker, sent + sent_s

  return init, update


def _exchanged_state(strategy: agg.Strategy, state: agg.Tree, step, talking):
  """The model's state besides parameters after its exchange, and the bill."""
  if strategy.state is None:
    return state, SILENCE
  state, _, sent = strategy.state.update(state, (), step, talking)
  return state, sent


class LoopState(NamedTuple):
  """The state of one worker in a user's own training loop.

  Attributes:
    worker: its parameters, optimizer and memories.
    step: i32[], steps so far.
    sent_total: Traffic of all steps.
  """

  worker: Worker
  step: jax.Array
  sent_total: Traffic

  @property
  def params(self) -> agg.Tree:
    """The worker's parameters."""
    return self.worker.params


class Loop(NamedTuple):
  """A strategy and an optimizer for a user's own training loop.

  Attributes:
    init: parameters -> LoopState.
    update: (LoopState, gradients) -> (LoopState, Traffic of this step).
  """

  init: Callable[[agg.Tree], LoopState]
  update: Callable[..., tuple[LoopState, Traffic]]


def worker(
  strategy: agg.Strategy,
  tx: optax.GradientTransformation,
  axis: collectives.Axis = collectives.WORKERS,
  inner: collectives.Axis | None = None,
) -> Loop:
  """Returns the functions of one worker for a user's own training loop.

  Unlike `as_optax`, it also takes strategies that exchange parameters. Both
  functions run once per worker under an axis name, for example inside
  `jax.shard_map`; their results vary along that axis.

  Args:
    strategy: all of it is used except the aggregator of model states.
    tx: the local optimizer.
    axis: the name of the workers' axis, or names of several.
    inner: the axis of the devices of a worker, see `as_optax`.

  Returns:
    `init(params) -> state` and `update(state, grads) -> (state, sent)`, of
    trees of one worker. `state.params` is like the parameters; `sent` is the
    Traffic of the step (bytes, messages and rounds of this worker).

  Raises:
    UserError: an argument has the wrong type, or the strategy raises it, for
      example because its topology does not fit the number of workers.
  """
  for name, part, kind in (
    ('strategy', strategy, agg.Strategy),
    ('optimizer', tx, optax.GradientTransformation),
  ):
    check_kind(f'worker: the {name}', part, kind)
  strategy = checked.of_strategy('worker: the strategy', strategy)
  begin, step = make_worker(strategy, tx)

  def init(params):
    return LoopState(begin(params), jnp.int32(0), SILENCE)

  def update(state, grads):
    collectives.check_gradients(grads, axis, 'worker')
    _check_alike(grads, state.params)
    return on_axis(updated)(state, grads)

  def updated(state, grads):
    worker, sent = step(state.worker, grads, state.step)
    return LoopState(worker, state.step + 1, state.sent_total + sent), sent

  on_axis = lambda program: collectives.bind_axis(axis, program, inner)
  return Loop(on_axis(init), update)


def _check_alike(grads: agg.Tree, params: agg.Tree) -> None:
  shapes = lambda tree: [jnp.shape(x) for x in jax.tree.leaves(tree)]
  form = lambda tree: (jax.tree.structure(tree), shapes(tree))
  if form(grads) != form(params):
    same = shapes(grads) == shapes(params)
    forms = [
      (jax.tree.structure if same else shapes)(x) for x in (grads, params)
    ]
    raise UserError(
      'worker: gradients and parameters are different trees: '
      f'{forms[0]!s:.200} and {forms[1]!s:.200}.'
    )
