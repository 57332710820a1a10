"""What a silent step of triggered gossip costs if all workers are silent.

Under scope=all a flag agrees whether anyone wants to talk; if nobody does, the
collectives of the exchange are in a branch that is not taken.
"""

import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors
from gossipjax.strategies import adaptive_gossip

WORKERS, SIZE, TURNS = 8, 5_000_000, 8
# A way to talk at every step, and a way to keep silent after the first.
TRIGGERS = {
  'fixed': (dict(period=1), dict(period=10**6)),
  'norm_slope': (dict(warmup=10**6), dict(warmup=1)),
  'relative_drift': (dict(scale=0.0), dict(scale=1e9)),
}


def measure(trigger: str) -> dict[str, Any]:
  """Time of a silent step over that of a talking step, and their bytes."""
  (talking, program), (silent, _) = (
    _step(trigger, settings) for settings in TRIGGERS[trigger]
  )
  # In turns, so that a busy machine is busy for both.
  turns = [(talking(), silent()) for _ in range(TURNS)]
  ratio = statistics.median(quiet[0] / loud[0] for loud, quiet in turns)
  loud, quiet = (told[1] for told in turns[0])
  return {
    'trigger': trigger,
    'silent / talking': ratio,
    'bytes talking': loud,
    'bytes silent': quiet,
    'in a branch': in_a_branch(program),
  }


def _step(
  trigger: str, settings: dict[str, Any]
) -> tuple[Callable[[], tuple[float, int]], str]:
  """A step's seconds and the bytes a worker sent in it; and its program."""
  mesh = executors.executor(WORKERS, 'shard_map')
  mean = adaptive_gossip.strategy(trigger, 'all', **settings).parameters
  tree = mesh.put(np.ones((WORKERS, SIZE), np.float32))
  state = mesh.run(mean.init)(tree)
  run = mesh.run(mean.update, donate=(0, 1))
  program = run.lower(tree, state, step=jnp.int32(1)).compile().as_text()
  changed = jax.tree.map(lambda x: x + 1, tree)
  *begun, _ = run(changed, state, step=jnp.int32(0))

  def step():
    # Changed a little, lest a drift of zero be no reason to talk.
    tree, state = jax.block_until_ready(
      (begun[0] + 1e-3, jax.tree.map(lambda x: x + 0, begun[1]))
    )
    began = time.perf_counter()
    *_, sent = jax.block_until_ready(run(tree, state, step=jnp.int32(5)))
    took_s = time.perf_counter() - began
    return took_s, int(sent.bytes[0])

  return step, program


def in_a_branch(program: str) -> bool:
  """Whether parameters move only in branches of a compiled program."""
  entry = re.search(r'^ENTRY .*?^}', program, re.M | re.S).group()
  moves = 'collective-permute'
  return ' conditional(' in entry and moves not in entry and moves in program
