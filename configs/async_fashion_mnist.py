r"""Thirteen runs on Fashion-MNIST on one simulated cluster, in virtual time.

    python run.py --config=configs/async_fashion_mnist.py
    python run.py --config=configs/async_fashion_mnist.py --config.workers=64 \
        --config.variants.backup_workers.cluster.first=63
    python run.py --config=configs/async_fashion_mnist.py \
        --config.cluster.failures='((3, 5.0),)'

Worker 0 of 8 is a straggler. Held-out accuracy and virtual seconds of 300
steps, seed 0: all_reduce 82.5 % 18.9 s, backup_workers 82.6 % 12.0, topk 82.5 %
16.2, gtopk 81.3 % 16.1, local_sgd 82.3 % 15.4, server 82.2 % 9.9, elastic 82.0
% 9.9, pull_gossip 81.5 % 7.9, push_gossip 82.3 % 7.7, ad_psgd 82.4 % 8.0, gosgd
82.6 % 8.0, adaptive_gossip 82.5 % 6.4. async_local_sgd does not learn at this
rate: it adds up eight steps of eight workers. 5 minutes on 2 busy cores.
"""

from ml_collections import ConfigDict

from gossipjax.config import defaults, resolve


def get_config() -> ConfigDict:
  config = defaults.get_config()
  config.task = defaults.task('fashion_mnist', model='mlp')
  config.steps = 300
  config.batch_size = 32
  config.log_every = 10
  config.eval_every = 20
  # A server adds up the workers' pushes; momentum would multiply them by ten.
  config.optimizer = defaults.optimizer('sgd', learning_rate=0.05)
  config.cluster = defaults.cluster(
    compute='lognormal',
    step_s=0.02,
    spread=0.3,
    stragglers=(0,),
    sleep_s=0.06,
    timeout_s=60.0,
  )
  plain = {'look_ahead': 0.0}  # There is no momentum to look ahead with.
  # A new dict for each variant: one that is shared cannot be overridden alone.
  waits = lambda: {'cluster': {'asynchronous': False}}
  config.variants = ConfigDict(
    {
      'all_reduce': {
        'strategy': resolve.strategy_config('all_reduce'),
        **waits(),
      },
      'backup_workers': {
        'strategy': resolve.strategy_config('all_reduce'),
        'cluster': {'asynchronous': False, 'first': 7},
      },
      'topk': {'strategy': resolve.strategy_config('topk'), **waits()},
      'gtopk': {
        'strategy': resolve.strategy_config('gtopk', density=0.01),
        **waits(),
      },
      'local_sgd': {
        'strategy': resolve.strategy_config('local_sgd'),
        **waits(),
      },
      **defaults.variants(
        async_local_sgd='local_sgd',
        server='parameter_server',
        elastic=resolve.strategy_config('elastic', **plain),
        pull_gossip=resolve.strategy_config('pull_gossip', **plain),
        push_gossip=resolve.strategy_config('push_gossip', **plain),
        ad_psgd='pairwise_gossip',
        gosgd=resolve.strategy_config('push_sum', topology='complete'),
        adaptive_gossip=resolve.strategy_config(
          'adaptive_gossip', topology='complete'
        ),
      ).to_dict(),
    },
    sort_keys=False,
  )
  return config
