"""Checks that a loss has a gradient: else training would change nothing."""

from collections.abc import Callable
from typing import Any

import jax

from gossipjax.errors import UserError


def check(gradient: Callable[..., Any], *args: Any) -> None:
  """Traces the gradient of a loss; nothing is computed.

  Args:
    gradient: of the loss, a function of `args`.
    *args: parameters and a batch.

  Raises:
    UserError: no leaf of the gradient depends on `args`.
  """
  if not _depends(jax.make_jaxpr(gradient)(*args).jaxpr):
    raise UserError(
      'The gradient of task.loss depends neither on the parameters nor on the '
      'batch: the loss does not use them, or only through functions without a '
      'gradient, such as argmax, comparisons, round or jax.lax.stop_gradient.'
    )


def _depends(program: Any) -> bool:
  """Whether any result of a jaxpr depends on its arguments."""
  reached = set(program.invars)
  for equation in program.eqns:
    read = [v for v in equation.invars if not hasattr(v, 'val')]  # No literal.
    if not reached.isdisjoint(read):
      reached.update(equation.outvars)
  results = [v for v in program.outvars if not hasattr(v, 'val')]
  return not reached.isdisjoint(results)
