"""What a trigger is: two questions and a memory."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax.aggregator import Tree, select
from gossipjax.errors import UserError

Memory = Any


class Trigger(NamedTuple):
  """Decides from one worker's parameters, those of a layer or of all.

  Attributes:
    init: `part -> memory`.
    update: `(part, memory, step, who) -> (wants, memory)`, after every local
      step: wants is bool[], `who` the worker, or 0 if all decide as one.
    settle: `(part, memory, reset) -> memory`, at the end of the step: the part
      as it is now, and whether an exchange has to be remembered.
    shared: whether wants follows from step and who alone.
    per_layer: whether it is made for layers rather than for the model.
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
  """Keeps exchanges `shortest` to `longest` steps apart; None is never."""
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
  """Asks worker 0 only, where nobody else has stepped.

  Whoever steps is worker 0: `random` tosses the same coins for all workers,
  each at steps of its own.
  """

  def update(part, memory, step, who):
    wants, asked = trigger.update(part, memory, step, who)
    return wants & (who == 0), select(who == 0, asked, memory)

  return trigger._replace(update=update, shared=False)


def distance(a: Tree, b: Tree) -> jax.Array:
  """l2, f32[]."""
  return optax.tree.norm(optax.tree.sub(a, b)).astype(jnp.float32)


def norm(tree: Tree) -> jax.Array:
  """l2, f32[], above 0 so that one may divide."""
  return jnp.maximum(optax.tree.norm(tree).astype(jnp.float32), 1e-12)


def at_least(least: float, **numbers: float) -> None:
  """Refuses numbers below, by name."""
  for name, number in numbers.items():
    if not number >= least:
      raise UserError(f'{name} is at least {least}, got {number}.')
