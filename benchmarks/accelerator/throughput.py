"""Images/s and tokens/s of virtual workers, and the memory that they take.

A step of all-reduce with momentum, of 1, 8 and 32 workers under `vmap`, through
`worker.update`; the same written by hand with nothing but jax; and one network
with one large batch of as many examples. Inputs are random and stay on the
device. Precisions as in laws.py. `apart` computes a convolution for each worker
in place of one in groups, which pays on a CPU (gossipjax/models/conv.py).
"""

import statistics
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.accelerator import programs
from benchmarks.accelerator.measures import Measure
from benchmarks.accelerator.problems import problem
from gossipjax.models import conv
from gossipjax.profiling import device_memory

WORKERS = (8, 1, 32)  # The most telling first.
FAST = ('bfloat16', 'tensorfloat32')
STEPS, TURNS = 10, 5


def measures(small: bool) -> Iterator[Measure]:
  """The speed of bfloat16 first, and how convolutions are best computed."""

  def one(task, program, workers, precision):
    key = {
      'task': task,
      'program': program,
      'workers': workers,
      'precision': precision,
    }
    return Measure(key, lambda left: _measure(small, **key))

  if small:
    for program in programs.PROGRAMS:
      many = 1 if program == 'one large batch' else 2
      yield one('resnet18', program, many, 'tensorfloat32')
    yield one('transformer', 'worker.update', 2, 'bfloat16')
    return
  for task in ('resnet18', 'transformer'):
    for precision in FAST:
      yield one(task, 'one large batch', 1, precision)
      for many in WORKERS:
        yield one(task, 'worker.update', many, precision)
        if (task, many) == ('resnet18', WORKERS[0]):
          yield one(task, 'apart', many, precision)
  for task in ('resnet18', 'transformer'):
    for precision in FAST:
      for many in WORKERS:
        yield one(task, 'by hand', many, precision)
    yield one(task, 'one large batch', 1, 'float32')
    yield one(task, 'worker.update', WORKERS[0], 'float32')


def _measure(
  small: bool, task: str, program: str, workers: int, precision: str
) -> dict[str, Any]:
  """Units a second, and memory by the compiler and by the device."""
  given, steps = problem(task, small), 1 if small else STEPS
  cut = lambda x: jnp.asarray(x.reshape(workers, -1, *x.shape[1:]))
  batch = jax.tree.map(cut, given.batch)
  products = 'highest' if precision == 'float32' else 'tensorfloat32'
  where = conv.WHERE
  try:
    if program == 'apart':
      conv.WHERE = ('cpu', jax.default_backend())
    with jax.default_matmul_precision(products):
      step, state = programs.PROGRAMS[program](given, workers, precision)
      run = step.lower(state, batch, jnp.int32(0)).compile()
  finally:
    conv.WHERE = where
  before, seconds = device_memory.peak_bytes(), []
  for turn in range(1 + (2 if small else TURNS)):
    began = time.perf_counter()
    for t in range(steps):
      state, loss = run(state, batch, jnp.int32(t))
    jax.block_until_ready(loss)
    if turn:
      seconds.append((time.perf_counter() - began) / steps)
  if not np.isfinite(jax.device_get(loss)).all():
    raise ValueError(f'the loss is {loss}')
  peak = device_memory.peak_bytes()
  return {
    'unit': given.unit,
    'per_s': given.units / statistics.median(seconds),
    'seconds': seconds,
    'compiler_bytes': device_memory.needed_bytes(run),
    # The device keeps the largest since the process began.
    'peak_bytes': peak if peak and peak > before else None,
  }


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """A row for each measure, and how it compares."""
  speed = {tuple(line['key'].values()): line['result'] for line in lines}
  rate = lambda *key: speed.get(key, {}).get('per_s')
  over = lambda a, b: f'{a / b:.2f}' if a and b else ''
  found = []
  for (task, program, workers, precision), one in sorted(speed.items()):
    mine = one['per_s']
    found.append(
      {
        'task': task,
        'program': program,
        'workers': workers,
        'precision': precision,
        'per s': f'{mine:,.0f} {one["unit"]}',
        'over by hand': over(mine, rate(task, 'by hand', workers, precision)),
        'over one large batch': over(
          mine, rate(task, 'one large batch', 1, precision)
        ),
        'over tensorfloat32': over(
          mine, rate(task, program, workers, 'tensorfloat32')
        ),
        'over float32': over(mine, rate(task, program, workers, 'float32')),
        'GB by the compiler': f'{one["compiler_bytes"] / 1e9:.2f}',
        'GB by the device': f'{peak / 1e9:.2f}'
        if (peak := one['peak_bytes'])
        else '',
      }
    )
  return found
