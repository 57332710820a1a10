"""Messages among the devices of a worker, which share what it sends.

Devices that hold equal values each send one share of a message to their
counterparts in other workers, then all-gather the shares that arrive. So no
byte goes to another worker twice, and every algorithm computes what it would
on one device. Shares have equal lengths; they are padded if the number of
devices does not divide the number of entries.
"""

import contextvars
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.collectives import bill_names
from gossipjax.collectives.axes import INNER, Axis, sharing_axis
from gossipjax.collectives.bills import ring_bytes
from gossipjax.flatten import flatten
from gossipjax.traffic import Traffic, nbytes

_JOINS: contextvars.ContextVar[list[Traffic]] = contextvars.ContextVar('joins')


def with_joins(function: Callable[..., Any]) -> Callable[..., Any]:
  """Adds the traffic between the devices of a worker to a function's bill.

  The devices gather the received arrays in any case, even if none arrived.
  """

  @functools.wraps(function)
  def run(*args, **kwargs):
    joins = []
    token = _JOINS.set(joins)
    try:
      *results, bill = function(*args, **kwargs)
    finally:
      _JOINS.reset(token)
    bill = functools.reduce(lambda a, b: a + b, joins, bill)
    return (*results, bill_names.named(bill))

  return run


def share(tree):
  """The part of a message that this device sends."""
  if (inner := sharing_axis()) is None:
    return tree
  n, me = lax.axis_size(inner), lax.axis_index(inner)
  rows = lambda x: jnp.pad(x.reshape(-1), (0, -x.size % n)).reshape(n, -1)
  arrays, _ = flatten(jax.tree.map(jnp.asarray, tree))
  return jax.tree.map(lambda x: rows(x)[me], arrays)


def joined(arrived, like, stacked: bool = False):
  """Joins the shares that the devices of this worker received.

  Args:
    arrived: this device's share.
    like: a message of the form that was sent.
    stacked: whether shares of several workers arrived, on axis 0.
  """
  if (inner := sharing_axis()) is None:
    return arrived
  arrays, unflatten = flatten(jax.tree.map(jnp.asarray, like))
  others, lead = lax.axis_size(inner) - 1, int(stacked)
  _JOINS.get().append(Traffic.inside(others * nbytes(arrived), others))

  def unpadded(shares, array):
    flat = shares.reshape(*shares.shape[:lead], -1)[..., : array.size]
    return flat.reshape(*shares.shape[:lead], *array.shape)

  shares = lax.all_gather(arrived, inner, axis=lead)
  full = jax.tree.map(unpadded, shares, arrays)
  return jax.vmap(unflatten)(full) if stacked else unflatten(full)


def part_bytes(tree) -> int:
  """Bytes of the part of a message that this device sends."""
  return nbytes(share(tree))


def inner_mean(tree, name: Axis = INNER):
  """The mean over the devices of this worker, as a ring, and its bill."""
  n = lax.axis_size(name)
  bill = Traffic.inside(ring_bytes(nbytes(tree), n), 2 * (n - 1))
  arrays, unflatten = flatten(tree)
  return unflatten(lax.pmean(arrays, name)), bill


def inner_gather(tree, name: Axis = INNER):
  """The trees of all devices of this worker on a new axis 0, and the bill."""
  others = lax.axis_size(name) - 1
  bill = Traffic.inside(others * nbytes(tree), others)
  return lax.all_gather(tree, name), bill


def inner_scatter(tree, name: Axis = INNER):
  """Gives device i of this worker the mean of row i over all its devices.

  Args:
    tree: leaves with a leading axis of as many rows as devices.
    name: the axis of the devices.

  Returns:
    The tree of this device's row, and the bill.
  """
  n = lax.axis_size(name)
  total = lax.psum_scatter(tree, name)
  bill = Traffic.inside((n - 1) * nbytes(total), n - 1)
  return jax.tree.map(lambda x: x / n, total), bill
