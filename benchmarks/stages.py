"""What each stage of each strategy's exchange costs, over reading the entries.

    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python -m benchmarks.stages
    ... python -m benchmarks.stages --size=1000000 topk gtopk

Without the variable every fresh array of 100 MB costs 60 ms of page faults.

One `update` of the worker with SGD, all workers as a batch on one device; the
unit is reading their entries once. JAX's profiler times every instruction that
runs, and stacks.py tells its stage: `select` the entries, `pack` them into
messages and unpack these, `exchange`, `merge` messages, the strategy's `own`
arithmetic, `apply` the result. A fusion counts for the stage of its root. Not
under `shard_map`: with more devices than cores an instruction's time has
waiting in it. Under `vmap` an exchange is a copy, and what all workers compute
alike may be computed once.

`covered` is the time of all instructions over that of the step: less than 1 by
what starting them costs, more where two run at once. `bytes` is what they touch
(see touched.py) over the program's arguments and results, each once.
"""

import argparse
import collections
import itertools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks import stacks, touched
from gossipjax import compressors, executors, models
from gossipjax.audit import hlo
from gossipjax.config import resolve
from gossipjax.worker import make_worker

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
RARE = ('local_sgd', 'diloco', 'sparse_loco')  # Not in each step by default.


class Cost(NamedTuple):
  wall_s: float  # Of the call.
  seconds: dict[str, float]  # By instruction.
  times: dict[str, int]  # How often each ran.


def arguments(name: str, density: float) -> dict[str, Any]:
  """What is not the default: k, and that it exchanges in each step."""
  if name == 'choco':
    return {'compressor': compressors.topk(density)}
  return (
    {'density': density}
    if name in SELECT
    else {'period': 1}
    if name in RARE
    else {}
  )


def shapes(size: int) -> Any:
  """The CNN's tree; of the larger sizes a matrix."""
  if size == 220_234:
    init = models.make('cnn', 10).init
    return jax.eval_shape(init, jax.random.key(0), jnp.zeros((1, 28, 28, 1)))[
      'params'
    ]
  rows = next(r for r in range(int(size**0.5), 0, -1) if size % r == 0)
  return jax.ShapeDtypeStruct((rows, size // rows), 'f4')


def traced(call: Callable[[], Any], names: set[str]) -> Cost:
  """What the profiler tells of the instructions with these names."""
  options = jax.profiler.ProfileOptions()
  options.python_tracer_level = 0
  seconds, times = collections.Counter(), collections.Counter()
  with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder, profiler_options=options):
      began = time.perf_counter()
      jax.block_until_ready(call())
      wall_s = time.perf_counter() - began
    (file,) = pathlib.Path(folder).rglob('*.xplane.pb')
    planes = jax.profiler.ProfileData.from_file(str(file)).planes
    for event in (e for p in planes for line in p.lines for e in line.events):
      if event.name in names:
        seconds[event.name] += event.duration_ns / 1e9
        times[event.name] += 1
  return Cost(wall_s, seconds, times)


class Program(NamedTuple):
  call: Callable[[], Any]
  stages: dict[str, str]  # Of the instructions that run.
  bytes: dict[str, int]  # What each touches.
  least: int  # Bytes of arguments and results.


def program(run: Any, call: Callable[[], Any]) -> Program:
  """Of a compiled function."""
  text = run.as_text()
  module = hlo.parse(text)
  cost = {
    i.name: sum(map(touched.size, touched.touched(module, body, i)))
    for body in touched.bodies(module)
    for i in body.values()
    if i.opcode not in touched.FREE
  }
  stage, facts = stacks.stages(text, module), run.memory_analysis()
  return Program(
    call,
    {name: stage[name] for name in cost},
    cost,
    facts.argument_size_in_bytes + facts.output_size_in_bytes,
  )


def stepping(strategy: Any, grads: Any) -> Program:
  """One update after another, each of the worker that the last one made."""
  init, update = make_worker(strategy, optax.sgd(0.1))
  one = lambda worker, grads, step: update(worker, grads, step)[0]
  step = executors.on_one_device(one, donate=(0,))
  worker = executors.on_one_device(init)(jax.tree.map(jnp.zeros_like, grads))
  run = step.lower(worker, grads, step=jnp.int32(0)).compile()
  held, count = [worker], itertools.count()

  def call():
    held[0] = run(held[0], grads, step=jnp.int32(next(count)))
    return held[0]

  return program(run, call)


def reading(grads: Any) -> Program:
  """The unit: each entry once."""
  flat = jnp.concatenate([x.ravel() for x in jax.tree.leaves(grads)])
  run = jax.jit(lambda x: jnp.abs(x).sum()).lower(flat).compile()
  return program(run, lambda: run(flat))


def turns(step: Program, read: Program) -> Iterator[dict[str, float]]:
  """The figures of each turn, after two that warm up."""
  for turn in range(TURNS + 2):
    cost = traced(step.call, set(step.stages))
    unit = sum(traced(read.call, set(read.stages)).seconds.values())
    if turn < 2:
      continue
    found = collections.Counter(dict.fromkeys(stacks.STAGES, 0.0))
    for name, seconds in cost.seconds.items():
      found[step.stages[name]] += seconds / unit
    moved = sum(step.bytes[name] * n for name, n in cost.times.items())
    yield {
      'step': cost.wall_s / unit,
      **found,
      'bytes': moved / step.least,
      'covered': sum(cost.seconds.values()) / cost.wall_s,
    }


def main() -> None:
  """Prints a table per size, a row as soon as it is known."""
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
      each = list(turns(stepping(strategy, grads), read))
      row = [statistics.median(e[c] for e in each) for c in COLUMNS]
      print(
        f'| {name} | ' + ' | '.join(f'{x:.2f}' for x in row) + ' |', flush=True
      )
      jax.clear_caches()  # Or what another strategy has traced keeps its stack.


if __name__ == '__main__':
  main()
