"""Every key with its default: an MLP on digits; or configs/default.py:gtopk.

    python run.py --config=configs/default.py

gossipjax/config/defaults.py explains the keys.
"""

from gossipjax.config.defaults import get_config

__all__ = ['get_config']
