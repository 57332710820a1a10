"""Names in a model do not change which state leaves belong to a server."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gossipjax as gj
from gossipjax import async_exchange, network
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker
from gossipjax.simulation import late_workers
from gossipjax.simulation.cluster import cluster
from gossipjax.simulation.compute_times import ComputeTimes
from gossipjax.simulation.server_leaves import center_of, layout_of
from gossipjax.strategies.elastic import CenterState

NAMES = 'server', 'center', 'inner', 'pulled'
SERVERS = {
  'parameter_server': lambda: gj.parameter_server(period=3),
  'elastic': lambda: gj.elastic(look_ahead=0.0),
  'elastic, looking ahead': lambda: gj.elastic(look_ahead=0.9),
  'decoupled_diloco': lambda: gj.decoupled_diloco(period=3),
}


def model(name):
  """A model with a field of that name and a second one."""
  return namedtuple('Model', [name, 'width'])(jnp.zeros(4), jnp.zeros(()))


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('method', SERVERS)
def test_a_model_field_is_not_taken_for_a_server_field(method, name):
  init = make_worker(SERVERS[method](), optax.sgd(0.1))[0]

  def served(name):
    worker = jax.eval_shape(init, model(name))
    layout = layout_of(worker, async_exchange.VISIT)
    return layout.served, [leaf.shape for leaf in center_of(worker)]

  assert served(name) == served('middle')
  assert served(name)[1] == [(4,), ()]


def linear(name):
  """Regression with a model whose weights are in a field of that name."""
  x = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
  y = x @ np.arange(4, dtype=np.float32)

  def loss(params, batch, key):
    return jnp.mean((batch[0] @ params[0] + params[1] - batch[1]) ** 2)

  score = lambda params, batch: {'loss': loss(params, batch, None)}
  return gj.Task(lambda key: model(name), loss, score, (x, y), (x, y))


@pytest.mark.exhaustive
def test_a_virtual_time_run_is_independent_of_model_field_names():
  slow = {'asynchronous': True, 'step_s': 0.1, 'factors': (1.0, 1.7, 2.3)}
  losses = [
    gj.compare(
      linear(name),
      {'server': gj.parameter_server(period=3)},
      optimizer=optax.sgd(0.05),
      workers=3,
      steps=20,
      batch_size=5,
      log_every=10,
      eval_every=10,
      cluster=slow,
    ).frame.test_loss.iloc[-1]
    for name in ('middle', 'server', 'center')
  ]
  assert losses == [losses[0]] * 3


@pytest.mark.parametrize('name', ['middle', 'residual', 'velocity'])
def test_a_model_field_is_not_taken_for_memory_of_a_late_worker(name):
  params = model(name)
  late_workers.rejoining((), params)
  with pytest.raises(UserError, match=r'\(center\)'):
    late_workers.rejoining(((), CenterState(params), ()), params)


def test_outages_take_effect_in_time_order_however_listed():
  attempts = []
  for failures in (
    ((0, 5.0, 6.0), (0, 2.0, 3.0)),
    ((0, 2.0, 3.0), (0, 5.0, 6.0)),
  ):
    link = network.Link(0.0, 1e9)
    machines = cluster(1, 1, link, step_s=10.0, failures=failures)
    attempts.append(ComputeTimes(machines, 1, 0).attempt(0, 0, 1.0))
  assert attempts[0] == attempts[1]
  assert attempts[0].back_s == 3.0
