"""Models by name: `make('resnet8', classes=10)` is a flax module.

mlp          a perceptron
cnn          two convolutions and two dense layers
resnet       residual networks for 32x32 images and for ImageNet
resnet9      a wide, short residual network for 32x32 images
vgg          VGG for 32x32 images
shallow      six wide convolutions for 32x32 images
lstm         a recurrent network that reads bytes
transformer  a decoder-only transformer that reads bytes
conv         convolutions that stay fast when vmap stacks workers
norm         group norm
pool         2x2 max pooling

A model of your own stays outside the package, see docs/your_model.md; a
built-in model is added to IMAGES or TEXT below.

Layers use group norm or layer norm: with batch norm, workers that average
parameters would still each have batch statistics of their own. A task of your
own may have batch norm, see training/model_state.py.
"""

import inspect
from collections.abc import Callable, Mapping

from flax import linen as nn

from gossipjax.errors import UserError, nearest
from gossipjax.models.cnn import cnn
from gossipjax.models.lstm import lstm
from gossipjax.models.mlp import mlp
from gossipjax.models.resnet import (
  resnet8,
  resnet18,
  resnet20,
  resnet32,
  resnet50,
)
from gossipjax.models.resnet9 import resnet9
from gossipjax.models.shallow import shallow
from gossipjax.models.transformer import transformer
from gossipjax.models.vgg import vgg8, vgg16

# (classes, **sizes) -> module: [n, height, width, channels] -> [n, classes]
IMAGES: Mapping[str, Callable[..., nn.Module]] = {
  model.__name__: model
  for model in (
    mlp,
    cnn,
    resnet8,
    resnet9,
    resnet20,
    resnet32,
    resnet18,
    resnet50,
    vgg8,
    vgg16,
    shallow,
  )
}
# (classes, **sizes) -> module: int[n, sequence] -> [n, sequence, classes]
TEXT: Mapping[str, Callable[..., nn.Module]] = {
  model.__name__: model for model in (lstm, transformer)
}


def make(
  name: str,
  classes: int,
  among: Mapping[str, Callable] = IMAGES,
  **sizes: int | None,
) -> nn.Module:
  """Builds a model by name.

  Args:
    name: a key of `among`.
    classes: number of outputs.
    among: IMAGES or TEXT.
    **sizes: arguments of the model; None stands for the model's default.

  Raises:
    UserError: no such model, it has no such size, or a size below 1.
  """
  if name not in among:
    raise UserError(
      f'task.model: there is no model {name!r} for this task'
      f'{nearest(name, among)}'
    )
  sizes = {size: value for size, value in sizes.items() if value is not None}
  known = list(inspect.signature(among[name]).parameters)[1:]
  for size, value in sizes.items():
    if size not in known:
      raise UserError(
        f'task.{size}: the model {name!r} has no {size}; leave it out.'
      )
    if value < 1:
      raise UserError(f'task.{size} must be at least 1, got {value}.')
  return among[name](classes, **sizes)
