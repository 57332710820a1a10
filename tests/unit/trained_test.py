"""The trained model of a run has the held-out scores of its last record."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from flax import nnx

import gossipjax as gj
from gossipjax.errors import UserError
from gossipjax.training import model_file
from tests.support.tiers import exhaustive
from tests.unit.own_models_test import DATA, Linen, linen, loss, of_nnx

pytestmark = pytest.mark.usefixtures('compile_quickly')
X, Y = DATA['test']


def nested_task():
  """A task with nested parameters and no state."""
  predict = lambda p, x: x.reshape(len(x), -1) @ p['layers'][0]['w'] + p['b']
  zeros = {'layers': [{'w': jnp.zeros((16, 2))}], 'b': jnp.zeros((1, 2))}
  return gj.Task(
    init=lambda key: zeros,
    loss=lambda p, batch, key: loss(predict(p, batch[0]), batch[1]),
    score=lambda p, batch: {'loss': loss(predict(p, batch[0]), batch[1])},
    **DATA,
  )


def compared(task, steps=6, **settings):
  return gj.compare(
    task,
    {'few': gj.topk(density=0.1)},
    workers=2,
    steps=steps,
    optimizer=optax.adamw(1e-2),
    batch_size=8,
    **settings,
  )


def outputs(model, x):
  """Outputs of a model that `trained` has returned."""
  if isinstance(model, nnx.Module):
    return model(x)
  return Linen().apply(model, x, train=False)


@pytest.mark.parametrize('make', [linen, exhaustive(of_nnx)])
def test_a_flax_model_is_returned_in_the_form_that_flax_uses(make):
  found = compared(make())
  model_loss = loss(outputs(found.trained('few'), X), Y)
  (run,) = found.summary['runs']
  assert float(model_loss) == pytest.approx(run['test_loss'], rel=1e-6)
  with pytest.raises(UserError, match="no run 'fex'; did you mean 'few'"):
    found.trained('fex')


@pytest.mark.exhaustive
def test_a_linen_model_without_a_state_is_returned_too():
  model = nn.Sequential([lambda x: x.reshape(len(x), -1), nn.Dense(2)])
  found = compared(gj.task_from_linen(model, loss, **DATA))
  variables = found.trained('few')
  (run,) = found.summary['runs']
  model_loss = float(loss(model.apply(variables, X), Y))
  assert model_loss == pytest.approx(run['test_loss'], rel=1e-6)


def test_another_task_gets_parameters_in_the_form_of_its_init(tmp_path):
  task = nested_task()
  found = compared(task, folder=tmp_path / 'run')
  params = found.trained('few')
  form = jax.tree.structure(task.init(jax.random.key(0)))
  assert jax.tree.structure(params) == form
  score = task.score(params, DATA['test'])['loss']
  assert float(score) == pytest.approx(found.summary['runs'][0]['test_loss'])
  names = gj.trained(tmp_path / 'run/few')
  assert {*names['params']} == {'layers.0.w', 'b'} and names['state'] == {}
  np.testing.assert_array_equal(names['params']['b'], params['b'])


def test_in_virtual_time_the_trained_model_is_the_servers(tmp_path):
  task = nested_task()
  found = gj.compare(
    task,
    {'served': gj.parameter_server()},
    workers=2,
    steps=6,
    optimizer=optax.sgd(0.1),
    batch_size=8,
    cluster={'step_s': 0.1, 'asynchronous': True},
  )
  score = task.score(found.trained('served'), DATA['test'])['loss']
  assert float(score) == pytest.approx(found.summary['runs'][0]['test_loss'])


def test_arrays_of_several_dtypes_are_written_and_read(tmp_path):
  state = {'key': jax.random.key(3), 'half': jnp.ones(2, jnp.bfloat16)}
  params = {'w': np.arange(3.0), 'n': np.int32(4)}
  model_file.write(tmp_path / 'model.msgpack', params, state)
  task = nested_task()._replace(init=lambda key: (params, state), stateful=True)
  found, rest = gj.trained(tmp_path, task)
  np.testing.assert_array_equal(found['w'], params['w'])
  assert found['n'] == 4 and rest['half'].dtype == jnp.bfloat16
  np.testing.assert_array_equal(
    jax.random.key_data(rest['key']), jax.random.key_data(state['key'])
  )


def test_unusable_models_and_folders_are_refused(tmp_path):
  with pytest.raises(UserError, match='name the folder of one run that is fin'):
    gj.trained(tmp_path)
  compared(nested_task(), folder=tmp_path / 'run')
  with pytest.raises(
    UserError, match=r'^The folder .*/run already holds a run'
  ):
    compared(nested_task(), folder=tmp_path / 'run')
  place = tmp_path / 'run/few'
  with pytest.raises(UserError, match=r'than this task: .*Dense_0\.bias'):
    gj.trained(place, linen())
  for other in ('my_tasks:line', nested_task):
    with pytest.raises(UserError, match=r'trained: the task is .* such as'):
      gj.trained(place, other)
  wide = {'layers': [{'w': jnp.zeros((16, 3))}], 'b': jnp.zeros((1, 2))}
  with pytest.raises(UserError, match=r'they differ in layers\.0\.w'):
    gj.trained(place, nested_task()._replace(init=lambda key: wide))
  content = bytearray((place / 'model.msgpack').read_bytes())
  content[-1] ^= 1
  (place / 'model.msgpack').write_bytes(content)
  with pytest.raises(UserError, match=r'model\.msgpack is not as it was'):
    gj.trained(place)


@pytest.mark.exhaustive
def test_a_comparison_in_python_resumes_to_more_steps(tmp_path):
  given = {'eval_every': 3, 'log_every': 3}
  compared(nested_task(), 3, folder=tmp_path / 'a', **given)
  whole = compared(nested_task(), 6, folder=tmp_path / 'b', **given)
  more = compared(nested_task(), 6, folder=tmp_path / 'a', resume=True, **given)
  for ours, theirs in zip(
    jax.tree.leaves(more.trained('few')),
    jax.tree.leaves(whole.trained('few')),
    strict=True,
  ):
    np.testing.assert_array_equal(ours, theirs)
