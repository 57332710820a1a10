"""Errors name a user's compressor that returns something of a wrong form."""

import jax
import jax.numpy as jnp
import pytest

from gossipjax import compressors
from gossipjax.collectives import WORKERS
from gossipjax.config import resolve
from gossipjax.errors import UserError
from gossipjax.transforms.checked_compressor import of_compressor

ME = __name__


def one_entry() -> compressors.Compressor:
  return compressors.Compressor(
    lambda x, key=None: x.mean()[None], lambda message, size: message
  )


def shorter() -> compressors.Compressor:
  return compressors.Compressor(
    lambda x, key=None: x[:-1], lambda message, size: message
  )


def counts() -> compressors.Compressor:
  return compressors.Compressor(
    lambda x, key=None: x.astype(jnp.int8), lambda message, size: message
  )


def no_vector() -> compressors.Compressor:
  return compressors.Compressor(
    lambda x, key=None: x, lambda message, size: None
  )


def of_a_number() -> compressors.Compressor:
  return compressors.Compressor(
    lambda x, key=None: (x, 3.0), lambda message, size: message[0]
  )


def broken() -> compressors.Compressor:
  return compressors.Compressor(
    lambda x, key=None: x, lambda message, size: message + jnp.zeros(size + 1)
  )


def longer_mean() -> compressors.Compressor:
  return compressors.Compressor(
    lambda x, key=None: x,
    lambda message, size: message,
    lambda messages, size, count: messages / count,
  )


def with_memory() -> compressors.Compressor:
  return compressors.Compressor(
    None,
    lambda message, size: message[:1],
    start=lambda: jnp.zeros(1),
    proceed=lambda x, key, step, memory: (x, memory),
  )


def traced(config) -> None:
  """Traces one exchange of two workers."""
  found = resolve.strategy(config)
  slot = found.parameters if config['name'] == 'choco' else found.gradients
  once = lambda x: slot.update(x, slot.init(x), jnp.int32(0))[0]
  jax.eval_shape(jax.vmap(once, axis_name=WORKERS), jnp.ones((2, 6)))


@pytest.mark.parametrize('strategy', ['compressed', 'choco'])
@pytest.mark.parametrize(
  'codec, words',
  [
    (one_entry, r'decompress returns float32\[1\] for the message of float32'),
    (
      shorter,
      r'decompress returns float32\[.* has to return floats of the same shape',
    ),
    (
      counts,
      r'decompress returns int8\[.* floats of the same shape, float32\[',
    ),
    (no_vector, r'decompress returns NoneType for'),
    (of_a_number, r'its message holds 3\.0; a message consists of arrays'),
    (broken, r'decompress raises TypeError'),
    (longer_mean, r'decompress_mean returns float32\[1, '),
  ],
)
def test_a_faulty_compressor_is_named_in_the_error(strategy, codec, words):
  name = codec.__name__
  for given in ({'name': f'{ME}:{name}'}, codec()):
    mine = {'name': strategy, 'compressor': given}
    with pytest.raises(UserError, match=f'compressor .{name}.: {words}'):
      traced(mine)


def test_a_faulty_compressor_with_a_memory_is_named():
  with pytest.raises(UserError, match=r'with_memory.: decompress returns'):
    traced({'name': 'compressed', 'compressor': with_memory()})


def bfloat16() -> compressors.Compressor:
  return compressors.Compressor(
    lambda x, key=None: x.astype(jnp.bfloat16), lambda message, size: message
  )


@pytest.mark.parametrize('strategy', ['compressed', 'choco', 'double_squeeze'])
def test_a_compressor_may_return_narrower_floats(strategy):
  key = 'push' if strategy == 'double_squeeze' else 'compressor'
  traced({'name': strategy, key: {'name': f'{ME}:bfloat16'}})


def test_a_compressor_of_the_library_gets_no_checks():
  assert of_compressor('ours', compressors.none()) is compressors.none()
