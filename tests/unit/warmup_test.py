"""Laws of density warm-up: it changes what is sent at first, nothing else."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import executors
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.strategies import dgc, exact_global_topk, gtopk, ok_topk, topk
from gossipjax.transforms import granularity, warmup
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')

SIZE, WORKERS = 400, 2
ENTRIES = [100, 25, 6, 2, 1, 1]  # At DGC's densities, then at 0.0025.


def play(strategy, steps=6):
  """All gradients; outputs of worker 0; last states; bytes of worker 0."""
  update = executors.on_one_device(
    lambda g, s, step: strategy.gradients.update(g, s, step)
  )
  rng = np.random.default_rng(0)
  gradients = rng.normal(size=(steps, WORKERS, SIZE)).astype('f4')
  state = executors.on_one_device(strategy.gradients.init)(gradients[0])
  outputs, sent = [], []
  for step, g in enumerate(gradients):
    output, state, bill = update(jnp.asarray(g), state, step=jnp.int32(step))
    outputs.append(np.asarray(output[0]))
    sent.append(int(bill.bytes[0]))
  return gradients, outputs, jax.device_get(state), sent


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'method',
  [
    topk,
    exhaustive(gtopk),
    exhaustive(dgc),
    exhaustive(exact_global_topk),
  ],
)
def test_each_stage_sends_the_entries_of_its_density(method):
  strategy = method.strategy(density=0.0025, warmup=warmup.dgc(1))
  sent = play(strategy)[-1]
  assert sent == [8 * k for k in ENTRIES]


@pytest.mark.exhaustive
def test_gtopk_warmup_starts_at_0_004_as_in_its_authors_code():
  strategy = gtopk.strategy(density=0.0025, warmup=warmup.gtopk(2))
  assert play(strategy, steps=4)[-1] == [8 * k for k in (2, 2, 1, 1)]


@pytest.mark.exhaustive
def test_ok_topk_has_an_exact_threshold_when_a_stage_begins():
  stages = warmup.stages((0.25,), 3)
  strategy = ok_topk.strategy(density=0.025, period=100, warmup=stages)
  outputs, sent = (play(strategy)[i] for i in (1, 3))
  applied = [np.count_nonzero(output) for output in outputs]
  assert (applied[0], applied[3]) == (100, 10)
  # The first step of a stage also looks for a threshold.
  assert max(sent[4:]) < min(sent[1:3]) / 4


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy',
  [
    topk.strategy(density=0.01, warmup=warmup.dgc(1)),
    gtopk.strategy(density=0.01, conserve=True, warmup=warmup.dgc(1)),
    ok_topk.strategy(density=0.01, warmup=warmup.gtopk(2)),
    topk.strategy(0.01, granularity=granularity.layer(), warmup=warmup.dgc(1)),
  ],
)
def test_nothing_is_lost_from_stage_to_stage(strategy):
  gradients, outputs, state, _ = play(strategy)
  (residual,) = (
    x for x in jax.tree.leaves(state) if x.shape == (WORKERS, SIZE)
  )
  np.testing.assert_allclose(
    WORKERS * sum(outputs) + residual.sum(axis=0),
    gradients.sum(axis=(0, 1)),
    atol=1e-4,
  )


def test_stages_not_above_the_final_density_are_left_out():
  warmed_up = play(topk.strategy(density=0.25, warmup=warmup.dgc(1)))
  plain = play(topk.strategy(density=0.25))
  jax.tree.map(np.testing.assert_array_equal, warmed_up, plain)


@pytest.mark.exhaustive
def test_a_config_names_a_warmup_and_none_is_the_default():
  config = defaults.get_config('topk').strategy
  plain = play(resolve.strategy(config))[-1]
  assert len(set(plain)) == 1
  config.warmup.name, config.warmup.steps = 'dgc', 2
  assert play(resolve.strategy(config))[-1][:4] == [800, 800, 200, 200]
  config.warmup.name = 'stages'
  config.warmup.densities = (0.5, 0.125)
  assert play(resolve.strategy(config))[-1][1:3] == [1600, 400]
  assert 'warmup: ' in inspect.getdoc(topk.strategy)


@pytest.mark.parametrize(
  'given, message',
  [
    ({'name': 'dgc'}, 'warmup.steps is missing'),
    ({'name': 'dgc', 'steps': 0}, 'at least 1, got 0'),
    ({'name': 'stages', 'steps': 1, 'densities': (2.0,)}, 'at most 1'),
    ({'name': 'stages', 'steps': 1, 'densities': ()}, 'above 0'),
    ('dcg', "'dgc'"),
    ({'steps': 3}, 'needs strategy.warmup.name'),
  ],
)
def test_an_impossible_warmup_is_refused(given, message):
  config = resolve.strategy_config('topk', warmup=given)
  with pytest.raises(UserError, match=message):
    resolve.strategy(config)
