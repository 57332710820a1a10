"""Trees as vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from gossipjax.flatten import ravel

TREES = {
  'layers': {'w': np.arange(6.0).reshape(2, 3), 'b': np.ones(3)},
  'dtypes': [jnp.ones(3, jnp.bfloat16), jnp.arange(2.0)],
  'one leaf': jnp.arange(4.0).reshape(2, 2),
  'scalars and nothing': [jnp.float32(3), jnp.zeros(0)],
  'empty': {},
}


@pytest.mark.parametrize('name', TREES)
def test_ravel_is_that_of_jax(name):
  tree = TREES[name]
  back, (theirs, _) = ravel(tree)[1], ravel_pytree(tree)
  np.testing.assert_array_equal(ravel(tree)[0], theirs)
  mine = jax.jit(lambda tree: ravel(tree)[0])(tree)  # Where it is another way.
  assert mine.dtype == theirs.dtype
  np.testing.assert_array_equal(mine, theirs)
  assert jax.tree.structure(back(mine)) == jax.tree.structure(tree)
  jax.tree.map(np.testing.assert_array_equal, back(mine), tree)


@pytest.mark.skipif(jax.default_backend() != 'cpu', reason='Of CPUs.')
def test_a_cpu_does_not_fuse_a_concatenation_with_what_follows():
  tree = {'w': jnp.ones((784, 512)), 'b': jnp.ones(512)}
  add = lambda flatten: lambda tree, x: flatten(tree)[0] + x
  program = lambda f: jax.jit(add(f)).lower(tree, 1.0).compile().as_text()
  assert 'concatenate' in program(ravel_pytree)  # Else `ravel` has no use.
  assert 'concatenate' not in program(ravel)
