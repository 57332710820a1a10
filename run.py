"""Trains a model under one or several communication strategies.

    python run.py --config=configs/quickstart.py
    python run.py --config=configs/cifar10.py:gtopk --config.workers=4

The same as `python -m gossipjax run`, for a checkout that is not installed.
"""

import sys

from gossipjax.__main__ import main

if __name__ == '__main__':
  main(['run', *sys.argv[1:]])
