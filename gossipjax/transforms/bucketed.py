"""Runs an aggregator on each bucket of a gradient by itself.

    @with_granularity
    def strategy(density: float = 0.01, seed: int = 0) -> Strategy:

gives `strategy` one more argument, `granularity`, and does what it says.
"""

from collections.abc import Callable
from typing import Any

import jax

from gossipjax.aggregator import Aggregator, Strategy
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

  def cut(tree):
    leaves = jax.tree.leaves(tree)
    members = buckets([nbytes(x) for x in leaves], granularity)
    return members, [
      (make(b), [leaves[i] for i in bucket]) for b, bucket in enumerate(members)
    ]

  def init(tree):
    return tuple(aggregator.init(bucket) for aggregator, bucket in cut(tree)[1])

  def update(tree, states, step, active=True):
    members, parts = cut(tree)
    found, new_states, total = {}, [], SILENCE
    for indices, (aggregator, bucket), state in zip(
      members, parts, states, strict=True
    ):
      bucket, state, sent = aggregator.update(bucket, state, step, active)
      found.update(zip(indices, bucket, strict=True))
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
