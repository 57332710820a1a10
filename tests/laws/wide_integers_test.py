"""Every strategy works where a program has enabled 64 bits."""

import json
import subprocess
import sys

import pytest

from tests.support.program import ENVIRONMENT, ROOT


def exchanged(dtype, **environment):
  """Runs tests/support/wide_integers.py in a new process; returns its JSON."""
  done = subprocess.run(
    [sys.executable, '-m', 'tests.support.wide_integers', dtype],
    cwd=ROOT,
    env=ENVIRONMENT | environment,
    capture_output=True,
    text=True,
  )
  assert not done.returncode, done.stderr
  return json.loads(done.stdout)


@pytest.mark.exhaustive
def test_64_bits_change_no_dtype_and_no_byte_of_float32():
  found = exchanged('float32', JAX_ENABLE_X64='1')
  assert all(one['changed'] == [] for one in found.values())
  assert found == exchanged('float32')


@pytest.mark.exhaustive
def test_trees_in_float64_stay_float64():
  found = exchanged('float64', JAX_ENABLE_X64='1')
  assert {name: one['changed'] for name, one in found.items()} == (
    {name: [] for name in found}
  )
