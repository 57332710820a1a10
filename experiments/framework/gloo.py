"""Joins the processes of a measurement, which exchange by Gloo."""

import jax


def join(address: str, processes: str, process: str) -> None:
  """Makes this process one of several; before JAX's backend starts.

  Args:
    address: HOST:PORT of process 0.
    processes: how many there are.
    process: the number of this one, from 0.
  """
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  # Or JAX catches SIGTERM, and who stops a measurement waits for its end.
  jax.config.update('jax_enable_preemption_service', False)
  jax.distributed.initialize(address, int(processes), int(process))
