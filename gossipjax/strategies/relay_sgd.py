"""RelaySGD: a tree relays sums, so that each model reaches all others once.

  m_i->j = y_i + sum_{k != j} m_k->i (old),    c_i->j = 1 + sum_{k != j} c_k->i
  x_i <- (y_i + sum_k m_k->i + (P - 1 - sum_k c_k->i) x_0) / P

over the neighbors k of worker i in a tree, where y_i is the model after the
local step. The initial model x_0 replaces the models of workers from which none
has arrived yet. A model from distance d arrives d - 1 steps late, and counts
once.

Vogels et al., RelaySum for decentralized deep learning on heterogeneous data,
2021. arXiv:2110.04175
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, Tree, identity
from gossipjax.errors import UserError, nearest
from gossipjax.traffic import SILENCE
from gossipjax.transforms.flattened import flattened

NOT_CONSERVED = {'parameters': 'Models of distant workers arrive later.'}


class RelayState(NamedTuple):
  first: Tree  # x_0; the same on every worker.
  arrived: tuple[Tree, ...]  # Per matching, the sum that arrived on its edge.
  counts: tuple[jax.Array, ...]  # f32[]; models in each of these sums.


def chain(n: int) -> list[tuple[int, int]]:
  """Edges of a line of workers."""
  return [(i, i + 1) for i in range(n - 1)]


def binary(n: int) -> list[tuple[int, int]]:
  """Edges of a binary tree with worker 0 at its root."""
  return [((i - 1) // 2, i) for i in range(1, n)]


# Each tree, and the most matchings (edges without a common worker) it needs.
TREES = {'chain': (chain, 2), 'binary': (binary, 3)}


def _matchings(edges: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
  """Sets of edges without a common worker, as pairs in both directions."""
  found: list[list[tuple[int, int]]] = []
  for a, b in edges:
    free = (m for m in found if not {a, b} & {i for edge in m for i in edge})
    matching = next(free, None)
    if matching is None:
      found.append(matching := [])
    matching += [(a, b), (b, a)]
  return found


def relay_mean(edges_of, most: int) -> Aggregator:
  """Sends a sum along each edge of a tree, in both directions.

  Args:
    edges_of: number of workers -> edges of the tree.
    most: upper bound of the number of matchings that cover the tree.
  """

  def init(tree):
    zeros = jax.tree.map(jnp.zeros_like, tree)
    return RelayState(tree, (zeros,) * most, (jnp.float32(0),) * most)

  def update(tree, state, step, active=True):
    del step
    collectives.needs_everyone(active)
    n = lax.axis_size(collectives.axis())
    old = list(zip(state.arrived, state.counts, strict=True))
    arrived, sent = [], SILENCE
    matchings = _matchings(edges_of(n))
    matchings += [[]] * (most - len(matchings))
    for e, pairs in enumerate(matchings):
      message = _total((tree, jnp.float32(1)), old[:e] + old[e + 1 :])
      theirs, _, cost = collectives.send(message, pairs)
      arrived.append(theirs)
      sent += cost
    total, count = _total((tree, jnp.float32(1)), arrived)
    mean = jax.tree.map(
      lambda t, x: ((t + (n - count).astype(t.dtype) * x) / n).astype(x.dtype),
      total,
      state.first,
    )
    sums, counts = zip(*arrived, strict=True)
    return mean, RelayState(state.first, sums, counts), sent

  return Aggregator(init, update)


def _total(first, others):
  """The sum of trees of one form."""
  return jax.tree.map(lambda *x: sum(x[1:], x[0]), first, *others)


def strategy(tree: str = 'chain') -> Strategy:
  """Args:
  tree: 'chain', or 'binary': shorter delays, but inner workers send more.
  """
  if tree not in TREES:
    raise UserError(f'tree={tree} is unknown{nearest(tree, TREES)}')
  return Strategy(identity(), flattened(relay_mean(*TREES[tree])))
