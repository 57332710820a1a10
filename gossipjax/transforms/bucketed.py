"""Gradients that are exchanged in pieces: as a whole, by layer, or by bytes.

Small pieces cost latency, which `Traffic.messages` shows, and each is
compressed by itself: top-k of every layer is not top-k of the model. Buckets of
bytes are those of PyTorch's DistributedDataParallel, in the order of the tree.

Li et al., PyTorch distributed: experiences on accelerating data parallel
training, 2020. arXiv:2006.15704
"""

from collections.abc import Callable, Sequence

import jax

from gossipjax.aggregator import Aggregator
from gossipjax.errors import UserError, nearest
from gossipjax.traffic import SILENCE, nbytes


def _parsed(granularity: str | int) -> str | int:
  if isinstance(granularity, str) and granularity.isdigit():
    granularity = int(granularity)  # A flag for a text hands over a text.
  if isinstance(granularity, str) and granularity not in ('model', 'layer'):
    raise UserError(
      f'granularity={granularity} is unknown, and no number of '
      f'bytes{nearest(granularity, ["model", "layer"])}'
    )
  if not isinstance(granularity, str) and granularity < 1:
    raise UserError(
      f'granularity is model, layer or at least 1 byte, got {granularity}.'
    )
  return granularity


def buckets(sizes: Sequence[int], granularity: str | int) -> list[list[int]]:
  """Which tensors travel together.

  Args:
    sizes: of the tensors, in bytes.
    granularity: 'model' for all, 'layer' for each by itself, or the bytes of a
      bucket; no tensor is cut, and a larger one has a bucket of its own.
  """
  most = {'model': sum(sizes), 'layer': 0}.get(granularity, granularity)
  found, filled = [], 0
  for i, size in enumerate(sizes):
    if found and filled + size <= most:
      found[-1].append(i)
      filled += size
    else:
      found.append([i])
      filled = size
  return found


def bucketed(
  granularity: str | int, make: Callable[[int], Aggregator]
) -> Aggregator:
  """Runs an aggregator on each bucket by itself.

  Args:
    granularity: see `buckets`.
    make: the aggregator of the bucket of that number.
  """
  granularity = _parsed(granularity)
  if granularity == 'model':
    return make(0)

  def cut(tree):
    leaves = jax.tree.leaves(tree)
    each = buckets([nbytes(x) for x in leaves], granularity)
    return each, [
      (make(b), [leaves[i] for i in bucket]) for b, bucket in enumerate(each)
    ]

  def init(tree):
    return tuple(aggregator.init(piece) for aggregator, piece in cut(tree)[1])

  def update(tree, states, step, active=True):
    each, pieces = cut(tree)
    found, memories, total = {}, [], SILENCE
    for bucket, (aggregator, piece), state in zip(
      each, pieces, states, strict=True
    ):
      piece, state, sent = aggregator.update(piece, state, step, active)
      found.update(zip(bucket, piece, strict=True))
      memories.append(state)
      total += sent
    treedef = jax.tree.structure(tree)
    return (
      treedef.unflatten([found[i] for i in range(len(found))]),
      tuple(memories),
      total,
    )

  return Aggregator(init, update)
