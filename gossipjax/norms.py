"""Norms, distances and zeros in float32 or wider, also for narrower floats.

float16 overflows above 65,504, less than the square of 256; a sum in bfloat16
stops growing after some hundred terms.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from gossipjax.errors import UserError


def needs_floats(
  tree: Any, what: str = 'Compression', kind: Any = jnp.floating
) -> None:
  """Refuses a tree with integers, since residuals and means are fractions.

  Args:
    tree: arrays.
    what: the name of what needs floats, for the error message.
    kind: the kind of dtype that is allowed.

  Raises:
    UserError: a leaf is not floating point.
  """
  for x in jax.tree.leaves(tree):
    if not jnp.issubdtype(dtype := jnp.result_type(x), kind):
      raise UserError(
        f'{what} needs floating point numbers, got {dtype}; '
        'leave integers out of the tree.'
      )


def wide(dtype: Any) -> Any:
  """float32, or a dtype of floats that is wider."""
  return jnp.promote_types(dtype, jnp.float32)


def widened(x: jax.Array) -> jax.Array:
  """An array of floats in float32, or in its own dtype if that is wider."""
  return x.astype(wide(x.dtype))


def zeros(tree: Any) -> Any:
  """Zeros in the form of a tree of floats, in float32 or wider."""
  return jax.tree.map(lambda x: jnp.zeros(x.shape, wide(x.dtype)), tree)


def norm(tree: Any) -> jax.Array:
  """The l2 norm of a tree, f32[]."""
  return optax.tree.norm(jax.tree.map(widened, tree)).astype(jnp.float32)


def distance(a: Any, b: Any) -> jax.Array:
  """The l2 distance of two trees, f32[]."""
  return norm(jax.tree.map(lambda x, y: widened(x) - widened(y), a, b))
