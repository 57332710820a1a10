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
  """The same bill; inside `naming` with a name, unless it is surely nothing."""
  numbers, digits = _NUMBERS.get(), jax.tree.leaves(bill.bytes)
  traced = any(isinstance(digit, jax.core.Tracer) for digit in digits)
  if numbers is None or not (traced or any(map(np.any, digits))):
    return bill
  name = f'{PREFIX}{next(numbers)}'
  give = lambda digit: checkpoint_name(jnp.asarray(digit), name)
  return dataclasses.replace(bill, bytes=jax.tree.map(give, bill.bytes))
