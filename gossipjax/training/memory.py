"""Refuses a run whose step needs more memory than its devices have."""

from typing import Any

from gossipjax.errors import UserError
from gossipjax.executors import Program
from gossipjax.profiling import device_memory


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
