"""Images/s and tokens/s of virtual workers, and the memory that they take.

Three programs are timed: a step of all-reduce with momentum, of 1, 8 and 32
workers under `vmap`, through `worker.update`; the same by hand with only jax;
and one network with one large batch of as many examples. Inputs are random and
stay on the device. Each measure runs in its own process, so that the device's
peak memory since the process began is that of the measure.

Convolutions of workers with different weights are computed in groups, or apart
(gossipjax/models/conv.py; the default with up to 16 workers, but here with any
number): these two come first. Precisions are named after the setting of float32
products, `default` (nothing is set, as for users) or `highest` of
jax.lax.Precision, or after `config.compute_dtype`: bfloat16.
"""

import itertools
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.accelerator import programs
from benchmarks.accelerator.measures import Measure
from benchmarks.accelerator.problems import Problem, problem
from gossipjax.models import conv
from gossipjax.profiling import device_memory

WORKERS = (8, 32, 1)  # The most informative first.
FAST = ('bfloat16', 'default')
ROWS = ('groups', 'apart')  # Programs that differ in their convolutions.
STEPS, TURNS = 10, 5


def measures(small: bool) -> Iterator[Measure]:
  """Yields the two ways to compute convolutions first, then all else."""
  for task, program, workers, precision in rehearsed() if small else wanted():
    key = {
      'task': task,
      'program': program,
      'workers': workers,
      'precision': precision,
    }
    yield Measure(key, lambda left, key=key: in_a_process(small, **key))


def rehearsed() -> Iterator[tuple]:
  """Task, program, workers and precision of each measure of a rehearsal."""
  for program in programs.PROGRAMS:
    workers = 1 if program == 'one large batch' else 2
    yield 'resnet18', program, workers, 'default'
  yield 'transformer', 'worker.update', 2, 'bfloat16'


def wanted() -> Iterator[tuple]:
  """The same on a GPU; the measures that answer most questions come first."""
  updates = {'resnet18': ROWS[1], 'transformer': 'worker.update'}
  found = [
    ('resnet18', program, WORKERS[0], precision)
    for program, precision in itertools.product(ROWS, FAST)
  ]
  for task, precision in itertools.product(updates, FAST):
    found.append((task, 'one large batch', 1, precision))
    found.append((task, updates[task], WORKERS[0], precision))
  for precision, workers in itertools.product(FAST, WORKERS):
    for task, update in updates.items():
      found.append((task, update, workers, precision))
      found.append((task, 'by hand', workers, precision))
  found += [('resnet18', ROWS[0], WORKERS[1], precision) for precision in FAST]
  for task, update in updates.items():
    found.append((task, update, WORKERS[0], 'highest'))
    found.append((task, 'one large batch', 1, 'highest'))
  return iter(dict.fromkeys(found))


def in_a_process(small: bool, **key: Any) -> dict[str, Any]:
  """Runs `measure` in its own process; a crash there is an error here.

  The process is forked from one that has imported everything, but has started
  no backend.
  """
  context = multiprocessing.get_context('forkserver')
  context.set_forkserver_preload([__name__])
  with futures.ProcessPoolExecutor(1, context) as pool:
    return pool.submit(measure, small, **key).result()


def lowered(
  workload: Problem, batch: Any, program: str, workers: int, precision: str
) -> tuple[jax.stages.Lowered, Any]:
  """Returns a step that is lowered but not compiled, and its first state."""
  products = precision if precision == 'highest' else 'default'
  previous = conv.UNGROUPED_BACKENDS, conv.MAX_UNGROUPED_WORKERS
  try:
    apart = program == 'apart'
    conv.UNGROUPED_BACKENDS = (jax.default_backend(),) if apart else ()
    conv.MAX_UNGROUPED_WORKERS = workers
    with jax.default_matmul_precision(products):
      step, state = programs.PROGRAMS[program](workload, workers, precision)
      return step.lower(state, batch, jnp.int32(0)), state
  finally:
    conv.UNGROUPED_BACKENDS, conv.MAX_UNGROUPED_WORKERS = previous


def measure(
  small: bool, task: str, program: str, workers: int, precision: str
) -> dict[str, Any]:
  """Measures units per second, and memory by the compiler and the device."""
  workload, steps = problem(task, small), 1 if small else STEPS
  cut = lambda x: jnp.asarray(x.reshape(workers, -1, *x.shape[1:]))
  batch = jax.tree.map(cut, workload.batch)
  step, state = lowered(workload, batch, program, workers, precision)
  run, seconds = step.compile(), []
  for turn in range(1 + (2 if small else TURNS)):
    began = time.perf_counter()
    for t in range(steps):
      state, loss = run(state, batch, jnp.int32(t))
    jax.block_until_ready(loss)
    if turn:
      seconds.append((time.perf_counter() - began) / steps)
  return {
    'unit': workload.unit,
    'loss_is_finite': bool(np.isfinite(jax.device_get(loss)).all()),
    'per_s': workload.units / statistics.median(seconds),
    'seconds': seconds,
    'compiler_bytes': device_memory.needed_bytes(run),
    'peak_bytes': device_memory.peak_bytes(),
  }


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """Returns a row for each measure, with its speed over other measures."""
  names = 'task', 'program', 'workers', 'precision'
  speed = {
    tuple(line['key'][name] for name in names): line['result'] for line in lines
  }
  rate = lambda *key: speed.get(key, {}).get('per_s')
  ratio = lambda a, b: f'{a / b:.2f}' if a and b else ''
  found = []
  for (task, program, workers, precision), result in sorted(speed.items()):
    per_s = result['per_s']
    found.append(
      {
        'task': task,
        'program': program,
        'workers': workers,
        'precision': precision,
        'per s': f'{per_s:,.0f} {result["unit"]}'
        + ('' if result['loss_is_finite'] else ', loss is no number'),
        'over by hand': ratio(per_s, rate(task, 'by hand', workers, precision)),
        'over one large batch': ratio(
          per_s, rate(task, 'one large batch', 1, precision)
        ),
        'over default': ratio(per_s, rate(task, program, workers, 'default')),
        'over highest': ratio(per_s, rate(task, program, workers, 'highest')),
        'GB by the compiler': f'{result["compiler_bytes"] / 1e9:.2f}',
        'GB by the device': f'{peak / 1e9:.2f}'
        if (peak := result['peak_bytes'])
        else '',
      }
    )
  return found
