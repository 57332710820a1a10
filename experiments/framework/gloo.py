"""Connects the processes of a measurement, which communicate by Gloo."""

import os

import jax


def join(address: str, processes: str, process: str) -> None:
  """Makes this process one of several; call it before JAX's backend starts.

  Args:
    address: HOST:PORT of process 0.
    processes: how many there are.
    process: the number of this one, from 0.
  """
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  # Otherwise JAX catches SIGTERM, and a stopped measurement runs to its end.
  jax.config.update('jax_enable_preemption_service', False)
  # Otherwise gRPC asks http_proxy or https_proxy for the coordinator.
  os.environ.setdefault('grpc_proxy', '')
  jax.distributed.initialize(address, int(processes), int(process))
