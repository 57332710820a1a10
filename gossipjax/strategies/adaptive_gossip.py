"""Event-triggered gossip: exchange after a large enough change.

  worker i starts an exchange when its trigger fires, for example when
    |x_i - s_i| > threshold_i |s_i|,    s_i: x_i after its last exchange
  for every pair of neighbors of which at least one starts an exchange:
    x_i <- x_i + W_ij (x_j - x_i),    x_j <- x_j + W_ij (x_i - x_j)

Ho, Wu, Liu, Adaptive communication for distributed deep learning on commodity
GPU cluster, 2018. The paper is not public; this is our interpretation.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import async_exchange, collectives
from gossipjax.aggregator import Aggregator, Strategy, identity, select
from gossipjax.errors import UserError, nearest
from gossipjax.strategies.gossip import neighbor_mean
from gossipjax.topology import Round, Topology, is_symmetric, ring
from gossipjax.traffic import SILENCE
from gossipjax.transforms.flattened import flattened
from gossipjax.triggers import Trigger, relative_drift
from gossipjax.triggers.trigger import bounded, of_first

SCOPES = ('local', 'all')


def _meet(part, wants, active, exchanges: Round):
  mixed, talked, sent = part, jnp.bool_(False), SILENCE
  for weight, source in exchanges:
    theirs, takes, gives, cost = collectives.meet(part, source, wants, active)
    mix = lambda m, t, x: m + weight * jnp.where(takes, t - x, 0)
    mixed = jax.tree.map(mix, mixed, theirs, part)
    talked, sent = talked | takes | gives, sent + cost
  return mixed, talked, sent


def _mix_pairs(part, wants, turn, active, topology: Topology):
  """Each pair of neighbors mixes if one of them wants to; keeps the mean."""
  rounds = topology(n := lax.axis_size(collectives.axis()))
  if not all(is_symmetric(r, n) for r in rounds):
    raise UserError(
      'scope=local needs a symmetric topology, such as ring; scope=all any.'
    )
  meetings = [functools.partial(_meet, part, wants, active, r) for r in rounds]
  return lax.switch(turn % len(rounds), meetings)


def _mix_all(shared, part, anyone, turn, active, topology: Topology):
  """All workers mix or none: `anyone` is the same on all of them."""
  mix = lambda: neighbor_mean(topology).update(part, (), turn, active)
  if collectives.all_agree(shared):
    part, _, sent = lax.cond(anyone, mix, lambda: (part, (), SILENCE))
    return part, anyone & active, sent
  mixed, _, sent = mix()  # Groups without a trigger move messages, too.
  return select(anyone, mixed, part), anyone & active, sent * anyone


def triggered_mean(
  trigger: Trigger, topology: Topology, scope: str, reset_on_receipt: bool
) -> Aggregator:
  """`neighbor_mean` of the model, or of each layer, when the trigger fires."""
  if scope not in SCOPES:
    raise UserError(f'scope={scope} is unknown{nearest(scope, SCOPES)}')
  split = jax.tree.leaves if trigger.per_layer else lambda tree: [tree]
  mix_all = functools.partial(_mix_all, trigger.shared)
  mix = mix_all if scope == 'all' else _mix_pairs

  def init(tree):
    return [trigger.init(part) for part in split(tree)]

  def update(tree, memories, step, active=True):
    worker = 0 if scope == 'all' else lax.axis_index(collectives.axis())
    # Random, so that exchanges do not always fall on the same round of W.
    turn = collectives.random_turn(step)
    parts, memories, sent = split(tree), [*memories], SILENCE
    decide = lambda part, memory: trigger.update(part, memory, step, worker)
    wants, updated = zip(*map(decide, parts, memories), strict=True)
    starts = jnp.stack(wants)
    if scope == 'all' and not trigger.shared:
      starts, sent = collectives.agree(starts, active)
    for k, memory in enumerate(updated):
      parts[k], talked, cost = mix(parts[k], starts[k], turn, active, topology)
      reset = talked if reset_on_receipt else talked & wants[k]
      memory = trigger.settle(parts[k], memory, reset)
      memories[k], sent = select(active, memory, memories[k]), sent + cost
    form, leaves = jax.tree.structure(tree), jax.tree.leaves(parts)
    return form.unflatten(leaves), memories, sent

  return Aggregator(init, update)


def strategy(
  trigger: Trigger = relative_drift(),
  scope: str = 'local',
  topology: Topology = ring,
  shortest: int = 1,
  longest: int | None = None,
  reset_on_receipt: bool = True,
  per_layer: bool | None = None,
) -> Strategy:
  """Args:
  trigger: when a worker starts an exchange, see gossipjax/triggers.
  scope: 'local': each worker decides; a lock-step program moves, but does not
    bill, messages that none wants. 'all', lock-step only: all mix if one wants.
  topology: W; an asynchronous worker draws one of its neighbors.
  shortest, longest: least and most steps between exchanges a worker starts.
  reset_on_receipt: whether an exchange that a neighbor starts resets it too.
  per_layer: whether layers decide separately; None is as published. Triggers
    that ignore parameters decide once for all layers, with one flag.
  """
  if per_layer is not None:
    trigger = trigger._replace(per_layer=per_layer and not trigger.shared)
  limited = bounded(trigger, shortest, longest)

  def exchange(*arguments):
    mean = triggered_mean(*arguments, reset_on_receipt)
    return mean if trigger.per_layer else flattened(mean)

  in_pairs = exchange(of_first(limited), async_exchange.pair, 'local')
  draw = lambda workers: async_exchange.neighbors(topology, workers)
  meets = lambda workers: async_exchange.meets(in_pairs, draw(workers))
  return Strategy(
    identity(),
    exchange(limited, topology, scope),
    meets if scope == 'local' else None,
  )
