"""Max pooling whose gradient is also fast on a CPU."""

import jax


def halve(x: jax.Array) -> jax.Array:
  """The largest of every 2x2 pixels; an odd last row or column is dropped.

  Equal to max_pool, but computed by reshaping: on a CPU its gradient takes a
  half to a third of the time.

  Args:
    x: [n, height, width, channels].

  Returns:
    [n, height // 2, width // 2, channels].
  """
  n, height, width, channels = x.shape
  x = x[:, : height // 2 * 2, : width // 2 * 2]
  x = x.reshape(n, height // 2, 2, width // 2, 2, channels)
  return x.max((2, 4))
