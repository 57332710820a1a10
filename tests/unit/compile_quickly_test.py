"""Programs compiled in either way are kept apart in one process of tests."""

import jax


def test_a_test_runs_no_program_that_was_compiled_in_another_way(
  compile_quickly, request
):
  """Else bits would depend on which tests a process ran before."""
  double = jax.jit(lambda x: 2 * x)
  assert double(1.0) == double(1.0) == 2
  assert double._cache_size() == 1
  request.getfixturevalue('compile_as_always')
  assert double(1.0) == 2
  assert double._cache_size() == 2
