"""Runs an aggregator on the moments that an optimizer keeps."""

import jax
import jax.numpy as jnp

from gossipjax.aggregator import Aggregator, Tree
from gossipjax.errors import UserError
from gossipjax.traffic import SILENCE

# Names of fields in optax: of Adam and its relatives, and of SGD's momentum.
FIRST, SECOND = ('mu', 'trace'), ('nu',)
CONSTANTS = ('ns_coeffs',)  # Of Muon; the same on all workers.


def of_moments(names: tuple[str, ...], aggregator: Aggregator) -> Aggregator:
  """Aggregates the fields of an optimizer's state that have one of the names.

  Numbers, such as step counts, stay as they are. An optimizer without such a
  field sends nothing.

  Args:
    names: names of fields, for example FIRST or SECOND.
    aggregator: aggregates the list of the leaves of these fields.

  Raises:
    UserError: the optimizer keeps other arrays of fractions, which every worker
      would keep to itself (when it begins).
  """

  def positions(state):
    paths = jax.tree_util.tree_leaves_with_path(state)
    return [i for i, (path, _) in enumerate(paths) if _field(path) in names]

  def init(opt):
    _check(opt)
    leaves = jax.tree.leaves(opt)
    return aggregator.init([leaves[i] for i in positions(opt)])

  def update(opt, state, step, active=True):
    leaves, form = jax.tree.flatten(opt)
    chosen = positions(opt)
    if not chosen:
      return opt, state, SILENCE
    mixed, state, sent = aggregator.update(
      [leaves[i] for i in chosen], state, step, active
    )
    for i, leaf in zip(chosen, mixed, strict=True):
      leaves[i] = leaf
    return form.unflatten(leaves), state, sent

  return Aggregator(init, update)


def _check(opt: Tree) -> None:
  for path, leaf in jax.tree_util.tree_leaves_with_path(opt):
    is_array = leaf.ndim and jnp.issubdtype(leaf.dtype, jnp.inexact)
    is_constant = any(getattr(k, 'name', '') in CONSTANTS for k in path[-1:])
    if is_array and not is_constant and not _field(path):
      where = jax.tree_util.keystr(path) or 'an array'
      raise UserError(
        f'The optimizer keeps {where}, and only the '
        f'moments {", ".join(FIRST + SECOND)} of optax are exchanged; take '
        'another optimizer, such as adamw, or another strategy.'
      )


def _field(path) -> str:
  """The first moment's name on a path; a model may have such names, too."""
  names = (getattr(key, 'name', '') for key in path)
  return next((name for name in names if name in FIRST + SECOND), '')
