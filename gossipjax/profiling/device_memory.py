"""Memory of a device: what a program needs, its limit, and its peak use."""

import jax


def needed_bytes(compiled: jax.stages.Compiled) -> int:
  """Bytes that a program needs on each device, according to its compiler.

  They are its arguments and results, less results that it writes in place, and
  its temporary buffers.
  """
  memory = compiled.memory_analysis()
  return (
    memory.argument_size_in_bytes
    + memory.output_size_in_bytes
    - memory.alias_size_in_bytes
    + memory.temp_size_in_bytes
  )


def limit_bytes() -> int | None:
  """Bytes that JAX may use on a device; None if the device does not say."""
  return _state('bytes_limit')


def peak_bytes() -> int | None:
  """The most bytes in use since the process began; None likewise."""
  return _state('peak_bytes_in_use')


def _state(name: str) -> int | None:
  stats = jax.local_devices()[0].memory_stats()
  return stats.get(name) if stats else None
