"""The gradient of a batch: its precision, and its micro-batches."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.aggregator import Tree
from gossipjax.devices.platform import platform
from gossipjax.errors import UserError, nearest
from gossipjax.tasks.task import Task

DTYPES = ('bfloat16', 'float16', 'float32')


def check(
  compute_dtype: str, accumulate: int, batch_size: int, devices: int = 1
) -> None:
  """Raises a UserError for an invalid dtype or number of micro-batches."""
  share = f' / config.devices_per_worker={devices}' if devices > 1 else ''
  if compute_dtype and compute_dtype not in DTYPES:
    raise UserError(
      f'config.compute_dtype={compute_dtype} is unknown'
      f'{nearest(compute_dtype, DTYPES)}'
    )
  if accumulate < 0 or batch_size // devices % max(1, accumulate):
    raise UserError(
      f'config.accumulate={accumulate} has to divide '
      f'config.batch_size={batch_size}{share}.'
    )


def of_batch(
  task: Task, compute_dtype: str = '', accumulate: int = 0
) -> Callable[..., tuple[tuple[jax.Array, Tree], Tree]]:
  """The gradient of a task's loss.

  Args:
    task: whose loss.
    compute_dtype: dtype to which parameters and examples are cast for the loss;
      the parameters themselves, gradients and state keep theirs. '': no cast.
    accumulate: number of micro-batches, computed one after the other; the mean
      of their gradients is that of the batch. 0 and 1: the batch at once.

  Returns:
    (parameters, state, batch, key) -> ((loss f32[], state), gradient).
  """
  loss = _lower(task, compute_dtype) if compute_dtype else task.training_loss
  gradient = jax.value_and_grad(loss, has_aux=True)
  return _accumulated(gradient, accumulate) if accumulate > 1 else gradient


def _lower(task: Task, compute_dtype: str) -> Callable[..., Any]:
  """The loss in another precision."""

  def low(x):
    real = jnp.issubdtype(x.dtype, jnp.floating)
    return x.astype(compute_dtype) if real else x

  def loss(params, state, batch, key):
    params, batch = jax.tree.map(low, (params, batch))
    value, after = task.training_loss(params, state, batch, key)
    keep = lambda new, old: jnp.asarray(new, jnp.result_type(old))
    return value.astype(jnp.float32), jax.tree.map(keep, after, state)

  return loss


def _accumulated(gradient: Callable[..., Any], parts: int) -> Any:
  """The mean gradient of micro-batches; each passes its state to the next."""

  def mean(params, state, batch, key):
    cut = lambda x: x.reshape(parts, x.shape[0] // parts, *x.shape[1:])

    def micro(carry, item):
      state, sums = carry
      i, part = item
      (loss, state), grads = gradient(
        params, state, part, jax.random.fold_in(key, i)
      )
      return (state, jax.tree.map(jnp.add, sums, (loss, grads))), None

    zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
    (state, sums), _ = lax.scan(
      micro,
      (state, zeros),
      (jnp.arange(parts), jax.tree.map(cut, batch)),
      # A convolution in a rolled loop is ten times slower on XLA's CPU.
      unroll=parts if platform() == 'cpu' else 1,
    )
    loss, grads = jax.tree.map(lambda x: x / parts, sums)
    return (loss, state), grads

  return mean
