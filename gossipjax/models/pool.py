"""Max pooling whose gradient is also fast on a CPU."""

import jax
import jax.numpy as jnp


def _cells(x: jax.Array) -> jax.Array:
  n, height, width, channels = x.shape
  x = x[:, : height // 2 * 2, : width // 2 * 2]
  return x.reshape(n, height // 2, 2, width // 2, 2, channels)


def _pixels(cells: jax.Array) -> list[jax.Array]:
  return [cells[:, :, i, :, j] for i in (0, 1) for j in (0, 1)]


@jax.custom_vjp
def max_pool_2x2(x: jax.Array) -> jax.Array:
  """The largest of every 2x2 pixels; an odd last row or column is dropped.

  Equal to max_pool; pixels that tie share the gradient, as in a max reduction.
  On a CPU the gradient alone takes a quarter to a half of the time of that of a
  reduction. A NaN counts as the largest pixel, while reductions on CPUs drop
  it. The function has a reverse-mode derivative, but no forward-mode one.

  Args:
    x: [n, height, width, channels].

  Returns:
    [n, height // 2, width // 2, channels].
  """
  a, b, c, d = _pixels(_cells(x))
  return jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))


def _forward(x):
  largest = max_pool_2x2(x)
  return largest, (x, largest)


def _backward(residuals, grad):
  x, largest = residuals
  cells, spread = _cells(x), lambda y: y[:, :, None, :, None]
  ties = sum((p == largest).astype(grad.dtype) for p in _pixels(cells))
  # The compiler may compute x twice, and round it differently: none is equal.
  ties = jnp.maximum(ties, 1)
  found = jnp.where(cells == spread(largest), spread(grad / ties), 0)
  n, height, width, channels = x.shape
  found = found.reshape(n, height // 2 * 2, width // 2 * 2, channels)
  return (jnp.pad(found, ((0, 0), (0, height % 2), (0, width % 2), (0, 0))),)


max_pool_2x2.defvjp(_forward, _backward)
