"""What a step costs: the bytes of a strategy, and seconds measured here."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from benchmarks.exchange import in_turns
from gossipjax import build, session, spmd


def bytes_sent(strategy: ConfigDict, shapes: Any, workers: int) -> int:
  """By a worker in a step, if that does not depend on the gradients."""
  mean = build.strategy(strategy).gradients

  @spmd.on_one_device
  def bill(_):
    tree = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return mean.update(tree, mean.init(tree), jnp.int32(0))[2]

  return int(bill(np.zeros(workers)).bytes.max())


def seconds(config: ConfigDict, strategies: Mapping[str, ConfigDict]
            ) -> dict[str, float]:
  """Of one worker, medians: its `gradient`, and what each strategy adds.

  A strategy is timed for all workers in one program without a network, and
  that divided by their number.
  """
  run = session.make(config)
  params = run.task.init(jax.random.key(0))
  batch = jax.tree.map(lambda x: x[0, :config.batch_size], run.task.train)
  gradient = jax.jit(jax.grad(run.task.loss))
  some = gradient(params, batch, jax.random.key(0))
  everyone = jax.tree.map(lambda x: jnp.stack([x] * config.workers), some)
  calls = {'gradient': lambda: gradient(params, batch, jax.random.key(0))}
  for name, strategy in strategies.items():
    mean = build.strategy(strategy).gradients
    state = spmd.on_one_device(mean.init)(everyone)
    calls[name] = lambda update=spmd.on_one_device(mean.update), state=state: (
        update(everyone, state, step=jnp.int32(0)))
  found = in_turns(calls)
  return {name: found[name] / (1 if name == 'gradient' else config.workers)
          for name in found}
