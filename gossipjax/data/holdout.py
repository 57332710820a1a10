"""Held-out examples: the test set, or a part of the training set."""

from typing import Any

import jax

from gossipjax.errors import UserError

Tree = Any


def hold_out(
  train: Tree, test: Tree, holdout: str, validation: float
) -> tuple[Tree, Tree]:
  """Training examples and held-out examples, for a test or for tuning.

  Args:
    train: arrays [n, ...].
    test: arrays [m, ...].
    holdout: 'test', or 'validation' to hold out the last of `train` instead.
    validation: the share of `train` held out for validation, in (0, 1).

  Returns:
    what to train on, and what to evaluate on.

  Raises:
    UserError: `holdout` is neither, or `validation` holds out none or all.
  """
  if holdout == 'test':
    return train, test
  if holdout != 'validation':
    raise UserError(
      f"split.holdout: {holdout!r} is neither 'test' nor 'validation'."
    )
  total = len(jax.tree.leaves(train)[0])
  held = round(total * validation) if 0 < validation < 1 else 0
  if not 0 < held < total:
    raise UserError(
      f'split.validation must hold out some of the {total} examples '
      f'and leave some, got {validation}.'
    )
  return (
    jax.tree.map(lambda x: x[: total - held], train),
    jax.tree.map(lambda x: x[total - held :], train),
  )
