r"""Who is first on Fashion-MNIST: eleven methods on one cluster, virtual time.

    python run.py --config=configs/async_fashion_mnist.py
    python run.py --config=configs/async_fashion_mnist.py --config.workers=64
    python run.py --config=configs/async_fashion_mnist.py \
        --config.cluster.failures='((3, 5.0),)'
"""

from ml_collections import ConfigDict

from configs import default
from gossipjax import build


def get_config() -> ConfigDict:
  config = default.get_config()
  config.task = default.task('fashion_mnist', model='mlp')
  config.steps = 300
  config.batch_size = 32
  config.log_every = 10
  config.eval_every = 20
  # A server adds up what workers push: momentum would multiply that by ten.
  config.optimizer = default.optimizer('sgd', learning_rate=0.05)
  config.cluster = default.cluster(
      compute='lognormal', step_s=0.02, spread=0.3, stragglers=(0,),
      sleep_s=0.06, timeout_s=60.0)
  plain = {'look_ahead': 0.0}  # There is no momentum to look ahead with.
  waits = {'cluster': {'asynchronous': False}}
  config.variants = ConfigDict({
      'all_reduce': {'strategy': build.strategy_config('all_reduce'), **waits},
      'backup_workers': {
          'strategy': build.strategy_config('all_reduce'),
          'cluster': {'asynchronous': False, 'first': 7}},
      'topk': {'strategy': build.strategy_config('topk'), **waits},
      'gtopk': {'strategy': build.strategy_config('gtopk', density=0.01),
                **waits},
      'local_sgd': {'strategy': build.strategy_config('local_sgd'), **waits},
      **default.variants(
          async_local_sgd='local_sgd',
          server='parameter_server',
          elastic='elastic',
          pull_gossip=build.strategy_config('pull_gossip', **plain),
          push_gossip=build.strategy_config('push_gossip', **plain),
          ad_psgd='pairwise_gossip',
          gosgd=build.strategy_config('push_sum', topology='complete'),
          adaptive_gossip=build.strategy_config(
              'adaptive_gossip', topology='complete')).to_dict(),
  }, sort_keys=False)
  return config
