"""Marks single parameters of a test as being in another tier."""

import pytest


def exhaustive(*values):
  """One set of values for `pytest.mark.parametrize`, in the exhaustive tier."""
  return pytest.param(*values, marks=pytest.mark.exhaustive)
