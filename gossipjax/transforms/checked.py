"""Checks the functions of a strategy while they are traced.

JAX broadcasts arrays of a wrong shape, so that a faulty strategy of the user's
own would train without an error. Besides, all that a function of the user's
sends has to be in the bill that it returns.
"""

from typing import Any

import jax
import numpy as np

from gossipjax.aggregator import Aggregator, Strategy, Tree, identity
from gossipjax.errors import UserError, as_user_error
from gossipjax.traffic import Traffic
from gossipjax.transforms import trace_checks
from gossipjax.transforms.origin import is_ours

SLOTS = 'gradients', 'parameters', 'moments', 'state'


def of_strategy(whose: str, given: Strategy) -> Strategy:
  """Adds checks to a strategy: tracing it raises a UserError for its errors.

  Args:
    whose: its name, for messages.
    given: the strategy. Errors are exceptions of its functions, a tree or a
      state that changes its form, a bill that is no Traffic; and what
      trace_checks.py refuses in functions from outside this package.

  Raises:
    UserError: a slot is no Aggregator.
  """
  for name in SLOTS:
    slot, optional = getattr(given, name), name in Strategy._field_defaults
    if not isinstance(slot, Aggregator) and not (optional and slot is None):
      raise UserError(
        f'{whose}: {name} is {type(slot).__name__}; it takes an Aggregator, '
        f'such as gossipjax.aggregator.identity(){" or None" * optional}.'
      )
  # Workers that share all gradients may have the same parameters.
  differs = {'gradients': True, 'parameters': given.gradients is identity()}
  slots: dict[str, Any] = {
    name: of_aggregator(f'{whose}: {name}', slot, differs.get(name, False))
    for name in SLOTS
    if (slot := getattr(given, name))
  }
  return given._replace(**slots)


def of_aggregator(
  whose: str, given: Aggregator, differs: bool = True
) -> Aggregator:
  """Adds checks to an aggregator: tracing it raises a UserError for errors.

  Args:
    whose: its name, for messages.
    given: the aggregator.
    differs: whether trees differ between workers in the first step.
  """
  ours, known_forms = is_ours(given), set()  # Checks an uncompiled loop once.

  def init(tree):
    with as_user_error(f'{whose}.init'):
      state = given.init(tree)
      _check_memory(f'{whose}.init', state)
    return state

  def run(tree, state, step, active):
    with as_user_error(f'{whose}.update'):
      found = given.update(tree, state, step, active)
      _check_returned(f'{whose}.update', tree, state, found)
    return found

  def update(tree, state, step, active=True):
    args = tree, state, step, active
    forms = *map(jax.typeof, jax.tree.leaves(args)), active is True
    if not ours and forms not in known_forms:
      # First, so that no earlier call has left a value of its trace behind.
      with as_user_error(f'{whose}.update'):
        trace_checks.check(whose, given._replace(update=run), args, differs)
      known_forms.add(forms)
    return run(*args)

  return given._replace(init=init, update=update)


def _check_returned(whose: str, tree: Tree, state: Tree, found: Any) -> None:
  """Raises a UserError unless these are a tree, a state and a Traffic."""
  if not isinstance(found, tuple) or len(found) != 3:
    many = len(found) if isinstance(found, tuple) else type(found).__name__
    raise UserError(
      f'{whose} returns {many}; it has to return three values: the tree, the '
      'state, and the Traffic that was sent.'
    )
  new_tree, new_state, sent = found
  if not isinstance(sent, Traffic):
    raise UserError(
      f'{whose} returns {type(sent).__name__} where its Traffic belongs; '
      'return what functions of gossipjax.collectives say that they sent, or '
      'gossipjax.traffic.SILENCE.'
    )
  check_kept(whose, 'tree', tree, new_tree)
  check_kept(whose, 'state', state, new_state)


def _check_memory(whose: str, state: Tree) -> None:
  """Raises a UserError for a state that no worker, or checkpoint, can keep."""
  for path, leaf in jax.tree_util.tree_leaves_with_path(state):
    name = f'state{jax.tree_util.keystr(path)}'
    if isinstance(leaf, bool | int | float | complex):
      raise UserError(
        f'{whose} returns the Python number {leaf} as {name}, whose dtype is '
        f'not fixed; return jnp.asarray({leaf}).'
      )
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
      raise UserError(
        f'{whose} returns {leaf!r:.60} as {name}; a state consists of arrays.'
      )
    if not leaf.size:
      raise UserError(
        f'{whose} returns an array without entries as {name}, which a '
        'checkpoint cannot keep; leave it out of the state, or out of the '
        'parameters if it is one of them.'
      )


def check_kept(
  whose: str, what: str, before: Tree, after: Tree, types: bool = True
) -> None:
  """Raises a UserError if a function changes the form of a tree."""
  old, new = _forms(what, before, types), _forms(what, after, types)
  if odd := [k for k in {**old, **new} if old.get(k) != new.get(k)]:
    raise UserError(
      f'{whose} returns {new.get(odd[0], "nothing")} as {odd[0]}, which was '
      f'{old.get(odd[0], "nothing")}; it has to keep the leaves of the tree '
      f'and their shapes{" and types" if types else ""}.'
    )
  forms: list[Any] = [jax.tree.structure(tree) for tree in (before, after)]
  if forms[0] != forms[1]:
    raise UserError(
      f'{whose} returns {what} as {str(forms[1])[:100]}, which was '
      f'{str(forms[0])[:100]}; it has to keep the structure of the tree.'
    )


def _forms(what: str, tree: Tree, types: bool) -> dict[str, str]:
  """Shape, and with `types` the dtype, of each leaf by its path."""
  forms = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    aval = jax.typeof(leaf)
    shape = str(list(aval.shape))
    name = f'{what}{jax.tree_util.keystr(path)}'
    forms[name] = f'{aval.dtype}{shape}' if types else f'shape {shape}'
  return forms
