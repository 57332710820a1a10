"""A small comparison to tune, and the config that tuning writes."""

import importlib.util
import pathlib

from gossipjax.config import defaults

STRATEGIES = ('local_sgd', 'all_reduce')  # Not in alphabetical order.


def small(*strategies: str) -> defaults.ConfigDict:
  """The config of a comparison with two workers and six steps."""
  config = defaults.get_config()
  config.update(workers=2, steps=6, log_every=3, eval_every=0, executor='vmap')
  config.split.examples = 64
  config.variants = defaults.variants(**{name: name for name in strategies})
  return config


def load(path: pathlib.Path) -> defaults.ConfigDict:
  """Loads the config of a file."""
  spec = importlib.util.spec_from_file_location('tuned', path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.get_config()
