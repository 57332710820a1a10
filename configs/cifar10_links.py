"""A shallow network on CIFAR-10 with four workers, for links that are slow.

    python -m experiments.testbed --workers=4 --rate=100mbit -- \\
        --config=configs/cifar10_links.py

experiments/train_1gbit.py times its steps at two rates.
"""

from ml_collections import ConfigDict

from gossipjax.config import defaults, resolve


def get_config(strategy: str = '') -> ConfigDict:
  config = defaults.get_config(strategy or 'all_reduce')
  config.task = defaults.task(
    'cifar10', model='shallow', whiten=True, smoothing=0.1
  )
  config.workers = 4
  config.steps = 3200
  config.batch_size = 32
  config.log_every = config.eval_every = 320
  config.optimizer.learning_rate = 0.1
  config.optimizer.weight_decay = 5e-4
  config.optimizer.schedule = 'cosine'
  config.optimizer.warmup_steps = 640
  if not strategy:
    config.variants = defaults.variants(
      all_reduce='all_reduce',
      gossip=resolve.strategy_config('gossip', topology='exponential'),
      local_sgd='local_sgd',
      topk=resolve.strategy_config('topk', density=0.01),
      gtopk=resolve.strategy_config('gtopk', density=0.01),
    )
  return config
