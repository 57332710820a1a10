"""What workers exchange in a collective, evaluated for all of them at once."""

import functools

import jax.numpy as jnp
from jax import lax


def _sum(rows, params):
  del params
  return [functools.reduce(lax.add, rows)] * len(rows)


def _max(rows, params):
  del params
  return [functools.reduce(lax.max, rows)] * len(rows)


def _permuted(rows, params):
  source = {target: s for s, target in params['perm']}
  nothing = jnp.zeros_like(rows[0])
  return [rows[source[i]] if i in source else nothing for i in range(len(rows))]


def _gathered(rows, params):
  join = jnp.concatenate if params['tiled'] else jnp.stack
  return [join(rows, params['all_gather_dimension'])] * len(rows)


# What workers exchange: (an operand of each, parameters) -> a result of each.
BETWEEN = {
  'psum': _sum,
  'pmax': _max,
  'ppermute': _permuted,
  'all_gather': _gathered,
}
