"""gTop-k S-SGD: a sparse all-reduce in log2(P) merges.

  a_i = g_i + e_i,    S_i = top_k(a_i),    G = S_1 + ... + S_P,  where + merges
  two messages and keeps k,    g <- G / P,    e_i <- a_i - S_i where G has it

The published rule keeps an entry in the residual unless its index is in G. If a
subtree drops an entry whose index another subtree brings into G, the dropped
value is lost. With `conserve` the merging worker keeps it in its own residual.

Shi et al., A distributed synchronous SGD algorithm with global top-k
sparsification for low bandwidth networks, 2019. arXiv:1901.04359
"""

import jax.numpy as jnp
from jax import lax

from gossipjax.aggregator import Aggregator, Strategy, identity, select
from gossipjax.collectives import axis, needs_everyone, send
from gossipjax.compressors import merging, sparse
from gossipjax.compressors.selections import Selection, exact
from gossipjax.errors import UserError, nearest
from gossipjax.flatten import ravel
from gossipjax.strategies.compressed import ResidualState, no_residual
from gossipjax.traffic import SILENCE
from gossipjax.transforms.bucketed import with_granularity
from gossipjax.transforms.warmup import with_warmup


def _absorb(total, pairs, size):
  """Each target adds its source's message; k entries, the rest, the bill."""
  theirs, arrived, sent = send(total, pairs)
  theirs = theirs._replace(indices=jnp.where(arrived, theirs.indices, size))
  both = merging.merge(total, theirs, size)
  return *merging.split(both, total.indices.size, size), sent


def _adopt(total, pairs):
  """Each target replaces its message by its source's."""
  theirs, arrived, sent = send(total, pairs)
  return select(arrived, theirs, total), sent


def tree(message, size: int):
  """As published: a reduction to worker 0, then a broadcast, any P.

  Returns:
    The message, the same on all workers; what this worker dropped; the bill.
  """
  n = lax.axis_size(axis())
  hops = (2**r for r in range((n - 1).bit_length()))
  edges = [[(i + h, i) for i in range(0, n - h, 2 * h)] for h in hops]
  total, dropped, sent = message, [], SILENCE
  for pairs in edges:
    total, lost, cost = _absorb(total, pairs, size)
    dropped, sent = [*dropped, lost], sent + cost
  for pairs in reversed(edges):
    total, cost = _adopt(total, [(i, j) for j, i in pairs])
    sent += cost
  return total, dropped, sent


def butterfly(message, size: int):
  """Partners exchange and merge: half the rounds of the tree, no broadcast.

  Workers beyond a power of two send to a partner first and receive from it
  last. All 2h workers of a group drop the same entries; its first keeps them.
  """
  n, me = lax.axis_size(axis()), lax.axis_index(axis())
  core = 2 ** (n.bit_length() - 1)
  surplus = [(i, i - core) for i in range(core, n)]
  total, *dropped, sent = _absorb(message, surplus, size)
  for h in (2**r for r in range(core.bit_length() - 1)):
    pairs = [(i, i ^ h) for i in range(core)]
    total, lost, cost = _absorb(total, pairs, size)
    mine = jnp.where(me % (2 * h) == 0, lost.values, 0)
    dropped, sent = [*dropped, lost._replace(values=mine)], sent + cost
  total, cost = _adopt(total, [(i, j) for j, i in surplus])
  return total, dropped, sent + cost


EXCHANGES = {'tree': tree, 'butterfly': butterfly}


def global_topk_mean(
  density: float,
  conserve: bool = False,
  exchange: str = 'tree',
  selection: Selection = exact.selection(),
) -> Aggregator:
  """The approximate top-k of the sum of all workers' top-k, divided by P."""
  if exchange not in EXCHANGES:
    remedy = nearest(exchange, EXCHANGES)
    raise UserError(f'exchange={exchange} of gtopk is unknown{remedy}')
  sparse.count(density, 10**9)

  def update(gradients, state, step, active=True):
    needs_everyone(active)
    flat, unravel = ravel(gradients)
    wanted = flat + state.residual
    mine, past = sparse.choose(wanted, density, selection, step, state.past)
    mine = mine if selection.in_order else merging.in_order(mine)
    total, dropped, sent = EXCHANGES[exchange](mine, flat.size)
    sent_values = merging.values_in(total, mine)
    residual = wanted.at[mine.indices].add(-sent_values, mode='drop')
    for lost in dropped if conserve else ():
      missing = merging.values_in(total, lost)
      residual = residual.at[lost.indices].add(missing, mode='drop')
    mean = total._replace(values=total.values / lax.axis_size(axis()))
    mean = sparse.scatter(mean, flat.size)
    return unravel(mean.astype(flat.dtype)), ResidualState(residual, past), sent

  return Aggregator(lambda tree: no_residual(tree, selection.begin()), update)


@with_warmup
@with_granularity
def strategy(
  density: float = 0.001,
  conserve: bool = False,
  exchange: str = 'tree',
  selection: Selection = exact.selection(),
) -> Strategy:
  """Args:
  density: k / n, above 0, at most 1, of each message and of what is applied.
  conserve: whether merging workers keep the values that are otherwise lost.
  exchange: 'tree', as published, or 'butterfly'.
  selection: how a worker's k largest are found; indices take 4 bytes each.
  """
  mean = global_topk_mean(density, conserve, exchange, selection)
  return Strategy(mean, identity())
