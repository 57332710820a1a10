"""Messages whose size is chosen at run time.

How many entries a message needs may be known only at run time, but a compiled
message has a fixed size. Entries therefore travel in boxes, padded arrays of a
few sizes: 5/8, 6/8, 7/8 and 8/8 of each power of two. All workers agree on the
smallest box that fits, and the program branches on its size, so that fewer
entries take fewer bytes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives


def boxed(need: jax.Array, least: int, most: int, move: Callable) -> tuple:
  """Runs `move` with a box that fits on all workers.

  Args:
    need: i32[], entries in the fullest message of this worker.
    least, most: sizes of the smallest and of the largest box, in entries; every
      message fits into `most`.
    move: `(need of all workers, box) -> (*results, bill)`; the box is a power
      of two or `most`, so that few programs are compiled.

  Returns:
    The results of `move`, and its bill plus that of agreeing on the box.
  """
  # Where JAX enables 64 bits, sums and counts have them and would be sent so.
  need, agreeing = collectives.all_max(need.astype(jnp.int32))
  powers = [2**e for e in range(_exponent(least), _exponent(most))]
  move = functools.partial(move, need)
  *results, sent = _smallest(need, [*powers, most], move)
  return *results, sent + agreeing


def trimmed(
  need: jax.Array, box: int, send: Callable, entries: Any, rest: Any = ()
) -> tuple:
  """Sends messages cut to 5, 6, 7 or 8 eighths of their box.

  Only the collective is compiled for each of these sizes.

  Args:
    need: entries in the fullest message, the same on all workers.
    box: room of the messages.
    send: `tree -> (tree, bill)`, a collective that keeps the last axis.
    entries: arrays [..., box], which are filled from the start.
    rest: arrays that are sent along, uncut.

  Returns:
    The arrays that arrived, [..., box], padded with zeros; the rest; the bill.
  """

  def cut_to(size):
    cut = jax.tree.map(lambda x: x[..., :size], entries)
    (arrived, rests), sent = send((cut, rest))
    return jax.tree.map(functools.partial(_pad, box), arrived), rests, sent

  sizes = sorted({-(-box * eighths // 8) for eighths in (5, 6, 7, 8)})
  return _smallest(need, sizes, cut_to)


def _smallest(need: jax.Array, sizes: Sequence[int], move: Callable):
  """Runs `move(size)` with the smallest size that fits."""
  which = sum((need > size).astype(jnp.int32) for size in sizes[:-1])
  return lax.switch(which, [functools.partial(move, s) for s in sizes])


def _pad(box: int, x: jax.Array) -> jax.Array:
  return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, box - x.shape[-1])])


def _exponent(size: int) -> int:
  """The exponent of the smallest power of two that is at least `size`."""
  return max(size - 1, 0).bit_length()
