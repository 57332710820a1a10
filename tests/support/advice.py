"""Made-up forecasts and kept runs, for the tests of advice."""

import math

import numpy as np

from gossipjax import network
from gossipjax.advice import known_runs, risk, step_traffic
from gossipjax.advice.forecast import Forecast
from gossipjax.config import defaults
from gossipjax.traffic import Traffic
from tests.support import workdirs


def forecast(
  name: str,
  path_bytes: int,
  select_s: float = 0.0,
  rounds: int = 1,
  chance: risk.Risk = risk.Risk(),
) -> Forecast:
  """A forecast of one worker and one step, with a second of computing."""
  sent = Traffic(
    *np.array([path_bytes, path_bytes, 1, rounds, path_bytes]).reshape(5, 1, 1)
  )
  return Forecast(
    name,
    1.0,
    select_s,
    step_traffic.StepTraffic(sent, True, np.ones(1)),
    chance,
  )


DENSE = forecast('all_reduce', 1000)
LINK = network.Link(0.1, 1e4)


def known(strategy: str, value: float, steps=float('nan'), **given):
  """A run of an MLP on digits with 8 workers; all-reduce scores 90 %."""
  place = {'task': 'digits', 'model': 'mlp', 'optimizer': 'sgd', 'workers': 8}
  place |= {'split': 'iid'}
  missed = steps if math.isnan(steps) else float(math.isinf(steps))
  score = ('test_accuracy', value, 0.9, missed, steps, 1)
  where = (place | given).values()
  return known_runs.Known('somewhere', *where, strategy, *score)


def chance(*known_of_it) -> risk.Risk:
  return risk.of(known_of_it, defaults.get_config())


def workdir_with(path, second, target=0.0, first='all_reduce', **keys):
  """A comparison with two seeds; `second` has the scores of sparse, seed 1.

  Others reach 0.5 and 1.0: all-reduce after 1 and 2 steps, topk after 2 and 4.
  """
  config = workdirs.config(
    dense={'strategy': {'name': first}}, sparse={'strategy': {'name': 'topk'}}
  )
  folder = workdirs.claim(
    path, config | {'target': target, 'seeds': [0, 1]} | keys
  )
  for seed in (0, 1):
    for name, scale in (('dense', 1), ('sparse', 2)):
      scores = second if (name, seed) == ('sparse', 1) else (0.5, 1.0)
      records = [
        workdirs.record(scale * s, test_accuracy=score)
        for s, score in zip((1, 2), scores, strict=True)
      ]
      workdirs.run(folder, f'{name}-seed{seed}', records, seed=seed)
  return folder
