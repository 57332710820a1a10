"""Where the time of one step of each strategy goes, by JAX's profiler.

All workers run under `vmap` with the optimizers and arguments of
benchmarks/stages.py, with which every step exchanges. A step is compiled twice:
as for users, which is timed without the profiler, and without graphs of
kernels, in which the profiler finds no instructions. Stages and instructions
come from the second program. `idle` is the share of its step in which no
instruction ran: the cost of starting instructions, of the profiler, and of
loops whose length the host has to read from the device.
"""

import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax

from benchmarks import stages
from benchmarks.accelerator import slopes
from benchmarks.accelerator.measures import Measure
from gossipjax.config import resolve
from gossipjax.profiling import stage_times
from gossipjax.profiling.instruction_stages import STAGES

SIZE, WORKERS, DENSITY = 25_600_000, 8, 0.001
SMALL, FEW = 4096, 2
TURNS = 5
SHOWN = 5  # Instructions that take most of the time.
# No kernels are put into a graph, whatever their kind and their number.
WITHOUT_GRAPHS = {
  'xla_gpu_enable_command_buffer': '',
  'xla_gpu_graph_min_graph_size': 10**6,
}


def measures(small: bool) -> Iterator[Measure]:
  """Yields a measure for each strategy."""
  for name in ('gossip', 'topk') if small else resolve.STRATEGIES:
    size, workers = (SMALL, FEW) if small else (SIZE, WORKERS)
    key: dict[str, Any] = {'strategy': name, 'n': size, 'workers': workers}
    if arguments := stages.every_step(name):
      key['arguments'] = arguments
    yield Measure(
      key,
      lambda left, name=name, size=size, workers=workers: _trace(
        name, size, workers
      ),
    )


def _trace(name: str, size: int, workers: int) -> dict[str, Any]:
  """Measures seconds of stages and longest instructions in a median step.

  Raises:
    RuntimeError: the profiler saw none of the program's instructions.
  """
  # Otherwise a function keeps the stage of a strategy that traced it before.
  jax.clear_caches()
  density = max(DENSITY, 16 / size)
  strategy = resolve.strategy(
    resolve.strategy_config(name, **stages.arguments(name, density))
  )
  vector = stages.shapes(size)
  grads = jax.random.normal(jax.random.key(0), (workers, *vector.shape))
  plain = stages.stepping(strategy, grads)
  steps = lambda times: [plain.call() for _ in range(times)][-1]
  plain_s = statistics.median(slopes.slope(steps, FEW))
  step = stages.stepping(strategy, grads, WITHOUT_GRAPHS)
  costs = []
  for turn in range(TURNS + 2):
    cost = stage_times.trace(step.call, set(step.stages))
    if turn > 1:
      costs.append(cost)
  median_s = statistics.median_low(cost.wall_s for cost in costs)
  cost = next(cost for cost in costs if cost.wall_s == median_s)
  if not cost.seconds:
    raise RuntimeError("the profiler saw none of the program's instructions")
  by_stage = Counter(dict.fromkeys(STAGES, 0.0))
  for instruction, seconds in cost.seconds.items():
    by_stage[step.stages[instruction]] += seconds
  num_bytes = sum(step.bytes[name] * n for name, n in cost.executions.items())
  return {
    'step_s': plain_s,
    'traced_s': cost.wall_s,
    'stages_s': dict(by_stage),
    'idle': 1 - sum(cost.seconds.values()) / cost.wall_s,
    'instructions': sum(cost.executions.values()),
    'bytes': num_bytes,
    'longest': [
      {'name': name, 'stage': step.stages[name], 'seconds': seconds}
      for name, seconds in Counter(cost.seconds).most_common(SHOWN)
    ],
  }


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """A row for each strategy, milliseconds by stage."""
  found = []
  for line in sorted(lines, key=lambda line: line['key']['strategy']):
    result, arguments = line['result'], line['key'].get('arguments', {})
    longest = [
      f'{x["name"]} {1e3 * x["seconds"]:.2f}' for x in result['longest']
    ]
    found.append(
      {
        'strategy': line['key']['strategy'],
        'arguments': ', '.join(f'{k}={v}' for k, v in arguments.items()),
        'step, ms': f'{1e3 * result["step_s"]:.2f}',
        'under the profiler, ms': f'{1e3 * result["traced_s"]:.2f}',
        **{
          stage: f'{1e3 * seconds:.2f}' if seconds else ''
          for stage, seconds in result['stages_s'].items()
        },
        'idle': f'{result["idle"]:.2f}',
        'instructions': result['instructions'],
        'GB/s': f'{1e-9 * result["bytes"] / result["step_s"]:,.0f}',
        'longest, ms': ', '.join(longest[:2]),
      }
    )
  return found
