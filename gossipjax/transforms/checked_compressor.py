"""Checks the functions of a compressor of the user's own when they are traced.

JAX broadcasts a vector of one entry to any number of entries, so that a faulty
codec that returns one would train without an error.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.compressors import Compressor, Message
from gossipjax.errors import UserError, as_user_error
from gossipjax.transforms.origin import is_ours


def of_compressor(whose: str, given: Compressor) -> Compressor:
  """Adds checks to a compressor if it is the user's own.

  Args:
    whose: its name, for messages.
    given: the compressor. Its use raises a UserError for exceptions of its
      functions, a message that does not consist of arrays, and a decompressed
      vector that has another shape or is not of floats.
  """
  if is_ours(given):
    return given
  made_by = getattr(given.decompress, '__qualname__', '').split('.<locals>')[0]
  if made_by.isidentifier():  # A lambda of a module has no name.
    whose = f'{whose} ({made_by})'

  def compress(x, key=None):
    with as_user_error(f'{whose}: compress'):
      message = given.compress(x, key)
    _check(whose, given, x, message)
    return message

  def proceed(x, key, step, memory):
    with as_user_error(f'{whose}: proceed'):
      message, memory = given.proceed(x, key, step, memory)
    _check(whose, given, x, message)
    return message, memory

  return given._replace(
    compress=given.compress and compress, proceed=given.proceed and proceed
  )


def _check(whose: str, given: Compressor, x: jax.Array, message: Message):
  """Raises a UserError unless a message becomes a vector like x."""
  for leaf in jax.tree.leaves(message):
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
      raise UserError(
        f'{whose}: its message holds {leaf!r:.60}; a message consists of '
        'arrays of jax.numpy.'
      )
  stacked = jax.tree.map(lambda leaf: leaf[None], message)
  calls = {
    'decompress': lambda: given.decompress(message, x.size),
    'decompress_mean': lambda: given.decompress_mean(stacked, x.size, 1),
    'subtract': lambda: given.subtract(x, message),
  }
  for name, call in calls.items():
    if getattr(given, name):
      with as_user_error(f'{whose}: {name}'):
        result = jax.eval_shape(call)
      _check_vector(f'{whose}: {name}', x, result)


def _check_vector(whose: str, x: jax.Array, result: Any) -> None:
  shape, dtype = getattr(result, 'shape', None), getattr(result, 'dtype', None)
  if shape != x.shape or not jnp.issubdtype(dtype, jnp.floating):
    shown = f'{dtype}{[*shape]}' if dtype else f'{type(result).__name__}'
    raise UserError(
      f'{whose} returns {shown} for the message of {x.dtype}{[*x.shape]}; it '
      f'has to return floats of the same shape, {x.dtype}{[*x.shape]}.'
    )
