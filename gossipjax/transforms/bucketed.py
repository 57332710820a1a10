"""Runs an aggregator on each part of a tree by itself: a bucket, a fragment.

    @with_granularity
    def strategy(density: float = 0.01, seed: int = 0) -> Strategy:

gives `strategy` one more argument, `granularity`, and does what it says.
"""

from collections.abc import Callable
from typing import Any

import jax

from gossipjax.aggregator import Aggregator, Strategy, Tree
from gossipjax.traffic import SILENCE, nbytes
from gossipjax.transforms.added_argument import Make, with_argument
from gossipjax.transforms.granularity import Granularity, buckets, model

_EXPLAINED = """which tensors are exchanged together; model(), layer() or
    bucket(bytes), see transforms/granularity.py."""


def bucketed(
  granularity: Granularity, make: Callable[[int], Aggregator]
) -> Aggregator:
  """Runs an aggregator on each bucket by itself.

  Args:
    granularity: which tensors form a bucket.
    make: `number of the bucket -> aggregator`; it sees a list of tensors, or
      the whole tree if all of it is one bucket by `granularity.model`.
  """
  if granularity == model():
    return make(0)

  def members(tree):
    return buckets([nbytes(x) for x in jax.tree.leaves(tree)], granularity)

  return partitioned(members, make)


def partitioned(
  partition: Callable[[Tree], list[list[int]]],
  make: Callable[[int], Aggregator],
) -> Aggregator:
  """Runs an aggregator on each part of a tree by itself.

  Args:
    partition: `tree -> for each part, the positions of its leaves`.
    make: `number of the part -> aggregator`; it sees a list of leaves.
  """

  def cut(tree):
    leaves, members = jax.tree.leaves(tree), partition(tree)
    return members, [
      (make(p), [leaves[i] for i in part]) for p, part in enumerate(members)
    ]

  def init(tree):
    return tuple(aggregator.init(part) for aggregator, part in cut(tree)[1])

  def update(tree, states, step, active=True):
    members, parts = cut(tree)
    found, new_states, total = {}, [], SILENCE
    for indices, (aggregator, part), state in zip(
      members, parts, states, strict=True
    ):
      part, state, sent = aggregator.update(part, state, step, active)
      found.update(zip(indices, part, strict=True))
      new_states.append(state)
      total += sent
    treedef = jax.tree.structure(tree)
    return (
      treedef.unflatten([found[i] for i in range(len(found))]),
      tuple(new_states),
      total,
    )

  return Aggregator(init, update)


def with_granularity(strategy: Make) -> Make:
  """Adds the argument `granularity` to a strategy that aggregates gradients.

  Each bucket has a strategy of its own. If it takes a `seed`, that of the
  first bucket is the given one and each further bucket's is one larger, so
  that their random numbers differ.

  Args:
    strategy: a function with defaults whose docstring begins with `Args:`; its
      result keeps parameters as they are.
  """
  return with_argument(strategy, 'granularity', model(), _EXPLAINED, _cut)


def _cut(
  make: Make, given: dict[str, Any], granularity: Granularity
) -> Strategy:
  def of_bucket(number: int) -> Strategy:
    seed = {'seed': given['seed'] + number} if 'seed' in given else {}
    return make(**seed)

  return of_bucket(0)._replace(
    gradients=bucketed(granularity, lambda b: of_bucket(b).gradients)
  )
