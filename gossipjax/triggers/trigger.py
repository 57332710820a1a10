"""The type Trigger, limits on the steps between exchanges, and norms."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import norms
from gossipjax.aggregator import Tree, select
from gossipjax.errors import UserError

Memory = Any
LEAST = 1e-12  # A smaller norm counts as zero, and no drift is relative to it.


class Trigger(NamedTuple):
  """Decides from the parameters of one worker whether it starts an exchange.

  A part is the tree of these parameters: one layer or the whole model.

  Attributes:
    init: `part -> memory`.
    update: `(part, memory, step, who) -> (wants, memory)`, after each local
      step. `wants`, bool[], says whether the worker starts an exchange; `who`
      is the worker's number, or 0 if all decide together.
    settle: `(part, memory, reset) -> memory`, after a possible exchange;
      `reset`, bool[], says whether one took place that resets the trigger.
    shared: whether `wants` depends on `step` and `who` only.
    per_layer: whether its paper applies it to each layer, not to the model.
  """

  init: Callable[[Tree], Memory]
  update: Callable[..., tuple[jax.Array, Memory]]
  settle: Callable[..., Memory]
  shared: bool = False
  per_layer: bool = False


class Bounded(NamedTuple):
  inner: Memory
  since: jax.Array  # i32[]; steps since the last exchange.


def bounded(
  trigger: Trigger, shortest: int = 1, longest: int | None = None
) -> Trigger:
  """Lets a worker start exchanges `shortest` to `longest` steps after its last
  one; None is no limit.

  Raises:
    UserError: shortest is below 1 or longest below shortest.
  """
  at_least(1, shortest=shortest)
  if longest is not None and longest < shortest:
    raise UserError(
      f'longest={longest} steps is less than shortest={shortest}.'
    )
  if shortest == 1 and longest is None:
    return trigger

  def update(part, memory, step, who):
    since = memory.since + 1
    wants, inner = trigger.update(part, memory.inner, step, who)
    wants &= since >= shortest
    if longest is not None:
      wants |= since >= longest
    return wants, Bounded(inner, since)

  def settle(part, memory, reset):
    return Bounded(
      trigger.settle(part, memory.inner, reset),
      jnp.where(reset, 0, memory.since),
    )

  return trigger._replace(
    init=lambda part: Bounded(trigger.init(part), jnp.int32(0)),
    update=update,
    settle=settle,
    shared=False,
  )


def of_first(trigger: Trigger) -> Trigger:
  """A trigger for rounds in which only worker 0 has stepped: only it decides.

  In an asynchronous exchange, the worker that has stepped is number 0. All
  workers therefore draw the same numbers of `random`, each by its own steps.
  """

  def update(part, memory, step, who):
    wants, new_memory = trigger.update(part, memory, step, who)
    return wants & (who == 0), select(who == 0, new_memory, memory)

  return trigger._replace(update=update, shared=False)


def divisor(tree: Tree) -> jax.Array:
  """The l2 norm of a tree, f32[], at least LEAST for use as a divisor."""
  return jnp.maximum(norms.norm(tree), LEAST)


def at_least(least: float, **numbers: float) -> None:
  """Raises a UserError that names a number below `least`."""
  for name, number in numbers.items():
    if not number >= least:
      raise UserError(f'{name} must be at least {least}, got {number}.')
