"""Refuses a run that needs more memory than its devices have."""

from typing import Any

from gossipjax.aggregator import Tree
from gossipjax.data.examples import Shares
from gossipjax.errors import UserError
from gossipjax.executors import Program
from gossipjax.profiling import device_memory
from gossipjax.traffic import nbytes
from gossipjax.training import worker_program
from gossipjax.training.run import Run


def check_start(run: Run, shapes: tuple[Tree, Tree]) -> None:
  """Refuses workers that do not fit before their first step, by their shapes.

  Args:
    run: what to train, in real time.
    shapes: of the parameters and of the state of the model.

  Raises:
    UserError: a device cannot hold its workers and their examples.
  """
  limit = device_memory.limit_bytes()
  if limit is None:
    return
  local = len(range(run.workers)[run.executor.local_workers])
  state: float = nbytes(worker_program.state_shapes(run, shapes))
  examples = 0.0
  if not isinstance(run.task.train, Shares):  # Those are read when needed.
    examples = nbytes(run.task.train)  # Of the workers of this process.
  if run.executor.name == 'vmap':  # One device holds all.
    examples *= run.inner.devices
  else:
    state, examples = state / run.workers / run.inner.devices, examples / local
  if state + examples > limit:
    raise UserError(
      f'The workers of a device need {state / 1e9:.1f} GB for parameters, '
      f'optimizer and strategy, and {examples / 1e9:.1f} GB for their '
      f'examples, before the first step; JAX may use {limit / 1e9:.1f} GB of '
      'a device. Fewer workers on a device need less.'
    )


def compile_within_memory(
  program: Program, *args: Any, **shared: Any
) -> Program:
  """The program, compiled for these arguments if the device has a limit.

  Args:
    program: of all workers, from an executor.
    *args, **shared: what it will be called with.

  Raises:
    UserError: according to the compiler, the program does not fit.
  """
  limit = device_memory.limit_bytes()
  if limit is None or not hasattr(program, 'lower'):  # pmap has none.
    return program
  compiled = program.lower(*args, **shared).compile()
  needed = device_memory.needed_bytes(compiled)
  if needed > limit:
    raise UserError(
      f'According to the compiler, a step of all workers needs '
      f'{needed / 1e9:.1f} GB; JAX may use {limit / 1e9:.1f} GB of a device. '
      'Fewer workers, a smaller batch_size, config.accumulate or '
      'compute_dtype=bfloat16 need less.'
    )
  return compiled
