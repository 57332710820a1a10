"""What models keep besides parameters: batch statistics, moving averages.

Every worker keeps its own, as in PyTorch's DistributedDataParallel without
broadcasts. For evaluation they are averaged exactly, and that is billed; with
`config.state_period` also in training.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from gossipjax import executors
from gossipjax.aggregator import Aggregator, Tree, every, stateless
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.traffic import SILENCE, Traffic, digits, from_digits
from gossipjax.training.ledger import Ledger


def mean_state() -> Aggregator:
  """The exact mean of all numbers that are not whole; counters stay."""
  mean = exact_mean()

  def update(tree, step, active):
    leaves, form = jax.tree.flatten(tree)
    real = [i for i, x in enumerate(leaves) if _is_real(x)]
    if not real:
      return tree, SILENCE
    means, _, sent = mean.update([leaves[i] for i in real], (), step, active)
    for i, x in zip(real, means, strict=True):
      leaves[i] = x
    return form.unflatten(leaves), sent

  return stateless(update)


def _is_real(x: jax.Array) -> bool:
  return jnp.issubdtype(x.dtype, jnp.inexact)


def in_training(period: int) -> Aggregator | None:
  """`Strategy.state`: the mean at the end of each `period` steps; 0: never."""
  return every(period, mean_state()) if period else None


def averaging(executor: executors.Executor) -> Callable[[Tree, Ledger], Tree]:
  """The mean state for evaluation.

  Returns:
    (states of all workers, leaves [workers, ...], ledger) -> the mean, leaves
    [...]; what the workers sent for it is entered into the ledger.
  """

  @executor.run
  def program(state):
    mean, _, sent = mean_state().update(state, (), jnp.int32(0))
    return mean, digits(sent)

  def averaged(states: Tree, ledger: Ledger) -> Tree:
    if not jax.tree.leaves(states):
      return states
    means, sent = program(states)
    bill: Traffic = from_digits(executors.gather(executors.rows(sent)))
    ledger.bill(jax.tree.map(lambda x: x[:, None], bill))
    return jax.tree.map(lambda x: x[0], means)

  return averaged
