"""Checks the functions of strategies and optimizers while a step is traced.

JAX broadcasts what has the wrong shape, so that a mistake in a strategy of the
user's own would train in silence.
"""

from typing import Any, NamedTuple

import jax
import optax

from gossipjax.aggregator import Aggregator, AsyncExchange, Strategy, Tree
from gossipjax.errors import UserError, blaming
from gossipjax.traffic import Traffic
from gossipjax.training.optimizer import blamed

SLOTS = 'gradients', 'parameters', 'moments', 'state'


class Names(NamedTuple):
  """How the user knows the parts of a run, for sentences."""

  strategy: str = 'the strategy'
  optimizer: str = 'the optimizer'


def of_strategy(whose: str, given: Strategy) -> Strategy:
  """The same strategy; tracing it raises a UserError for what is wrong.

  Args:
    whose: its name, for sentences.
    given: the strategy. What its functions raise, a tree or a state that does
      not keep its form, and traffic that is none are refused.

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
  slots: dict[str, Any] = {
    name: _of_aggregator(f'{whose}: {name}', slot)
    for name in SLOTS
    if (slot := getattr(given, name))
  }
  return given._replace(**slots)


def _of_aggregator(whose: str, given: Aggregator) -> Aggregator:

  def init(tree):
    with blaming(f'{whose}.init'):
      return given.init(tree)

  def update(tree, state, step, active=True):
    with blaming(f'{whose}.update'):
      new_tree, new_state, sent = given.update(tree, state, step, active)
      if not isinstance(sent, Traffic):
        raise UserError(
          f'{whose}.update returns {type(sent).__name__} where its Traffic '
          'belongs; return what functions of gossipjax.collectives say that '
          'they sent, or gossipjax.traffic.SILENCE.'
        )
      _check_kept(f'{whose}.update', 'tree', tree, new_tree)
      _check_kept(f'{whose}.update', 'state', state, new_state)
    return new_tree, new_state, sent

  return given._replace(init=init, update=update)


def async_exchange(whose: str, given: Strategy, workers: int) -> AsyncExchange:
  """How workers of a strategy exchange that do not wait.

  Raises:
    UserError: its function raises something, or returns something else.
  """
  with blaming(f'{whose}.async_exchange'):
    found = given.async_exchange(workers)
  if not isinstance(found, AsyncExchange):
    raise UserError(
      f'{whose}.async_exchange returns {type(found).__name__}; it has to '
      'return an AsyncExchange, see gossipjax/async_exchange.py.'
    )
  return found


def of_optimizer(
  whose: str, given: optax.GradientTransformation
) -> optax.GradientTransformation:
  """The same optimizer, likewise; updates may have types of their own."""

  def init(params):
    with blamed(whose):
      return given.init(params)

  def update(grads, state, params=None):
    with blamed(whose):
      updates, new_state = given.update(grads, state, params)
      _check_kept(whose, 'updates', grads, updates, types=False)
      _check_kept(whose, 'state', state, new_state)
    return updates, new_state

  return optax.GradientTransformation(init, update)


def _check_kept(
  whose: str, what: str, before: Tree, after: Tree, types: bool = True
) -> None:
  """Raises a UserError if a function changes the form of a tree."""
  was, found = _forms(what, before, types), _forms(what, after, types)
  if odd := [k for k in {**was, **found} if was.get(k) != found.get(k)]:
    raise UserError(
      f'{whose} returns {found.get(odd[0], "nothing")} as {odd[0]}, which was '
      f'{was.get(odd[0], "nothing")}; it has to keep the leaves of the tree '
      f'and their shapes{" and types" if types else ""}.'
    )
  forms: list[Any] = [jax.tree.structure(tree) for tree in (before, after)]
  if forms[0] != forms[1]:
    raise UserError(
      f'{whose} returns {what} as {str(forms[1])[:100]}, which was '
      f'{str(forms[0])[:100]}; it has to keep the structure of the tree.'
    )


def _forms(what: str, tree: Tree, types: bool) -> dict[str, str]:
  """Shape, and type, of each leaf by its path."""
  found = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    form = jax.typeof(leaf)
    shape = str(list(form.shape))
    name = f'{what}{jax.tree_util.keystr(path)}'
    found[name] = f'{form.dtype}{shape}' if types else f'shape {shape}'
  return found
