"""The cost of a step of triggered gossip in which no worker's trigger fires.

With scope=all, workers share a flag that says whether any trigger fires; if
none does, the collectives of the exchange are in a branch that is not taken.
"""

import re
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.framework import numerics
from experiments.framework.result_store import ResultStore
from gossipjax import executors, triggers
from gossipjax.profiling.interleaved_timing import time_in_turns
from gossipjax.strategies import adaptive_gossip

STRATEGY = 'adaptive_gossip'
WORKERS, SIZE, TURNS = 8, 5_000_000, 8
# By kind: a trigger that fires at every step, and one that is silent after the
# first step.
TRIGGERS = {
  'fixed': (triggers.fixed(1), triggers.fixed(10**6)),
  'norm_slope': (
    triggers.norm_slope(warmup=10**6),
    triggers.norm_slope(warmup=1),
  ),
  'relative_drift': (
    triggers.relative_drift(scale=0.0),
    triggers.relative_drift(scale=1e9),
  ),
}


class Step(NamedTuple):
  """One step of gossip.

  Attributes:
    prepare: makes the step's arguments, which the step overwrites.
    run: runs the step on them.
    program: the text of the compiled step.
    bytes: bytes that worker 0 sends in the step.
  """

  prepare: Callable[[], None]
  run: Callable[[], Any]
  program: str
  bytes: int


def table(kept: ResultStore) -> list[dict[str, Any]]:
  """A row for each trigger; measured once."""
  key = {
    'workers': WORKERS,
    'size': SIZE,
    'numerics': numerics.versions({'strategy': {'name': STRATEGY}}),
  }
  return [
    kept.get_or_compute(
      'silent_steps', key | {'trigger': name}, partial(measure, name)
    )
    for name in TRIGGERS
  ]


def measure(trigger: str) -> dict[str, Any]:
  """Measures the wall time of a silent step over a talking one, and bytes."""
  steps = dict(
    zip(
      ('talking', 'silent'),
      map(_step, TRIGGERS[trigger]),
      strict=True,
    )
  )
  costs = time_in_turns(
    {name: step.run for name, step in steps.items()},
    TURNS,
    before=lambda name: steps[name].prepare(),
  )
  ratio = statistics.median(
    silent.wall_s / talking.wall_s
    for talking, silent in zip(*costs.values(), strict=True)
  )
  loud, quiet = (step.bytes for step in steps.values())
  program = steps['talking'].program
  return {
    'trigger': trigger,
    'wall time, silent over talking step': ratio,
    'bytes of a talking step': loud,
    'bytes of a silent step': quiet,
    'exchange is in a branch of the program': in_a_branch(program),
  }


def _step(trigger: triggers.Trigger) -> Step:
  mesh = executors.executor(WORKERS, 'shard_map')
  mean = adaptive_gossip.strategy(trigger, 'all').parameters
  tree = mesh.put(np.ones((WORKERS, SIZE), np.float32))
  state = mesh.run(mean.init)(tree)
  run = mesh.run(mean.update, donate=(0, 1))
  program = run.lower(tree, state, step=jnp.int32(1)).compile().as_text()
  changed = jax.tree.map(lambda x: x + 1, tree)
  *begun, _ = run(changed, state, step=jnp.int32(0))
  arguments = []

  def prepare():
    # Parameters change a little: without any drift no trigger would fire.
    arguments[:] = jax.block_until_ready(
      (begun[0] + 1e-3, jax.tree.map(lambda x: x + 0, begun[1]))
    )

  call = lambda: run(*arguments, step=jnp.int32(5))
  prepare()
  return Step(prepare, call, program, int(call()[-1].bytes[0]))


def in_a_branch(program: str) -> bool:
  """Whether a compiled program moves parameters in branches only."""
  entry = re.search(r'^ENTRY .*?^}', program, re.M | re.S).group()
  moves = 'collective-permute'
  return ' conditional(' in entry and moves not in entry and moves in program
