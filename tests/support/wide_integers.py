"""One exchange of every strategy, for JAX with and without 64-bit types.

`python -m tests.support.wide_integers DTYPE` prints, as JSON by strategy, what
is sent and which dtypes of parameters and memories change.
"""

import importlib
import json
import pkgutil
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax import collectives, strategies, triggers
from gossipjax.aggregator import Strategy
from gossipjax.local_step import make_worker
from tests.support import laws

WORKERS = 4
SHAPES = {'kernel': (64, 20), 'bias': (20,)}


def every() -> dict[str, Strategy]:
  """Each strategy at its defaults, and adaptive gossip with each trigger."""
  names = [m.name for m in pkgutil.iter_modules(strategies.__path__)]
  of = lambda name: importlib.import_module(f'gossipjax.strategies.{name}')
  given = {name: {} for name in triggers.__all__ if name != 'Trigger'}
  given['step_size'] = {'learning_rate': 0.1}
  return {name: of(name).strategy() for name in names} | {
    name: of('adaptive_gossip').strategy(trigger=getattr(triggers, name)(**kw))
    for name, kw in given.items()
  }


def exchanged(strategy: Strategy, dtype: str) -> dict:
  """Bytes that each worker sends, and leaves whose dtype the update changes."""
  init, update = make_worker(strategy, optax.sgd(0.1))
  rng = np.random.default_rng(0)
  params = {
    k: rng.standard_normal((WORKERS, *shape)).astype(dtype)
    for k, shape in SHAPES.items()
  }
  step = jnp.int32(laws.COMMON_PERIOD - 1)

  def begin_and_exchange(params):
    worker = init(params)
    return worker, *update(worker, params, step)

  one = jax.vmap(begin_and_exchange, axis_name=collectives.WORKERS)
  # With float64 only the dtypes matter, so nothing is run.
  run = jax.jit(one) if dtype == 'float32' else jax.jit(one).eval_shape
  worker, after, sent = run(params)
  before = jax.tree_util.tree_leaves_with_path(worker)
  return {
    'bytes': np.asarray(sent.bytes).tolist() if dtype == 'float32' else [],
    'changed': [
      jax.tree_util.keystr(path)
      for (path, x), y in zip(before, jax.tree.leaves(after), strict=True)
      if x.dtype != y.dtype
    ],
  }


if __name__ == '__main__':
  warnings.simplefilter('error', FutureWarning)  # Of unsafe casts.
  jax.config.update('jax_disable_most_optimizations', True)
  print(json.dumps({n: exchanged(s, sys.argv[1]) for n, s in every().items()}))
