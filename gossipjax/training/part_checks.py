"""Checks optimizers and asynchronous exchanges while a step is traced."""

from typing import NamedTuple

import jax
import numpy as np
import optax

from gossipjax.aggregator import AsyncExchange, Strategy
from gossipjax.async_exchange import KINDS
from gossipjax.errors import UserError, as_user_error
from gossipjax.training.optimizer import as_optimizer_error
from gossipjax.transforms import trace_checks
from gossipjax.transforms.checked import check_kept
from gossipjax.transforms.origin import is_ours


class Names(NamedTuple):
  """The names by which the user knows the parts of a run, for messages."""

  strategy: str = 'the strategy'
  optimizer: str = 'the optimizer'


def async_exchange(whose: str, given: Strategy, workers: int) -> AsyncExchange:
  """The checked exchange of a strategy for workers that do not wait.

  Raises:
    UserError: its function raises an exception or returns no AsyncExchange, or
      the kind is unknown, or `draw` returns no workers.
  """
  with as_user_error(f'{whose}.async_exchange'):
    exchange = given.async_exchange(workers)
  if not isinstance(exchange, AsyncExchange):
    raise UserError(
      f'{whose}.async_exchange returns {type(exchange).__name__}; it has to '
      'return an AsyncExchange, see gossipjax/async_exchange.py.'
    )
  if exchange.kind not in KINDS:
    raise UserError(
      f'{whose}.async_exchange: kind={exchange.kind!r} is none of '
      f'{", ".join(KINDS)}; make it with a function of that name in '
      'gossipjax.async_exchange, such as meets.'
    )
  for worker in range(workers):
    with as_user_error(f'{whose}.async_exchange: draw(worker, generator)'):
      peers = [*exchange.draw(worker, np.random.default_rng(worker))]
    if not all(peer in range(workers) for peer in peers):
      raise UserError(
        f'{whose}.async_exchange: draw({worker}, generator) returns {peers}; '
        f'it has to return workers, numbers from 0 to {workers - 1}.'
      )
  return exchange


def of_optimizer(
  whose: str, given: optax.GradientTransformation
) -> optax.GradientTransformation:
  """Adds checks to an optimizer: tracing it raises a UserError for its errors.

  Updates may have other dtypes than the gradients.
  """

  def init(params):
    with as_optimizer_error(whose):
      return given.init(params)

  def update(grads, state, params=None):
    with as_optimizer_error(whose):
      if not is_ours(given):
        program = jax.make_jaxpr(given.update)(grads, state, params)
        trace_checks.check_counted(whose, program.jaxpr)
      updates, new_state = given.update(grads, state, params)
      check_kept(whose, 'updates', grads, updates, types=False)
      check_kept(whose, 'state', state, new_state)
    return updates, new_state

  return optax.GradientTransformation(init, update)
