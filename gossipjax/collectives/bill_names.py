"""Names of bills in a traced program, by which a check finds those left out."""

import contextlib
import contextvars
import dataclasses
import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from gossipjax.traffic import Traffic

PREFIX = 'bill '
_NUMBERS: contextvars.ContextVar[Iterator[int] | None] = contextvars.ContextVar(
  'numbers', default=None
)


@contextlib.contextmanager
def naming() -> Iterator[None]:
  """Inside, each collective gives the bytes of its bill a name of their own."""
  token = _NUMBERS.set(itertools.count())
  try:
    yield
  finally:
    _NUMBERS.reset(token)


def named(bill: Traffic) -> Traffic:
  """The same bill, with a name inside `naming` if there is anything to pay."""
  numbers = _NUMBERS.get()
  is_known = lambda digit: not isinstance(digit, jax.core.Tracer)
  digits = jax.tree.leaves(bill.bytes)
  free = all(is_known(digit) and not np.any(digit) for digit in digits)
  if numbers is None or free:
    return bill
  name = f'{PREFIX}{next(numbers)}'
  give = lambda digit: checkpoint_name(jnp.asarray(digit), name)
  return dataclasses.replace(bill, bytes=jax.tree.map(give, bill.bytes))
