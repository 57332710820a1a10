"""Runs an aggregator on each part of a tree by itself: a bucket, a fragment.

    @with_granularity
    def strategy(density: float = 0.01, seed: int = 0) -> Strategy:

gives `strategy` one more argument, `granularity`, and does what it says.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gossipjax.aggregator import Aggregator, Strategy, Tree
from gossipjax.traffic import SILENCE, nbytes
from gossipjax.transforms.added_argument import Make, with_argument
from gossipjax.transforms.granularity import Granularity, buckets, model
from gossipjax.transforms.late import Late
from gossipjax.transforms.shards import by_shards

_EXPLAINED = """which tensors are exchanged together; model(), layer(),
    bucket(bytes) or shards(number), see transforms/granularity.py."""


class Parts(NamedTuple):
  """How an aggregator is made of one aggregator for each part of a tree.

  Attributes:
    of: tree -> for each part, the positions of its leaves.
    make: number of the part -> aggregator of a list of leaves; the states of
      these aggregators form the state of the whole.
  """

  of: Callable[[Tree], list[list[int]]]
  make: Callable[[int], Aggregator]


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
  if granularity.shards:
    return by_shards(granularity.shards, make(0))

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
    make: `number of the part -> aggregator`; it sees a list of leaves. If its
      update has parts (transforms/late.py), so has the result's.
  """

  def init(tree):
    begin = lambda p, x: ((x,), make(p).init(x))
    return map_parts(partition(tree), [tree], begin)[1]

  def update(tree, states, step, active=True):
    def exchange(p, part):
      part, state, sent = make(p).update(part, states[p], step, active)
      return (part,), (state, sent)

    (tree,), results = map_parts(partition(tree), [tree], exchange)
    new_states, sent = zip(*results, strict=True) if results else ((), ())
    return tree, new_states, sum(sent, SILENCE)

  late = _late(partition, lambda p: make(p).late)
  return Aggregator(init, update, late, Parts(partition, make))


def _late(partition, late_of: Callable[[int], Late | None]) -> Late | None:
  """Joins the late updates (transforms/late.py) of all parts of a tree.

  `late_of` returns that of one part; if there is none, the result is None. All
  are late by the same number of steps.
  """
  if (first := late_of(0)) is None:
    return None

  def depart(tree, owns, step):
    leaves = jax.tree.leaves(tree)
    return tuple(
      late_of(p).depart([leaves[i] for i in part], owns[p], step)
      for p, part in enumerate(partition(tree))
    )

  def exchange(leaving, memories, step):
    results = [
      late_of(p).exchange(*args, step)
      for p, args in enumerate(zip(leaving, memories, strict=True))
    ]
    arriving, memories, sent = zip(*results, strict=True)
    return arriving, memories, sum(sent, SILENCE)

  def arrive(tree, owns, arriving, step):
    def arrive_part(p, part):
      part, own = late_of(p).arrive(part, owns[p], arriving[p], step)
      return (part,), own

    (tree,), owns = map_parts(partition(tree), [tree], arrive_part)
    return tree, owns

  def split(states):
    results = [late_of(p).split(state) for p, state in enumerate(states)]
    owns, memories, in_flight = zip(*results, strict=True)
    return owns, memories, tuple(zip(*in_flight, strict=True))

  def joined(owns, memories, in_flight):
    of_parts = zip(owns, memories, zip(*in_flight, strict=True), strict=True)
    return tuple(late_of(p).joined(*args) for p, args in enumerate(of_parts))

  return Late(first.steps, depart, exchange, arrive, split, joined)


def map_parts(
  parts: list[list[int]], trees: Sequence[Tree], change: Callable
) -> tuple[tuple[Tree, ...], tuple[Any, ...]]:
  """Changes trees of one form, part by part.

  Args:
    parts: for each part, the positions of its leaves.
    trees: any number.
    change: (number of the part, its leaves in each tree) -> (its new leaves
      in each tree, anything else).

  Returns:
    The new trees, and the other result of `change` for each part.
  """
  leaves = [jax.tree.leaves(tree) for tree in trees]
  extras = []
  for p, part in enumerate(parts):
    new, extra = change(p, *([x[i] for i in part] for x in leaves))
    extras.append(extra)
    for x, values in zip(leaves, new, strict=True):
      for i, leaf in zip(part, values, strict=True):
        x[i] = leaf
  form = jax.tree.structure(trees[0])
  return tuple(jax.tree.unflatten(form, x) for x in leaves), tuple(extras)


def with_granularity(strategy: Make) -> Make:
  """Adds the argument `granularity` to a strategy that aggregates gradients.

  Each bucket has a strategy of its own. If it takes a `seed`, the first bucket
  gets the given seed; the others get seeds drawn from it, so that no two
  buckets have equal seeds, nor do buckets of runs with neighboring seeds.

  Args:
    strategy: a function with defaults whose docstring begins with `Args:`; the
      strategies that it makes leave parameters as they are.
  """
  return with_argument(strategy, 'granularity', model(), _EXPLAINED, _cut)


def seed_of(number: int, seed: int) -> int:
  """The seed of a bucket or fragment; the first one has the given seed."""
  if not number:
    return seed
  words = np.random.SeedSequence((seed % 2**64, number)).generate_state(1)
  return int(words[0] >> 1)  # jax.random.key takes 31 bits.


def _cut(
  make: Make, kwargs: dict[str, Any], granularity: Granularity
) -> Strategy:
  def of_bucket(number: int) -> Strategy:
    seed = {'seed': seed_of(number, kwargs['seed'])} if 'seed' in kwargs else {}
    return make(**seed)

  return of_bucket(0)._replace(
    gradients=bucketed(granularity, lambda b: of_bucket(b).gradients)
  )
