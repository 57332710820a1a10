"""Parameters of tests that are in another tier than the test."""

import pytest


def exhaustive(*values):
  """One set of values for `pytest.mark.parametrize`, in the exhaustive tier."""
  return pytest.param(*values, marks=pytest.mark.exhaustive)
