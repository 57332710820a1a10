"""Runs an aggregator on each bucket of a gradient by itself.

    @with_granularity
    def strategy(density: float = 0.01, seed: int = 0) -> Strategy:

gives `strategy` one more argument, `granularity`, and does what it says.
"""

import functools
import inspect
from collections.abc import Callable

import jax

from gossipjax.aggregator import Aggregator, Strategy
from gossipjax.traffic import SILENCE, nbytes
from gossipjax.transforms.granularity import Granularity, buckets, model

_ARGUMENT = inspect.Parameter(
  'granularity',
  inspect.Parameter.KEYWORD_ONLY,
  default=model(),
  annotation=Granularity,
)
_EXPLAINED = """
  granularity: which tensors are exchanged together; model(), layer() or
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


def with_granularity(
  strategy: Callable[..., Strategy],
) -> Callable[..., Strategy]:
  """Adds the argument `granularity` to a strategy that aggregates gradients.

  Each bucket has a strategy of its own. If it takes a `seed`, that of the
  first bucket is the given one and each further bucket's is one larger, so
  that their random numbers differ.

  Args:
    strategy: a function with defaults whose docstring begins with `Args:`; its
      result keeps parameters as they are.
  """
  signature = inspect.signature(strategy)

  @functools.wraps(strategy)
  def of_buckets(*args, granularity: Granularity = model(), **kwargs):
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()

    def of_bucket(number: int) -> Strategy:
      arguments = given.arguments
      if 'seed' in arguments:
        arguments = arguments | {'seed': arguments['seed'] + number}
      return strategy(**arguments)

    return of_bucket(0)._replace(
      gradients=bucketed(granularity, lambda b: of_bucket(b).gradients)
    )

  of_buckets.__signature__ = signature.replace(
    parameters=[*signature.parameters.values(), _ARGUMENT]
  )
  of_buckets.__doc__ = strategy.__doc__.rstrip() + _EXPLAINED
  return of_buckets
