"""CIFAR-10 with a fast ResNet-8 or a ResNet-20: six strategies, or one.

    python run.py --config=configs/cifar10.py
    python run.py --config=configs/cifar10.py:gtopk --config.task.model=resnet20

With --config.optimizer.nesterov=False
--config.variants.elastic.strategy.look_ahead=0.0, held-out accuracy after 1,000
steps (2.6 epochs), seed 0: all_reduce 49.4 %, gossip 47.7 %, elastic 39.8 %,
local_sgd 44.9 %, topk 41.6 %, gtopk 36.9 %. 25 minutes on 2 busy cores.
"""

from ml_collections import ConfigDict

from gossipjax.config import defaults, resolve


def get_config(strategy: str = '') -> ConfigDict:
  config = defaults.get_config(strategy or 'all_reduce')
  config.task = defaults.task('cifar10', model='resnet8', augment=True)
  config.steps = 1000
  config.batch_size = 16
  config.log_every = 50
  config.eval_every = 250
  config.checkpoint_every = 250
  config.optimizer.learning_rate = 0.1
  config.optimizer.schedule = 'cosine'
  config.optimizer.warmup_steps = 100
  config.optimizer.weight_decay = 5e-4
  if not strategy:
    config.variants = defaults.variants(
      all_reduce='all_reduce',
      gossip=resolve.strategy_config('gossip', topology='exponential'),
      elastic=resolve.strategy_config('elastic', period=4),
      local_sgd='local_sgd',
      topk='topk',
      gtopk=resolve.strategy_config('gtopk', density=0.01),
    )
  return config
