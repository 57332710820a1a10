"""The loss of a model before its first step, and how much of it is gone."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from gossipjax.advice import step_cost
from gossipjax.training.run import resolve_run


def loss(config: ConfigDict, tasks: dict[str, Any] | None = None) -> float:
  """Training loss of the untrained model, on worker 0's first examples.

  Args:
    config: of a run.
    tasks: those that are loaded, by what they depend on; they are added to.
  """
  run = resolve_run(config, {} if tasks is None else tasks)
  params, state = run.task.begin(jax.random.key(run.seed))
  examples = step_cost.examples(run.task, run.batch_size)
  batch = jax.tree.map(jnp.asarray, examples)
  found, _ = run.task.training_loss(params, state, batch, jax.random.key(1))
  return float(found)


def share_lost(before: float, now: float) -> float:
  """Which share of a loss is gone: 0.25 from 2 to 1.5.

  Returns:
    At most 1, and 1 for a loss that began at 0 or below: it has no zero to be
    held against.
  """
  if before <= 0 or not math.isfinite(before):
    return 1.0
  return min(1.0, 1 - now / before)
