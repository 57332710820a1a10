"""Joining trees into vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from gossipjax.devices.platform import traced_for
from gossipjax.flatten import ravel

TREES = {
  'layers': {'w': np.arange(6.0).reshape(2, 3), 'b': np.ones(3)},
  'dtypes': [jnp.ones(3, jnp.bfloat16), jnp.arange(2.0)],
  'one leaf': jnp.arange(4.0).reshape(2, 2),
  'scalars and nothing': [jnp.float32(3), jnp.zeros(0)],
  'empty': {},
}


@pytest.mark.parametrize('name', TREES)
def test_ravel_equals_ravel_pytree_of_jax(name):
  tree = TREES[name]
  back, (theirs, _) = ravel(tree)[1], ravel_pytree(tree)
  np.testing.assert_array_equal(ravel(tree)[0], theirs)
  # Only in a compiled program does it join the leaves in its own way.
  mine = jax.jit(lambda tree: ravel(tree)[0])(tree)
  assert mine.dtype == theirs.dtype
  np.testing.assert_array_equal(mine, theirs)
  assert jax.tree.structure(back(mine)) == jax.tree.structure(tree)
  jax.tree.map(np.testing.assert_array_equal, back(mine), tree)


@pytest.mark.skipif(jax.default_backend() != 'cpu', reason='Of CPUs.')
def test_on_a_cpu_ravel_is_compiled_without_a_concatenation():
  # From jax 0.11 on, XLA turns the writes of only two leaves back into a
  # concatenation.
  tree = {'w': jnp.ones((784, 512)), 'b': jnp.ones(512), 'scale': jnp.ones(512)}
  add = lambda flatten: lambda tree, x: flatten(tree)[0] + x
  program = lambda f: jax.jit(add(f)).lower(tree, 1.0).compile().as_text()
  assert 'concatenate' in program(ravel_pytree)  # Else `ravel` has no use.
  assert 'concatenate' not in program(ravel)


@pytest.mark.skipif(jax.default_backend() != 'cpu', reason='Of CPUs.')
def test_a_program_is_traced_for_the_platform_that_will_run_it():
  """Also a function that was traced for the CPU before, or for the other."""
  inner = jax.jit(lambda tree: ravel(tree)[0])
  program = lambda: str(jax.make_jaxpr(lambda t: inner(t))(TREES['layers']))
  here = program()
  with traced_for('cuda'):
    there = program()
  assert 'dynamic_update_slice' in here
  assert 'dynamic_update_slice' not in there
  assert program() == here


def test_places_that_an_int32_cannot_name_are_not_written_by_it():
  sizes = {'first': 2**31, 'last': 8}
  tree = {k: jax.ShapeDtypeStruct((n,), jnp.int8) for k, n in sizes.items()}
  program = str(jax.make_jaxpr(lambda tree: ravel(tree)[0])(tree))
  assert 'concatenate' in program and 'dynamic_update_slice' not in program


@pytest.mark.skipif(jax.default_backend() != 'cpu', reason='Of CPUs.')
@pytest.mark.parametrize('axes', [1, 2])
def test_workers_on_one_device_write_their_rows_in_place(axes):
  """By itself, vmap turns writes into scatters: 9.5 ms instead of 1.2 for a
  CNN with 8 workers."""
  shape = (3, 2)[:axes]
  tree = {'w': jnp.arange(12.0 * 3**axes), 'b': -jnp.ones((*shape, 5))}
  tree['w'] = jnp.resize(tree['w'], (*shape, 4, 3))
  many = lambda f: jax.vmap(f) if axes == 1 else jax.vmap(jax.vmap(f))
  of = lambda ravel: jax.jit(many(lambda tree: ravel(tree)[0] + 1))
  np.testing.assert_array_equal(of(ravel)(tree), of(ravel_pytree)(tree))
  program = of(ravel).lower(tree).as_text()
  assert 'dynamic_update_slice' in program and 'scatter' not in program
