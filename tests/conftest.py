"""Eight CPU devices, so that every strategy also runs on a real mesh."""

import jax
import pytest

from gossipjax import executors

jax.config.update('jax_platforms', 'cpu')
jax.config.update('jax_numpy_rank_promotion', 'raise')
executors.emulate(8)


@pytest.fixture(autouse=True, scope='module')
def forget_programs():
  """Compiled programs of one file are of no use to the next; 2 GiB of them."""
  yield
  jax.clear_caches()
