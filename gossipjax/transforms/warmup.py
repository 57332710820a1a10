"""Density warm-up: a sparse strategy sends more at first, in a few stages.

    @with_warmup
    def strategy(density: float = 0.001) -> Strategy:

gives `strategy` one more argument, `warmup`, and does what it says. Every
function here that returns a Warmup is a `warmup.name` of a config.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from gossipjax.aggregator import Aggregator, Strategy
from gossipjax.errors import UserError
from gossipjax.transforms.added_argument import Make, with_argument

_EXPLAINED = """densities of the first steps; none(), dgc(steps), gtopk(steps),
    stages(densities, steps), see transforms/warmup.py."""


class Warmup(NamedTuple):
  """Stages before the final density.

  Attributes:
    densities: of the stages; those not above the final density are left out.
    steps: of each stage.
  """

  densities: tuple[float, ...]
  steps: int


def none() -> Warmup:
  """The final density from the first step on."""
  return Warmup((), 1)


def stages(densities: tuple[float, ...], steps: int) -> Warmup:
  """Any densities, one for each stage.

  Args:
    densities: of the stages, in their order.
    steps: of each stage.

  Raises:
    UserError: fewer than 1 step, or a density outside (0, 1].
  """
  if steps < 1:
    raise UserError(
      f'warmup.steps must be at least 1, got {steps}; '
      'warmup.name=none has no stages.'
    )
  if not densities or not 0 < min(densities) <= max(densities) <= 1:
    raise UserError(
      f'warmup.densities must be above 0 and at most 1, got {densities}.'
    )
  return Warmup(densities, steps)


def dgc(steps: int) -> Warmup:
  """0.25, 0.0625, 0.015625, 0.004, the stages of DGC; there each is an epoch.

  Lin et al., Deep gradient compression, 2018. arXiv:1712.01887
  """
  return stages((0.25, 0.0625, 0.015625, 0.004), steps)


def gtopk(steps: int) -> Warmup:
  """A density of 0.004, which lasts an epoch in the code that gTop-k's authors
  released; no warm-up for final densities of 0.004 or more.

  Shi et al., A distributed synchronous SGD algorithm with global top-k
  sparsification for low bandwidth networks, 2019. arXiv:1901.04359
  """
  return stages((0.004,), steps)


def run_stages(steps: int, aggregators: Sequence[Aggregator]) -> Aggregator:
  """Runs each aggregator for `steps` steps, and the last one from then on.

  Each counts its steps from 0, so that a selection that is exact every few
  steps is exact in its first step. All of them share one state.
  """

  def update(tree, state, step, active=True):
    stage = jnp.minimum(step // steps, len(aggregators) - 1)
    own_step = step - stage * steps
    return lax.switch(
      stage,
      [
        functools.partial(a.update, tree, state, own_step, active)
        for a in aggregators
      ],
    )

  return Aggregator(aggregators[-1].init, update)


def with_warmup(strategy: Make) -> Make:
  """Adds the argument `warmup` to a strategy of gradients with a `density`.

  Args:
    strategy: a function with defaults whose docstring begins with `Args:`; the
      memory of its aggregator does not depend on the density.
  """
  return with_argument(strategy, 'warmup', none(), _EXPLAINED, _staged)


def _staged(make: Make, kwargs: dict[str, Any], warmup: Warmup) -> Strategy:
  final = make()
  higher = [d for d in warmup.densities if d > kwargs['density']]
  if not higher:
    return final
  warmups = [make(density=d).gradients for d in higher]
  return final._replace(
    gradients=run_stages(warmup.steps, [*warmups, final.gradients])
  )
