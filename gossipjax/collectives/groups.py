"""Collectives within groups of workers, in place of those among all workers."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax.collectives.axes import axis, is_sharded, names_of
from gossipjax.errors import UserError


def in_groups(name: str, params, x, groups):
  """Runs a collective within each group, in place of one among all workers.

  It serves programs that were traced for the workers of one group, so that
  their bills are those of a group; see transforms/groups.py.

  Args:
    name: of the primitive in such a program.
    params: of the primitive.
    x: its operand; None for axis_index.
    groups: static, int[groups, members]: the workers of each group.

  Returns:
    Its result; None if the primitive is no collective among workers.

  Raises:
    UserError: the collective has no form within groups.
  """
  known = name in ('axis_index', 'ppermute', *_NATIVE)
  axes = _axes(params) or (axis() if known else ())
  if names_of(axes) != names_of(axis()) or name in _IDENTITIES:
    return None  # Its axes are those of a worker's devices, or of arrays.
  _check(name, params, known)
  table, me = np.asarray(groups), lax.axis_index(axis())
  group, rank = np.zeros((2, table.size), np.int32)
  for g, members in enumerate(table):
    group[members], rank[members] = g, np.arange(len(members))
  if name == 'axis_index':
    return jnp.asarray(rank)[me]
  if name == 'ppermute':
    pairs = [(g[s], g[t]) for g in table.tolist() for s, t in params['perm']]
    return lax.ppermute(x, axis(), pairs)
  if is_sharded():
    # The program may have groups of its own, within one of these.
    parts = params.get('axis_index_groups') or [range(table.shape[1])]
    return _NATIVE[name](
      x, [[members[i] for i in part] for members in table for part in parts]
    )
  # vmap has no collectives of groups: gather all x, then select the group's.
  rows = lax.all_gather(x, axis())[table][jnp.asarray(group)[me]]
  return _OF_MEMBERS[name](rows, jnp.asarray(rank)[me])


def _axes(params):
  return params.get('axes') or params.get('axis_name') or ()


def names_an_axis(params) -> bool:
  """Whether a primitive with these parameters runs along an axis with a name,
  so that `in_groups` may have to replace it."""
  return any(isinstance(name, str) for name in names_of(_axes(params)))


def _check(name: str, params, known: bool) -> None:
  """Refuses a collective, or a form of one, that does not exist in groups."""
  form = _FORMS.get(name, {})
  if not known or {key: params[key] for key in form} != form:
    text = ''.join(f', {key}={params[key]}' for key in form)
    raise UserError(
      f'lax.{name}(x, {axis()!r}{text}) has no form within groups; use psum, '
      'pmax, ppermute, or all_gather of whole arrays.'
    )


# Primitives that only declare over which workers an array differs.
_IDENTITIES = ('pvary', 'pcast', 'pbroadcast')
_FORMS = {
  'all_gather': {'all_gather_dimension': 0, 'tiled': False},
  'all_to_all': {'split_axis': 0, 'concat_axis': 0, 'tiled': True},
}
_NATIVE = {
  'psum': lambda x, groups: lax.psum(x, axis(), axis_index_groups=groups),
  'pmax': lambda x, groups: lax.pmax(x, axis(), axis_index_groups=groups),
  'all_gather': lambda x, groups: lax.all_gather(
    x, axis(), axis_index_groups=groups
  ),
  'all_to_all': lambda x, groups: lax.all_to_all(
    x, axis(), 0, 0, tiled=True, axis_index_groups=groups
  ),
}


_OF_MEMBERS = {
  'psum': lambda rows, rank: rows.sum(axis=0).astype(rows.dtype),
  'pmax': lambda rows, rank: rows.max(axis=0),
  'all_gather': lambda rows, rank: rows,
  'all_to_all': lambda rows, rank: rows[:, rank],
}
