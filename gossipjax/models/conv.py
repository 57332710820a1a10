"""Convolutions whose weights may differ between workers on one device.

vmap over workers turns a convolution into a grouped one, for which XLA has only
slow programs. Here each worker has an ordinary convolution or, if there are
many workers on a CPU, a matrix product of its image patches with its weights.
Without vmap, with the same weights for all workers, and on other devices
nothing changes.
"""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jax.custom_batching import custom_vmap

from gossipjax.devices.platform import platform

Function = Callable[..., jax.Array]  # (images, kernel) -> images

# Up to so many workers have a convolution each: gradients of a ResNet-8 are
# then 3 times as fast as with groups, and compile in 2 s per worker. As matrix
# products they are 2 times as fast, and compile in 5 s for any number.
MAX_UNGROUPED_WORKERS = 16
# Backends where a convolution per worker pays off, and where products do. A
# step of ResNet-18 with 8 workers on an H200 has 1.7 times as many images per
# second as with groups in bfloat16, 2.2 times in tensorfloat32. Products were
# not tried there, so that above MAX_UNGROUPED_WORKERS a convolution is grouped.
UNGROUPED_BACKENDS = ('cpu', 'gpu')
MATMUL_BACKENDS = ('cpu',)


def _as_product(strides, padding, x: jax.Array, kernel: jax.Array) -> jax.Array:
  """The convolution as a product of all patches with the kernel as a matrix.

  Args:
    strides: two numbers.
    padding: 'SAME', 'VALID', or two pairs: added before and behind each axis.
    x: [n, height, width, channels].
    kernel: [height, width, channels, features].
  """
  n, *sides, channels = x.shape
  *spans, _, features = kernel.shape
  if isinstance(padding, str):
    padding = lax.padtype_to_pads(sides, spans, strides, padding)
  x = jnp.pad(x, ((0, 0), *padding, (0, 0)))
  places = [
    range(0, side - span + 1, stride)
    for side, span, stride in zip(x.shape[1:3], spans, strides, strict=True)
  ]
  shifted = [
    lax.slice(
      x,
      (0, i, j, 0),
      (n, i + places[0][-1] + 1, j + places[1][-1] + 1, channels),
      (1, *strides, 1),
    )
    for i in range(spans[0])
    for j in range(spans[1])
  ]
  return jnp.concatenate(shifted, axis=3) @ kernel.reshape(-1, features)


def _gradients(convolve: Function) -> Callable:
  """Returns (images, kernel, gradient of the result) -> gradients of both."""
  return lambda x, kernel, grad: jax.vjp(convolve, x, kernel)[1](grad)


def _stackable(ordinary: Callable, product: Callable) -> Callable:
  """Wraps `ordinary`; under vmap with a kernel per row, a faster form runs."""
  stackable = custom_vmap(ordinary)

  @stackable.def_vmap
  def rule(size, batched, *arguments):
    axes = [0 if is_batched else None for is_batched in batched]
    if not batched[1]:
      result = jax.vmap(ordinary, axes)(*arguments)
    elif size > MAX_UNGROUPED_WORKERS:
      result = jax.vmap(product, axes)(*arguments)
    else:
      row = lambda i: [
        x[i] if is_batched else x
        for x, is_batched in zip(arguments, batched, strict=True)
      ]
      results = [ordinary(*row(i)) for i in range(size)]
      result = jax.tree.map(lambda *rows: jnp.stack(rows), *results)
    return result, jax.tree.map(lambda _: True, result)

  return stackable


def convolve(
  x: jax.Array, kernel: jax.Array, strides, padding, **rest
) -> jax.Array:
  """Computes `lax.conv_general_dilated`; flax names the dimensions in `rest`.

  It has a reverse-mode derivative, but no forward-mode one.

  Args:
    x: [n, height, width, channels].
    kernel: [height, width, channels, features].
    strides, padding, rest: as those of `lax.conv_general_dilated`.
  """
  ordinary: Callable[..., jax.Array] = functools.partial(
    lax.conv_general_dilated, window_strides=strides, padding=padding, **rest
  )
  dilations = rest['lhs_dilation'], rest['rhs_dilation']
  plain = {1} == {rest['feature_group_count'], *itertools.chain(*dilations)}
  if (backend := platform()) not in UNGROUPED_BACKENDS or not plain:
    return ordinary(x, kernel)
  product: Callable[..., jax.Array] = ordinary
  if backend in MATMUL_BACKENDS:
    product = functools.partial(_as_product, strides, padding)
  forward = _stackable(ordinary, product)
  backward = _stackable(_gradients(ordinary), _gradients(product))
  apply = jax.custom_vjp(lambda x, kernel: forward(x, kernel))
  apply.defvjp(
    lambda x, kernel: (forward(x, kernel), (x, kernel)),
    lambda residuals, grad: backward(*residuals, grad),
  )
  return apply(x, kernel)


Conv = functools.partial(nn.Conv, conv_general_dilated=convolve)
