"""The built-in tasks, by name.

The keyword arguments of a task are the keys of `config.task`. Of all tasks:

  workers, mine number of shares of the examples, and which are wanted here
  model         a name in `models.IMAGES` or `models.TEXT`
  width, layers of the model; None for its own
  split         how examples are shared out, see `data.split`
  holdout       'test', or 'validation': the last of the training set (or the
                folder's valid.txt), for tuning without a look at the test set
  validation    that part of the training set, in (0, 1)
  examples      at most so many for each worker, for quick runs
  seed          of the split
  data_dir      where the files are, see `data.files`
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gossipjax.errors import UserError, nearest
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


def make(name: str, workers: int, **settings: Any) -> Task:
  """The task of that name.

  Args:
    name: a key of TASKS.
    workers: number of shares of the examples.
    **settings: keyword arguments of the task's function.

  Raises:
    UserError: no such task or setting, or what the task refuses.
  """
  if name not in TASKS:
    raise UserError(
      f'task.name: there is no task {name!r}{nearest(name, TASKS)}'
    )
  known = list(inspect.signature(TASKS[name]).parameters)[1:]
  for key in settings:
    if key not in known:
      raise UserError(
        f'task.{key}: there is no such setting{nearest(key, known)}'
      )
  return TASKS[name](workers, **settings)
