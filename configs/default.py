"""Every key with its default: an MLP on digits; or configs/default.py:gtopk.

    python run.py --config=configs/default.py

gossipjax/config/defaults.py explains the keys; its functions build configs.
"""

from gossipjax.config.defaults import (
  cluster,
  get_config,
  optimizer,
  task,
  variants,
)

__all__ = ['cluster', 'get_config', 'optimizer', 'task', 'variants']
