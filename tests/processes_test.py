"""Several processes are as good as several devices, also when one of them dies.
"""

import os
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest

from gossipjax.launch import free_port
from tests import program, together

PROCESSES = together.WORKERS
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != 'NPROC'} | {
    'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': 'tests'}


@pytest.fixture(scope='module')
def found(tmp_path_factory):
  """What PROCESSES processes computed together."""
  folder, port = tmp_path_factory.mktemp('together'), free_port()
  running = [subprocess.Popen(
      [sys.executable, '-m', 'tests.together', f'127.0.0.1:{port}',
       str(PROCESSES), str(i), str(folder)], cwd=program.ROOT, text=True,
      env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for i in range(PROCESSES)]
  said = [process.communicate()[0] for process in running]
  assert not any(p.returncode for p in running), '\n'.join(said)
  return pickle.loads((folder / 'found').read_bytes())


@pytest.fixture(autouse=True, scope='module')
def compile_quickly():
  """As the processes do: other optimizations round otherwise."""
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', False)


@pytest.mark.parametrize('name', together.collective_calls())
@pytest.mark.parametrize('dtype', together.DTYPES)
def test_a_collective_over_sockets_does_what_numpy_says(found, name, dtype):
  _, numpy_says = together.collective_calls()[name]
  np.testing.assert_array_equal(
      found[dtype][name], numpy_says(together.collective_inputs(dtype)))


@pytest.mark.parametrize('name', together.STRATEGIES)
def test_processes_and_devices_agree(found, name):
  """Bit by bit where the order of sums allows, else to 1e-6."""
  for theirs, ours in zip(
      found[name], together.train(together.STRATEGIES[name]), strict=True):
    (their_params, their_sent), (params, sent) = theirs, jax.device_get(ours)
    jax.tree.map(np.testing.assert_array_equal, their_sent, sent)
    jax.tree.map(close, their_params, params)


def close(a, b):
  np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(b).max())
