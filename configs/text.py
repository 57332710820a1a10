"""Predicts the next byte of Tiny Shakespeare: six strategies, or one.

    python run.py --config=configs/text.py
    python run.py --config=configs/text.py:gtopk --config.task.model=lstm
    python run.py --config=configs/text.py --config.task.file=/my/book.txt

Held-out accuracy after 400 steps, seed 0: all_reduce 34.8 %, gossip 32.4 %,
local_sgd 30.9 %, compressed 33.9 %, topk 17.9 %, gtopk 14.9 %. Adam's scale of
an entry decays while a sparse gradient leaves it out, and then divides the rare
value: topk and gtopk need another learning rate. 3 minutes on 2 cores.
"""

from ml_collections import ConfigDict

from gossipjax.config import defaults, resolve


def get_config(strategy: str = '') -> ConfigDict:
  config = defaults.get_config(strategy or 'all_reduce')
  config.task = defaults.task('text', width=64, layers=2, sequence=64)
  config.workers = 4
  config.steps = 400
  config.batch_size = 8
  config.eval_every = 200
  config.optimizer = defaults.optimizer(
    'adam', learning_rate=3e-3, schedule='cosine', warmup_steps=40
  )
  if 'look_ahead' in config.strategy:
    config.strategy.look_ahead = 0.0  # Adam has no Nesterov momentum.
  if not strategy:
    config.variants = defaults.variants(
      all_reduce='all_reduce',
      gossip=resolve.strategy_config('gossip', topology='exponential'),
      local_sgd='local_sgd',
      compressed='compressed',
      topk='topk',
      gtopk=resolve.strategy_config('gtopk', density=0.01),
    )
  return config
