"""Models: sizes, gradients, and inputs that no output may depend on."""

import functools
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from gossipjax import models
from gossipjax.data import images
from gossipjax.errors import UserError
from gossipjax.models import conv, pool, resnet
from gossipjax.models.conv import MAX_UNGROUPED_WORKERS, Conv
from gossipjax.models.pool import max_pool_2x2

pytestmark = pytest.mark.usefixtures('compile_quickly')

KEY = jax.random.key(0)


def shapes(net, x):
  return jax.eval_shape(net.init, KEY, x)


def parameters(net, *shape, dtype=jnp.float32):
  tree = shapes(net, jax.ShapeDtypeStruct(shape, dtype))
  return sum(leaf.size for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize(
  'name, expected',
  [
    ('resnet8', 77_850),
    ('resnet9', 6_573_120),
    ('resnet20', 272_282),
    ('resnet32', 466_714),
    ('vgg16', 14_724_042),
  ],
)
def test_models_for_small_images_have_their_published_size(name, expected):
  assert parameters(models.make(name, 10), 1, 32, 32, 3) == expected


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'model, expected',
  [
    # As in torchvision, whose batch norms have as many scales and biases.
    (resnet.resnet18, 11_689_512),
    (resnet.resnet50, 25_557_032),
  ],
)
def test_models_for_imagenet_have_their_published_size(model, expected):
  assert parameters(model(1_000, stem='large'), 1, 224, 224, 3) == expected


def test_the_small_cnn_has_220_thousand_parameters():
  assert parameters(models.make('cnn', 10), 1, 28, 28, 1) == 220_234


def test_the_default_transformer_has_875_520_parameters():
  net = models.make('transformer', 256, models.TEXT)
  assert parameters(net, 1, 128, dtype=jnp.int32) == 875_520


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', models.IMAGES)
def test_an_image_model_has_parameters_only_and_a_logit_for_each_class(name):
  net, x = models.make(name, 7), jax.ShapeDtypeStruct((2, 32, 32, 3), 'float32')
  tree = shapes(net, x)
  assert set(tree) == {'params'}  # a batch norm would bring 'batch_stats'
  assert {leaf.dtype for leaf in jax.tree.leaves(tree)} == {np.dtype('float32')}
  assert jax.eval_shape(net.apply, tree, x).shape == (2, 7)


@pytest.mark.parametrize('name', models.TEXT)
def test_a_text_model_has_parameters_only_and_logits_for_each_position(name):
  net = models.make(name, 256, models.TEXT)
  x = jax.ShapeDtypeStruct((2, 9), 'int32')
  tree = shapes(net, x)
  assert set(tree) == {'params'}
  assert jax.eval_shape(net.apply, tree, x).shape == (2, 9, 256)


def drawn(net, x):
  """Random parameters, without the seconds it takes to compile an init."""
  random = np.random.default_rng(0)
  return jax.tree.map(
    lambda leaf: jnp.float32(random.normal(0, 0.2, leaf.shape)), shapes(net, x)
  )


def gradient(net, x, y):
  params = drawn(net, x)

  def loss(params):
    logits = nn.log_softmax(net.apply(params, x))
    return -jnp.take_along_axis(logits, y[..., None], -1).mean()

  return jax.jit(jax.value_and_grad(loss))(params)


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['mlp', 'cnn', 'resnet8'])
def test_gradients_on_real_images_are_finite_and_reach_all_parameters(name):
  x, y = (part[:16] for part in images.load('digits').train)
  net = models.make(name, 10, width=8)
  loss, grads = gradient(net, jnp.float32(x) / 16, y)
  assert np.isfinite(loss)
  for leaf in jax.tree.leaves(grads):
    assert np.isfinite(leaf).all() and np.any(leaf != 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', models.TEXT)
def test_gradients_on_real_text_are_finite_and_reach_all_parameters(name):
  text = np.frombuffer(pathlib.Path(__file__).read_bytes()[:520], np.uint8)
  rows = jnp.int32(text.reshape(8, 65))
  net = models.make(name, 256, models.TEXT, width=16, layers=1)
  loss, grads = gradient(net, rows[:, :-1], rows[:, 1:])
  assert np.isfinite(loss)
  for leaf in jax.tree.leaves(grads):
    assert np.isfinite(leaf).all() and np.any(leaf != 0)


@pytest.mark.parametrize('name', ['mlp', 'cnn', 'resnet8'])
def test_logits_of_an_image_do_not_depend_on_the_rest_of_its_batch(name):
  x = jnp.float32(images.load('digits').train[0][:8]) / 16
  net = models.make(name, 10, width=8)
  params, apply = drawn(net, x), jax.jit(net.apply)
  changed = x.at[1:].multiply(0.5)
  after, before = apply(params, changed)[0], apply(params, x)[0]
  np.testing.assert_allclose(after, before, rtol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', models.TEXT)
def test_a_text_model_sees_no_later_byte(name):
  net = models.make(name, 256, models.TEXT, width=32, layers=1)
  tokens = jax.random.randint(KEY, (2, 12), 0, 256)
  params, apply = drawn(net, tokens), jax.jit(net.apply)
  before = apply(params, tokens)
  after = apply(params, tokens.at[:, 7].add(1))
  np.testing.assert_allclose(before[:, :7], after[:, :7], atol=1e-6)
  assert (np.abs(before[:, 7:] - after[:, 7:]).max((0, 2)) > 1e-4).all()


def test_the_gradient_of_max_pool_2x2_is_finite_if_no_pixel_is_the_largest():
  """As when a program computes its argument twice, with other roundings."""
  x = jax.random.normal(jax.random.key(0), (1, 4, 4, 1))
  largest = max_pool_2x2(x)
  grad = jnp.ones_like(largest)
  (found,) = pool._backward((x, largest * (1 + 1e-6)), grad)
  np.testing.assert_array_equal(found, 0)
  (found,) = pool._backward((x, largest), grad)
  assert found.sum() == grad.sum()


def test_max_pool_2x2_equals_max_pooling():
  x = jax.random.normal(KEY, (2, 7, 6, 3))
  np.testing.assert_array_equal(max_pool_2x2(x), nn.max_pool(x, (2, 2), (2, 2)))
  # Its gradient is that of a max reduction: pixels that tie share it.
  ties = jnp.round(2 * x)
  cells = lambda x: x[:, :6].reshape(2, 3, 2, 3, 2, 3).max((2, 4))
  for inputs in (x, ties):
    ours, theirs = (
      jax.grad(lambda x, f=f: (f(x) * f(x + 1)).sum())(inputs)
      for f in (max_pool_2x2, cells)
    )
    np.testing.assert_array_equal(ours, theirs)
  assert len(np.unique(jax.grad(lambda x: max_pool_2x2(x).sum())(ties))) > 3


def test_max_pooling_keeps_a_nan_pixel():
  x = jnp.zeros((1, 4, 4, 1)).at[0, 3, 2, 0].set(jnp.nan)
  assert np.isnan(jax.jit(max_pool_2x2)(x)[0, 1, 1, 0])


def test_an_unknown_model_is_refused_with_the_nearest_name():
  with pytest.raises(UserError, match=r"task\.model.*did you mean 'resnet20'"):
    models.make('resnet_20', 10)
  with pytest.raises(UserError, match=r'there are lstm, transformer'):
    models.make('bert', 256, models.TEXT)


@pytest.mark.parametrize(
  'name, sizes, key',
  [('resnet20', {'layers': 2}, 'layers'), ('mlp', {'width': 0}, 'width')],
)
def test_a_size_the_model_cannot_have_is_refused_with_its_key(name, sizes, key):
  with pytest.raises(UserError, match=rf'^task\.{key}'):
    models.make(name, 10, **sizes)


def test_heads_that_do_not_divide_the_width_are_refused():
  with pytest.raises(UserError, match=r'^task\.width.*4 heads, got 30'):
    models.make('transformer', 256, models.TEXT, width=30)


def test_images_too_small_for_vgg_are_refused():
  with pytest.raises(UserError, match=r'^task\.model.*32x32, got 28x28'):
    shapes(models.make('vgg16', 10), jnp.zeros((1, 28, 28, 1)))


CONVOLUTIONS = [
  dict(kernel_size=(3, 3)),
  dict(kernel_size=(3, 3), strides=2),
  dict(kernel_size=(1, 1), strides=2),
  dict(kernel_size=(4, 2), strides=(3, 2), padding='VALID'),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize('workers', [3, MAX_UNGROUPED_WORKERS + 1])
@pytest.mark.parametrize('arguments', CONVOLUTIONS)
def test_workers_with_different_weights_convolve_as_without_vmap(
  arguments, workers
):
  rng = np.random.default_rng(0)
  normal = lambda *shape: jnp.float32(rng.normal(size=shape))
  x, wanted = normal(workers, 2, 9, 8, 5), normal(workers)
  net, plain = (kind(4, **arguments) for kind in (Conv, nn.Conv))
  weights = jax.vmap(net.init, (0, None))(jax.random.split(KEY, workers), x[0])

  def loss(net, weights, x, wanted):
    return jnp.square(net.apply(weights, x) - wanted).mean()

  each = lambda net: jax.value_and_grad(functools.partial(loss, net), (0, 1))
  together = jax.jit(jax.vmap(each(net)))
  text = together.lower(weights, x, wanted).as_text()
  groups = re.findall(r'(?:feature|batch)_group_count = (\d+)', text)
  assert set(groups) == ({'1'} if workers <= MAX_UNGROUPED_WORKERS else set())
  found = together(weights, x, wanted)
  for i in (0, 2):
    mine = jax.tree.map(lambda row: row[i], (weights, x, wanted))
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a[i], b, atol=1e-5),
      found,
      each(plain)(*mine),
    )
    jax.tree.map(
      np.testing.assert_array_equal, each(net)(*mine), each(plain)(*mine)
    )


def test_without_products_many_workers_have_a_grouped_convolution(
  monkeypatch,
):
  monkeypatch.setattr(conv, 'MATMUL_BACKENDS', ())
  net, x = Conv(4, (3, 3)), jnp.ones((MAX_UNGROUPED_WORKERS + 1, 2, 5, 5, 2))
  keys = jax.random.split(KEY, MAX_UNGROUPED_WORKERS + 1)
  weights = jax.vmap(net.init, (0, None))(keys, x[0])
  text = jax.jit(jax.vmap(net.apply)).lower(weights, x).as_text()
  assert f'feature_group_count = {MAX_UNGROUPED_WORKERS + 1}' in text


def test_workers_with_the_same_weights_share_an_ordinary_convolution():
  net, x = Conv(4, (3, 3)), jnp.ones((3, 2, 5, 5, 2))
  weights = net.init(KEY, x[0])
  text = jax.jit(jax.vmap(net.apply, (None, 0))).lower(weights, x).as_text()
  assert text.count('stablehlo.convolution') == 1
  assert 'feature_group_count = 1' in text


@pytest.mark.parametrize('make', [models.shallow, models.resnet9])
def test_too_small_images_end_with_an_error_message(make):
  model = make(10)
  with pytest.raises(UserError, match='halves images 3 times'):
    shapes(model, jnp.zeros((1, 7, 7, 4)))


def test_all_matrix_products_of_an_lstm_have_its_compute_dtype():
  net = models.lstm(classes=8, width=8)
  x = jnp.zeros((2, 5), jnp.int32)
  params = jax.tree.map(jnp.bfloat16, net.init(KEY, x))
  program = jax.make_jaxpr(net.apply)(params, x)
  found = re.findall(r'(\w+)\[[\d,]*\] = dot_general', str(program))
  assert len(found) >= 3 and {*found} == {'bf16'}
