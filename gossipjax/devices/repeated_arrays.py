"""Arrays that every worker, or every device of a worker, begins with."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def is_key(x: Any) -> bool:
  """Whether an array holds random keys of `jax.random.key`; NumPy has none."""
  return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def repeated(x: Any, count: int, axis: int) -> Any:
  """An array with a new axis, along which it is the same; on the host, unless
  it holds random keys."""
  x = x if hasattr(x, 'dtype') else np.asarray(x)
  library: Any = jnp if is_key(x) else np
  shape = (*x.shape[:axis], count, *x.shape[axis:])
  return library.broadcast_to(library.expand_dims(x, axis), shape)
