"""The config part that says which optimizer takes outer steps.

Every function here that returns an OuterOptimizer is an `outer.name` of a
config. Its gradient is the workers' mean progress D, the parameters before the
inner steps minus those after.
"""

from typing import TypeAlias

import optax

from gossipjax.errors import UserError

OuterOptimizer: TypeAlias = optax.GradientTransformation


def _checked(stepsize: float, momentum: float = 0.0) -> None:
  if not (stepsize > 0 and 0 <= momentum < 1):
    raise UserError(
      'An outer optimizer takes stepsize > 0 and momentum from 0 to below 1, '
      f'got {stepsize} and {momentum}.'
    )


def nesterov(stepsize: float = 0.7, momentum: float = 0.9) -> OuterOptimizer:
  """v <- m v + D; s <- s - a (D + m v): DiLoCo's, with its constants.

  Args:
    stepsize: a.
    momentum: m.
  """
  _checked(stepsize, momentum)
  return optax.sgd(stepsize, momentum=momentum, nesterov=True)


def heavy_ball(stepsize: float = 0.7, momentum: float = 0.3) -> OuterOptimizer:
  """v <- m v + D; s <- s - a v: of NoLoCo's baseline, with its constants.

  Args:
    stepsize: a.
    momentum: m.
  """
  _checked(stepsize, momentum)
  return optax.sgd(stepsize, momentum=momentum)


def sgd(stepsize: float = 1.0) -> OuterOptimizer:
  """s <- s - a D; with a = 1 the workers' mean.

  Args:
    stepsize: a.
  """
  _checked(stepsize)
  return optax.sgd(stepsize)


def adam(
  stepsize: float = 0.001, b1: float = 0.9, b2: float = 0.999
) -> OuterOptimizer:
  """Adam on D, as in FedAdam (Reddi et al., 2021. arXiv:2003.00295).

  Args:
    stepsize: a. A parameter changes by about a per outer step while successive
      D are alike, and by several times a after some D near 0.
    b1, b2: decays of the moments.
  """
  _checked(stepsize)
  return optax.adam(stepsize, b1, b2)
