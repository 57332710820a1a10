"""What models keep besides parameters: batch statistics, moving averages.

Every worker keeps its own, as in PyTorch's DistributedDataParallel without
broadcasts; the devices of a worker average theirs after every step. For
evaluation, all workers average theirs exactly, which is billed separately; with
`config.state_period` they do so in training, too, as a part of the method.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import collectives, executors
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  Tree,
  every,
  identity,
  stateless,
)
from gossipjax.devices.inner_devices import Inner
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.traffic import SILENCE, Traffic, pack_traffic, unpack_traffic
from gossipjax.training.ledger import Ledger


class EvalStates(NamedTuple):
  """States of the models that are evaluated, leaves [...]."""

  mean: Tree  # Over all workers; that of the mean model.
  first: Tree  # Worker 0's own.


def mean_state() -> Aggregator:
  """The exact mean of all floating-point leaves; integers stay as they are."""
  mean = exact_mean()

  def update(tree, step, active):
    def move(real):
      means, _, sent = mean.update(real, (), step, active)
      return means, sent

    return _of_real(move, tree)

  return stateless(update)


def inner_mean(state: Tree) -> tuple[Tree, Traffic]:
  """The same mean, over the devices of a worker, and its bill."""
  return _of_real(collectives.inner_mean, state)


def _of_real(
  move: Callable[[list[jax.Array]], tuple[list[jax.Array], Traffic]],
  tree: Tree,
) -> tuple[Tree, Traffic]:
  """Applies `move` to floating-point leaves; integers stay as they are."""
  leaves, form = jax.tree.flatten(tree)
  real = [
    i for i, x in enumerate(leaves) if jnp.issubdtype(x.dtype, jnp.inexact)
  ]
  if not real:
    return tree, SILENCE
  moved, sent = move([leaves[i] for i in real])
  for i, x in zip(real, moved, strict=True):
    leaves[i] = x
  return jax.tree.unflatten(form, leaves), sent


def in_training(period: int) -> Aggregator | None:
  """`Strategy.state`: the mean at the end of each `period` steps; 0: never."""
  return every(period, mean_state()) if period else None


def averaging(
  executor: executors.Executor, inner: Inner
) -> Callable[..., EvalStates]:
  """Makes a function that averages the workers' states for evaluation.

  Returns:
    (states, ledger, who=None) -> their mean and the first one. The states are
    rows of the executor for all workers or, under vmap, for the workers `who`
    if the others are absent. The bytes sent for the mean are entered into the
    ledger as traffic of evaluation.
  """
  strategy = Strategy(identity(), identity(), state=mean_state())
  mean_of_all = inner.exchanging(strategy).state

  @executor.run
  def program(state):
    mean, _, sent = mean_of_all.update(state, (), jnp.int32(0))
    return mean, pack_traffic(sent)

  def averaged(
    states: Tree, ledger: Ledger, who: Sequence[int] | None = None
  ) -> EvalStates:
    if not jax.tree.leaves(states):
      return EvalStates(states, states)
    means, sent = program(states)
    packed = executors.gather(executors.to_host(sent))
    bill: Traffic = unpack_traffic(packed, inner.devices)
    payers = slice(None) if who is None else np.array(who)
    ledger.evaluation[payers] += np.asarray(bill.bytes) + np.asarray(bill.inner)
    first = (0,) if inner.devices == 1 else (0, 0)
    take = lambda tree: jax.tree.map(lambda x: x[first], tree)
    return EvalStates(take(means), take(states))

  return averaged
