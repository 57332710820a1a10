"""Event-triggered gossip: talk only after having changed enough.

  worker i starts an exchange when its trigger fires, for example when
    |x_i - s_i| > threshold_i |s_i|,    s_i: x_i after its last exchange
  for every pair of neighbors of whom one has started:
    x_i <- x_i + W_ij (x_j - x_i),    x_j <- x_j + W_ij (x_i - x_j)

Ho, Wu, Liu, Adaptive communication for distributed deep learning on commodity
GPU cluster, 2018. Triggers and their sources: gossipjax/triggers.
The paper is closed; this is our reading. One end suffices and the other
answers, which preserves the mean. Who does not wait meets one drawn neighbor.
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
    mixed = jax.tree.map(
      lambda m, t, x: m + weight * jnp.where(takes, t - x, 0),
      mixed,
      theirs,
      part,
    )
    talked, sent = talked | takes | gives, sent + cost
  return mixed, talked, sent


def _alone(part, wants, turn, active, topology: Topology):
  """Those pairs mix of whom one wants to."""
  n = lax.axis_size(collectives.WORKERS)
  rounds = topology(n)
  if not all(is_symmetric(r, n) for r in rounds):
    raise UserError(
      'scope=local needs a topology where both ends answer, as in '
      'ring, hypercube or complete; scope=all takes any.'
    )
  meetings = [functools.partial(_meet, part, wants, active, r) for r in rounds]
  return lax.switch(turn % len(rounds), meetings)


def _together(part, anyone, turn, active, topology: Topology):
  """All mix or none; `anyone` is the same everywhere, so none means none."""
  part, _, sent = lax.cond(
    anyone,
    lambda: neighbor_mean(topology).update(part, (), turn, active),
    lambda: (part, (), SILENCE),
  )
  return part, anyone & active, sent


def triggered_mean(
  trigger: Trigger,
  topology: Topology,
  scope: str,
  reset_on_receipt: bool,
) -> Aggregator:
  """`neighbor_mean` at the times, and of the layers, that the trigger says."""
  if scope not in SCOPES:
    raise UserError(f'scope={scope} is unknown{nearest(scope, SCOPES)}')
  split = jax.tree.leaves if trigger.per_layer else lambda tree: [tree]
  exchange = _together if scope == 'all' else _alone

  def init(tree):
    return [trigger.init(part) for part in split(tree)]

  def update(tree, memories, step, active=True):
    who = 0 if scope == 'all' else lax.axis_index(collectives.WORKERS)
    # Drawn, lest the times of exchanges resonate with the topology's cycle.
    turn = jax.random.randint(
      jax.random.fold_in(jax.random.key(0), step), (), 0, 2**30
    )
    parts, sent = split(tree), SILENCE
    wants, news = zip(
      *(
        trigger.update(part, memory, step, who)
        for part, memory in zip(parts, memories, strict=True)
      ),
      strict=True,
    )
    starts = jnp.stack(wants)
    if scope == 'all' and not trigger.shared:
      starts, sent = collectives.agree(starts, active)
    for k, memory in enumerate(news):
      parts[k], talked, cost = exchange(
        parts[k], starts[k], turn, active, topology
      )
      reset = talked if reset_on_receipt else talked & wants[k]
      memory = trigger.settle(parts[k], memory, reset)
      memories[k], sent = select(active, memory, memories[k]), sent + cost
    tree = jax.tree.unflatten(jax.tree.structure(tree), jax.tree.leaves(parts))
    return tree, memories, sent

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
  scope: 'local', each worker decides; in a lock-step program a silent worker's
    message still moves, so that only the ledger's bytes are saved. 'all', all
    workers agree by a flag whether any of them starts; if none does, nothing
    else moves.
  topology: whom a worker exchanges with.
  shortest, longest: steps between two exchanges; longest=None is no limit.
  reset_on_receipt: whether an exchange that a neighbor started resets a
    worker's trigger as its own exchanges do.
  per_layer: whether each layer has a trigger of its own; None is as published
    for the trigger.
  """
  if per_layer is not None:
    trigger = trigger._replace(per_layer=per_layer)
  limited = bounded(trigger, shortest, longest)

  def exchange(trigger, topology, scope):
    mean = triggered_mean(trigger, topology, scope, reset_on_receipt)
    return mean if trigger.per_layer else flattened(mean)

  return Strategy(
    identity(),
    exchange(limited, topology, scope),
    lambda workers: async_exchange.meets(
      exchange(of_first(limited), async_exchange.pair, 'local'),
      async_exchange.neighbors(topology, workers),
    ),
  )
