"""Which entries of a gradient are exchanged together: all, a tensor, a bucket,
or a shard of all tensors.

Every function here that returns a Granularity is a `granularity.name` of a
config. Each exchange costs latency, which `Traffic.messages` shows, and is
compressed by itself: top-k of each layer is not top-k of the model.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gossipjax.errors import UserError

MOST_SHARDS = 4095  # Traffic can add up the exchanges of so many exactly.


class Granularity(NamedTuple):
  """How large a bucket is; the tensors of a bucket share one exchange.

  Attributes:
    limit: most bytes of a bucket of several tensors; None for no limit.
    shards: number of shards to cut each tensor into, in place of buckets; 0 for
      buckets.
  """

  limit: int | None
  shards: int = 0


def model() -> Granularity:
  """All tensors in one exchange."""
  return Granularity(None)


def layer() -> Granularity:
  """One exchange for each tensor."""
  return Granularity(0)


def bucket(bytes: int = 25 * 2**20) -> Granularity:
  """One exchange for each bucket, in the order of the tree.

  PyTorch's DistributedDataParallel has buckets, too, by default of 25 MiB, but
  fills them in the reverse order, that of the backward pass.

  Li et al., PyTorch distributed: experiences on accelerating data parallel
  training, 2020. arXiv:2006.15704

  Args:
    bytes: most bytes of a bucket; no tensor is cut, and a larger one has a
      bucket of its own.

  Raises:
    UserError: fewer than 1 byte.
  """
  if bytes < 1:
    raise UserError(
      f'granularity.bytes must be at least 1 byte, got {bytes}; '
      'granularity.name=layer exchanges each tensor by itself.'
    )
  return Granularity(bytes)


def shards(number: int = 2) -> Granularity:
  """One exchange for each shard of the tensors, see shards.py.

  Workers of several devices with sharded parameters (config.inner=fsdp)
  exchange in this way; here each worker does so on a single device.

  Raises:
    UserError: fewer than 1 shard, or more than MOST_SHARDS.
  """
  if not 1 <= number <= MOST_SHARDS:
    raise UserError(
      f'granularity.number must be from 1 to {MOST_SHARDS:,} shards, got '
      f'{number}.'
    )
  return Granularity(None, number)


def buckets(sizes: Sequence[int], granularity: Granularity) -> list[list[int]]:
  """The tensors of each exchange.

  Args:
    sizes: of the tensors, in bytes.
    granularity: how large a bucket is.

  Returns:
    For each bucket, the positions of its tensors in `sizes`; tensors without
      entries are in no bucket.
  """
  limit = sum(sizes) if granularity.limit is None else granularity.limit
  found, filled = [], 0
  for i, size in enumerate(sizes):
    if not size:
      continue
    if found and filled + size <= limit:
      found[-1].append(i)
      filled += size
    else:
      found.append([i])
      filled = size
  return found
