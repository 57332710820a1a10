"""Norms of trees, in float32 also where the leaves are narrower.

float16 overflows at 65,504, the square of 256; a sum in bfloat16 stops growing
after some hundred terms.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax


def widened(x: jax.Array) -> jax.Array:
  """An array of floats in float32, or in its own dtype if that is wider."""
  return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def norm(tree: Any) -> jax.Array:
  """The l2 norm of a tree, f32[]."""
  return optax.tree.norm(jax.tree.map(widened, tree)).astype(jnp.float32)


def distance(a: Any, b: Any) -> jax.Array:
  """The l2 distance of two trees, f32[]."""
  return norm(jax.tree.map(lambda x, y: widened(x) - widened(y), a, b))
