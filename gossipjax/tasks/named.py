"""The built-in tasks, by name.

The keyword arguments of a task are the keys of `config.task`. All tasks take:

  model          a name in `models.IMAGES` or `models.TEXT`
  width, layers  of the model; None for its own
  data_dir       where the files are, see `data.files`
"""

import functools
from collections.abc import Callable, Mapping

from gossipjax.tasks.images import images
from gossipjax.tasks.task import Task
from gossipjax.tasks.text import text

TASKS: Mapping[str, Callable[..., Task]] = {
  'digits': functools.partial(images, 'digits', model='mlp'),
  'mnist': functools.partial(images, 'mnist'),
  'fashion_mnist': functools.partial(images, 'fashion_mnist'),
  'cifar10': functools.partial(
    images, 'cifar10', model='resnet20', augment=True
  ),
  'cifar100': functools.partial(
    images, 'cifar100', model='resnet20', augment=True
  ),
  'text': text,
}
