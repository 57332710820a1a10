"""Messages whose other end need not take part."""

import jax
import jax.numpy as jnp

from gossipjax.collectives.bills import FLAG, of_messages
from gossipjax.collectives.messages import is_end, send_flag, send_tree
from gossipjax.collectives.sharing import part_bytes, with_joins


@with_joins
def read(tree, source, active=True):
  """Worker i reads the tree of `source[i]`, which need not take part.

  One-sided: several workers may read from the same one. Its link serves them
  one after the other, and is charged even if it is absent.

  Args:
    tree: what others read from this worker.
    source: static, int per worker; where `source[i]` is i nothing is read.
    active: whether this worker reads; if not a literal True, a request of one
      flag is charged.

  Returns:
    The tree read (zeros if none was), i32[] how many were, and the bill.
  """
  permutations = _permutations((s, i) for i, s in enumerate(source) if s != i)
  total, into, out = _nothing(tree)
  for pairs in permutations:
    is_source, is_target = is_end(pairs)
    is_read = is_source & send_flag(active, [(t, s) for s, t in pairs])
    theirs = send_tree(tree, pairs, is_target & active)
    total = jax.tree.map(jnp.add, total, theirs)
    into, out = into + (is_target & active), out + is_read
  bill = of_messages(out, into, part_bytes(tree))
  if active is not True:
    bill += of_messages(into, out, FLAG)
  return total, into, bill


@with_joins
def push(tree, target, active=True):
  """Worker i sends its tree to `target[i]`, which need not take part.

  One-sided, as `read`: the link of an absent target is charged for arrivals.

  Args:
    tree: what this worker sends.
    target: static, int per worker; where `target[i]` is i nothing is sent.
    active: whether this worker sends.

  Returns:
    The sum of the trees that arrived, i32[] how many did, and the bill.
  """
  permutations = _permutations((i, t) for i, t in enumerate(target) if t != i)
  total, into, out = _nothing(tree)
  for pairs in permutations:
    is_source, is_target = is_end(pairs)
    arrived = is_target & send_flag(active, pairs)
    total = jax.tree.map(jnp.add, total, send_tree(tree, pairs, arrived))
    into, out = into + arrived, out + (is_source & active)
  size = part_bytes(tree) + (0 if active is True else FLAG)
  return total, into, of_messages(out, into, size)


def _permutations(pairs):
  """Splits pairs that repeat a worker into the fewest partial permutations."""
  permutations = []
  for source, target in pairs:
    for permutation in permutations:
      if all(s != source and t != target for s, t in permutation):
        permutation.append((source, target))
        break
    else:
      permutations.append([(source, target)])
  return permutations


def _nothing(tree):
  """An empty sum of trees, and two counts of zero."""
  return jax.tree.map(jnp.zeros_like, tree), jnp.int32(0), jnp.int32(0)
