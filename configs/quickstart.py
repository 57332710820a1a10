"""Six strategies on scikit-learn's handwritten digits, with no download.

    python run.py --config=configs/quickstart.py
"""

from ml_collections import ConfigDict

from configs import default
from gossipjax import build


def get_config() -> ConfigDict:
  config = default.get_config()
  config.optimizer.schedule = 'cosine'
  config.variants = default.variants(
      all_reduce='all_reduce',
      gossip=build.strategy_config('gossip', topology='exponential'),
      elastic='elastic',
      local_sgd='local_sgd',
      topk='topk',
      gtopk=build.strategy_config('gtopk', density=0.01))
  return config
