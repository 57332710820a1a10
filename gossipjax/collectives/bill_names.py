"""Names of bills in a traced program, by which a check finds missing bills."""

import contextlib
import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from gossipjax.traffic import Traffic

PREFIX = 'gossipjax.bill '
_NUMBERS = jax.make_user_context(default_value=None)


def naming() -> contextlib.AbstractContextManager[None]:
  """Makes each collective that is traced inside name the bytes of its bill.

  Inside, JAX traces functions anew even if it has traced them before, under jit
  or in a branch. Within one `naming` a second call has the names of the first.
  """
  return _NUMBERS(itertools.count())


def named(bill: Traffic) -> Traffic:
  """Returns the bill; inside `naming` it has a name unless it is surely 0."""
  numbers, digits = _NUMBERS.value, jax.tree.leaves(bill.bytes)
  traced = any(isinstance(digit, jax.core.Tracer) for digit in digits)
  if numbers is None or not (traced or any(map(np.any, digits))):
    return bill
  name = f'{PREFIX}{next(numbers)}'
  with_name = lambda digit: checkpoint_name(jnp.asarray(digit), name)
  return dataclasses.replace(bill, bytes=jax.tree.map(with_name, bill.bytes))
