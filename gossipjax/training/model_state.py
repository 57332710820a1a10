"""What models keep besides parameters: batch statistics, moving averages.

Every worker keeps its own, as in PyTorch's DistributedDataParallel without
broadcasts; the devices of a worker average theirs after every step. For
evaluation those of all workers are averaged exactly, and that is billed apart;
with `config.state_period` also in training, as a part of the method.
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
from gossipjax.traffic import SILENCE, Traffic, digits, from_digits
from gossipjax.training.ledger import Ledger


class Judged(NamedTuple):
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
  """The mean over the devices of a worker, likewise, and its bill."""
  return _of_real(collectives.inner_mean, state)


def _of_real(
  move: Callable[[list[jax.Array]], tuple[list[jax.Array], Traffic]],
  tree: Tree,
) -> tuple[Tree, Traffic]:
  """`move` of the leaves that are not whole numbers; the others stay."""
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
) -> Callable[..., Judged]:
  """The states for evaluation.

  Returns:
    (states, ledger, who=None) -> their mean and the first one. The states are
    of all workers, rows of the executor, or under vmap of those in `who`, the
    others being away; what they sent for the mean is entered into the ledger,
    as traffic of evaluation.
  """
  everyone = Strategy(identity(), identity(), state=mean_state())
  mean_of_all = inner.exchanging(everyone).state

  @executor.run
  def program(state):
    mean, _, sent = mean_of_all.update(state, (), jnp.int32(0))
    return mean, digits(sent)

  def averaged(
    states: Tree, ledger: Ledger, who: Sequence[int] | None = None
  ) -> Judged:
    if not jax.tree.leaves(states):
      return Judged(states, states)
    means, sent = program(states)
    found = executors.gather(executors.rows(sent))
    bill: Traffic = from_digits(found, inner.devices)
    paid = slice(None) if who is None else np.array(who)
    ledger.evaluation[paid] += np.asarray(bill.bytes) + np.asarray(bill.inner)
    first = (0,) if inner.devices == 1 else (0, 0)
    take = lambda tree: jax.tree.map(lambda x: x[first], tree)
    return Judged(take(means), take(states))

  return averaged
