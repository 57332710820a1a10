"""Data-parallel training as a user would write it with only jax."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

AXIS = 'devices'


def step(
  loss, batch, rate: float, momentum: float, decay: float, inner: str = ''
):
  """SGD with Nesterov's momentum and weight decay on the mean gradient.

  Args:
    loss: (parameters, batch, key) -> f32[].
    batch: (examples, key, step) -> batch.
    inner: axis of devices that each take a part of the batch; '' for none.
  """

  def program(params, velocity, examples, key, t):
    key = jax.random.fold_in(key, lax.axis_index(AXIS))
    order, noise = jax.random.split(key)
    noise = jax.random.fold_in(noise, t)
    if inner:
      noise = jax.random.fold_in(noise, lax.axis_index(inner))
    value, grads = jax.value_and_grad(loss)(
      params, batch(examples, order, t), noise
    )
    if inner:
      value, grads = lax.pmean((value, grads), inner)
    grads = lax.pmean(grads, AXIS)
    grads = jax.tree.map(lambda g, p: g + decay * p, grads, params)
    velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, grads)
    params = jax.tree.map(
      lambda p, g, v: p - rate * (g + momentum * v), params, grads, velocity
    )
    return params, velocity, value

  return program


def train(
  program,
  params: Any,
  examples: Any,
  seed: int,
  chunk: int,
  inner: tuple[str, int] = ('inner', 1),
) -> Iterator[jax.Array]:
  """Trains on as many devices as there are shares of examples.

  Args:
    program: from `step`.
    params: of the model.
    examples: arrays [devices, ...].
    seed: of the order of examples.
    chunk: steps between two losses that are yielded, f32[devices].
    inner: name and size of a second axis of the mesh.
  """
  devices = len(jax.tree.leaves(examples)[0])
  auto = (jax.sharding.AxisType.Auto,) * 2
  mesh = jax.make_mesh((devices, inner[1]), (AXIS, inner[0]), axis_types=auto)
  sharded, replicated = jax.P(AXIS), jax.P()

  def block(params, velocity, examples, key, t):
    examples = jax.tree.map(lambda x: x[0], examples)
    params, velocity, value = program(params, velocity, examples, key, t)
    return params, velocity, value[None]

  run = jax.jit(
    jax.shard_map(
      block,
      mesh=mesh,
      in_specs=(replicated, replicated, sharded, replicated, replicated),
      out_specs=(replicated, replicated, sharded),
      check_vma=False,
    ),
    donate_argnums=(0, 1),
  )
  put = lambda tree, spec: jax.device_put(tree, jax.NamedSharding(mesh, spec))
  examples, params = put(examples, sharded), put(params, replicated)
  velocity = put(jax.tree.map(jnp.zeros_like, params), replicated)
  key, previous, t = put(jax.random.key(seed), replicated), None, 0
  while True:
    for _ in range(chunk):
      params, velocity, value = run(
        params, velocity, examples, key, jnp.int32(t)
      )
      # More than two steps in flight can deadlock on emulated devices.
      jax.block_until_ready(value if previous is None else previous)
      previous, t = value, t + 1
    yield jax.device_get(value)
