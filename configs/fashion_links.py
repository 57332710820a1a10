"""A CNN on Fashion-MNIST with eight workers, for slow links.

    python -m experiments.testbed --workers=8 --rate=100mbit -- \\
        --config=configs/fashion_links.py

experiments/train_1gbit.py times the steps of this config on two link speeds.
"""

from ml_collections import ConfigDict

from gossipjax.config import defaults, resolve


def get_config(strategy: str = '') -> ConfigDict:
  config = defaults.get_config(strategy or 'all_reduce')
  config.task = defaults.task('fashion_mnist', model='cnn', width=32)
  config.workers = 8
  config.steps = 4700
  config.batch_size = 16
  config.log_every = config.eval_every = 470
  config.optimizer.learning_rate = 0.05
  config.optimizer.schedule = 'cosine'
  if not strategy:
    config.variants = defaults.variants(
      all_reduce='all_reduce',
      gossip='gossip',
      local_sgd='local_sgd',
      topk=resolve.strategy_config('topk', density=0.01),
      gtopk=resolve.strategy_config('gtopk', density=0.01, conserve=True),
      power_sgd='power_sgd',
    )
  return config
