"""Seconds of each stage of each strategy's exchange, over reading its entries.

    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python -m benchmarks.stages
    ... python -m benchmarks.stages --size=1000000 topk gtopk

Without the variable every new array of 100 MB costs 60 ms of page faults.

One `update` with SGD, or with Adam where moments are exchanged, is timed, with
all workers batched on one device; the unit is reading their entries once. Every
step exchanges all that the strategy exchanges. JAX's profiler times every
instruction that runs, and gossipjax/profiling/instruction_stages.py names its
stage: `select` entries, `pack` them into messages and unpack these, `exchange`,
`merge` messages, the strategy's `own` arithmetic, `apply` the result. A fusion
counts for the stage of its root. `shard_map` is not used: with more devices
than cores the time of an instruction includes waiting. Under `vmap` an exchange
is a copy, and what all workers compute alike may be computed once.

`covered` is the time of all instructions over that of the step: it is below 1
because of the cost of starting them, and above 1 where two run at once. `bytes`
is what they read and write (gossipjax/profiling/instruction_bytes.py) over the
program's arguments and results, each counted once.
"""

import argparse
import collections
import itertools
import statistics
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import compressors, executors, models
from gossipjax.config import resolve
from gossipjax.local_step import make_worker, probe
from gossipjax.profiling import stage_times
from gossipjax.profiling.instruction_stages import STAGES
from gossipjax.profiling.stage_times import Program

TURNS = 9
SIZES = {220_234: (8, 0.01), 1_000_000: (8, 0.001), 25_600_000: (2, 0.001)}
SELECT = (
  'topk',
  'gtopk',
  'exact_global_topk',
  'ok_topk',
  'union_topk',
  'dgc',
  'random_k',
)
COLUMNS = (
  'step',
  'select',
  'pack',
  'exchange',
  'merge',
  'own',
  'apply',
  'covered',
  'bytes',
)
# With a period of 1 a fragment of a model is all of it, and nothing is late.
WHOLE = {'fragments': 1, 'delay': 0}


def every_step(name: str) -> dict[str, int]:
  """Returns arguments with which a strategy exchanges everything in every step;
  {} if it does so by default."""
  if name in SELECT:  # The period of ok_topk is that of its threshold.
    return {}
  settings = resolve.strategy_config(name)
  periods = {
    key: 1
    for key, value in settings.items()
    if key.endswith('period') and (value or 0) > 1
  }
  whole = {k: v for k, v in WHOLE.items() if settings.get(k, v) != v}
  return periods | whole if periods else {}


def arguments(name: str, density: float) -> dict[str, Any]:
  """Returns arguments that differ from the defaults: the density, and periods
  of 1."""
  if name == 'choco':
    return {'compressor': compressors.topk(density)}
  return {'density': density} if name in SELECT else every_step(name)


def shapes(size: int) -> Any:
  """Returns shapes of the CNN's parameters; for larger sizes, of one matrix."""
  if size == 220_234:
    init = models.make('cnn', 10).init
    return jax.eval_shape(init, jax.random.key(0), jnp.zeros((1, 28, 28, 1)))[
      'params'
    ]
  rows = next(r for r in range(int(size**0.5), 0, -1) if size % r == 0)
  return jax.ShapeDtypeStruct((rows, size // rows), 'f4')


def stepping(
  strategy: Any, grads: Any, options: dict[str, Any] | None = None
) -> Program:
  """Compiles the workers' update; each call continues from the last result.

  Args:
    strategy: of the workers.
    grads: gradients of each step, leaves [workers, ...].
    options: of the compiler.
  """
  init, update = make_worker(strategy, probe(strategy, 0.1))
  advance = lambda worker, grads, step: update(worker, grads, step)[0]
  step = executors.on_one_device(advance, donate=(0,))
  worker = executors.on_one_device(init)(jax.tree.map(jnp.zeros_like, grads))
  run = step.lower(worker, grads, step=jnp.int32(0)).compile(options)
  held, count = [worker], itertools.count()

  def call():
    held[0] = run(held[0], grads, step=jnp.int32(next(count)))
    return held[0]

  return stage_times.describe(run, call)


def reading(grads: Any) -> Program:
  """The unit: a program that reads each entry once."""
  flat = jnp.concatenate([x.ravel() for x in jax.tree.leaves(grads)])
  run = jax.jit(lambda x: jnp.abs(x).sum()).lower(flat).compile()
  return stage_times.describe(run, lambda: run(flat))


def turns(step: Program, read: Program) -> Iterator[dict[str, float]]:
  """Yields the figures of each turn, after two turns that are not counted."""
  for turn in range(TURNS + 2):
    cost = stage_times.trace(step.call, set(step.stages))
    unit = sum(stage_times.trace(read.call, set(read.stages)).seconds.values())
    if turn < 2:
      continue
    by_stage = collections.Counter(dict.fromkeys(STAGES, 0.0))
    for name, seconds in cost.seconds.items():
      by_stage[step.stages[name]] += seconds / unit
    moved = sum(step.bytes[name] * n for name, n in cost.executions.items())
    yield {
      'step': cost.wall_s / unit,
      **by_stage,
      'bytes': moved / step.least_bytes,
      'covered': sum(cost.seconds.values()) / cost.wall_s,
    }


def main() -> None:
  """Prints a table per size, each row as soon as it is measured."""
  parser = argparse.ArgumentParser()
  parser.add_argument('--size', type=int, choices=SIZES)
  parser.add_argument(
    'strategies', nargs='*', choices=[[], *resolve.STRATEGIES]
  )
  flags = parser.parse_args()
  for size in [flags.size] if flags.size else SIZES:
    workers, density = SIZES[size]
    random = np.random.default_rng(0)
    grads = jax.tree.map(
      lambda x: jnp.asarray(
        random.standard_normal((workers, *x.shape), np.float32)
      ),
      shapes(size),
    )
    read = reading(grads)
    print(
      f'\nn={size}, density={density}, workers={workers}\n\n'
      f'| strategy | {" | ".join(COLUMNS)} |\n|---{len(COLUMNS) * "|---"}|'
    )
    for name in flags.strategies or resolve.STRATEGIES:
      strategy = resolve.strategy(
        resolve.strategy_config(name, **arguments(name, density))
      )
      figures = list(turns(stepping(strategy, grads), read))
      row = [statistics.median(turn[c] for turn in figures) for c in COLUMNS]
      print(
        f'| {name} | ' + ' | '.join(f'{x:.2f}' for x in row) + ' |', flush=True
      )
      # Otherwise a function keeps the stack of a strategy that traced it first.
      jax.clear_caches()


if __name__ == '__main__':
  main()
