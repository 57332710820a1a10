"""Advice: measured alone, billed really, and all-reduce where that is best."""

import functools
import json
import math
import re
import runpy

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import executors, network
from gossipjax.advice import (
  advise,
  halving,
  known_runs,
  known_table,
  known_workdirs,
  periods,
  pilot_config,
  pilots,
  ranking,
  recommendation,
  risk,
  step_cost,
  step_traffic,
  tuned,
)
from gossipjax.advice.bandwidth_figure import draw
from gossipjax.advice.forecast import Forecast, break_even, rows
from gossipjax.advice.isolated_worker import alone
from gossipjax.aggregator import Strategy, identity
from gossipjax.collectives import WORKERS
from gossipjax.commands import advise as command
from gossipjax.commands import advise_pilots
from gossipjax.comparison.variant import check
from gossipjax.config import defaults, resolve
from gossipjax.config.variants import variants
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker
from gossipjax.traffic import Traffic
from gossipjax.training import gradient, momentum, optimizer
from gossipjax.training.loop import Interrupted
from tests.support import program, workdirs

PARAMS = {'w': jnp.linspace(-1, 1, 60).reshape(6, 10), 'b': jnp.ones(4)}
GRADS = jax.tree.map(jnp.cos, PARAMS)


def strategy(name: str) -> Strategy:
  """At its defaults, or as dense as these few parameters need it."""
  settings = resolve.strategy_config(name)
  if 'density' in settings:
    settings.density = 0.2
  return resolve.strategy(settings)


@pytest.mark.parametrize(
  'name', ['all_reduce', 'gossip', 'gtopk', 'ef_sign', 'power_sgd', 'local_sgd']
)
def test_a_worker_alone_computes_what_it_would_among_its_likes(name):
  init, update = make_worker(strategy(name), optax.sgd(0.1))
  worker, step = init(PARAMS), jnp.int32(7)
  many = lambda tree: jax.tree.map(lambda x: jnp.stack([x] * 4), tree)
  together, theirs = executors.on_one_device(lambda w, g: update(w, g, step))(
    many(worker), many(GRADS)
  )
  program = alone(update, 4)
  assert WORKERS not in str(jax.make_jaxpr(program)(worker, GRADS, step))
  mine, sent = jax.jit(program)(worker, GRADS, step)
  for a, b in zip(
    jax.tree.leaves(mine.params), jax.tree.leaves(together.params), strict=True
  ):
    np.testing.assert_allclose(a, b[0], rtol=1e-5, atol=1e-6)
  assert int(sent.bytes) == theirs.bytes[0]


@pytest.mark.parametrize('name', ['union_topk', 'ok_topk'])
def test_a_worker_alone_also_does_its_share_of_a_server(name):
  init, update = make_worker(strategy(name), optax.sgd(0.1))
  worker, step = init(PARAMS), jnp.int32(0)
  program = alone(update, 4)
  assert WORKERS not in str(jax.make_jaxpr(program)(worker, GRADS, step))
  mine, _ = jax.eval_shape(program, worker, GRADS, step)
  assert jax.tree.map(jnp.shape, mine) == jax.tree.map(jnp.shape, worker)


def test_a_step_is_measured_of_a_strategy_whose_memory_needs_its_rank():
  config = defaults.get_config('hierarchical')
  shapes = jax.eval_shape(lambda: PARAMS)
  optimizer_s, cost = step_cost.of(config, shapes, workers=4, turns=1)
  assert optimizer_s > 0
  assert np.asarray(cost.traffic.sent.bytes).min() > 0


def test_bills_of_shapes_are_those_of_the_real_thing():
  shapes = jax.eval_shape(lambda: PARAMS)
  for name, steps in (('gtopk', 1), ('local_sgd', 9)):
    bill = step_traffic.per_step(strategy(name), shapes, 4, range(steps))
    assert bill.exact
    init, update = make_worker(strategy(name), optax.sgd(0.1))
    many = lambda tree: jax.tree.map(lambda x: jnp.stack([x] * 4), tree)
    worker = many(init(PARAMS))
    run = executors.on_one_device(lambda w, g, t: update(w, g, t))
    for t in range(steps):
      worker, sent = run(worker, many(GRADS), t=jnp.int32(t))
      assert (np.asarray(sent.bytes) == bill.sent.bytes[:, t]).all()
      assert (np.asarray(sent.path_bytes) == bill.sent.path_bytes[:, t]).all()


def test_a_bill_that_depends_on_gradients_is_found_out():
  shapes = jax.ShapeDtypeStruct((2**17,), jnp.float32)
  bill = step_traffic.per_step(strategy('adaptive_gossip'), shapes, 2, range(1))
  assert not bill.exact and np.asarray(bill.sent.bytes).min() > 0


@pytest.mark.parametrize('name', ['union_topk', 'ok_topk'])
def test_rounds_are_those_of_all_buckets(name):
  settings = resolve.strategy_config(name)
  settings.granularity = {'name': 'layer'}
  of = lambda sample: step_traffic.of_cycle(settings, LAYERS, 4, sample)[1].sent
  scaled, measured = of(step_traffic.SAMPLE), of(None)
  for key in ('rounds', 'messages'):
    mine, theirs = (np.asarray(getattr(x, key)) for x in (scaled, measured))
    assert mine.max() == pytest.approx(theirs.max(), rel=0.25), key


def test_a_trigger_that_follows_the_learning_rate_is_costed():
  config = defaults.get_config('adaptive_gossip')
  config.strategy.trigger = {'name': 'step_size'}
  shapes = jax.eval_shape(lambda: PARAMS)
  assert step_cost.of(config, shapes, workers=4, turns=1)[0] > 0


LAYERS = {f'layer{i}': {'kernel': PARAMS['w']} for i in range(4)}


def of_cycle(settings, what: str = 'bytes') -> np.ndarray:
  """By step, what any of four workers sends in a cycle."""
  _, found = step_traffic.of_cycle(settings, LAYERS, 4)
  return np.asarray(getattr(found.sent, what)).max(axis=0)


def test_a_mean_is_taken_over_whole_periods_of_all_levels():
  config = resolve.strategy_config
  each = of_cycle(config('all_reduce')).mean()
  assert of_cycle(config('local_sgd', period=9)).mean() == pytest.approx(
    each / 9
  )
  outer = {'name': 'local_sgd', 'period': 4}
  levels = config('hierarchical', period=8, outer=outer)
  between = of_cycle(levels) - of_cycle(levels, 'local')
  assert np.flatnonzero(between).tolist() == [31]
  assert periods.cycle(config('des_loc')) == 1536
  long = config('des_loc', period=255)
  assert periods.cycle(long) == periods.MOST


def test_a_mean_is_taken_over_a_later_period_than_the_first():
  settings = resolve.strategy_config('streaming_diloco', period=20)
  three = step_traffic.per_step(
    resolve.strategy(settings), LAYERS, 4, range(60)
  )
  by_period = np.asarray(three.sent.bytes)[0].reshape(3, 20).sum(axis=1)
  assert of_cycle(settings).sum() == by_period[1] == by_period[2] > by_period[0]


def test_what_comes_once_counts_as_often_as_a_training_has_it():
  settings = resolve.strategy_config('post_local_sgd', switch=30, period=4)
  each = of_cycle(resolve.strategy_config('all_reduce')).mean()
  assert of_cycle(settings).mean() == pytest.approx(each / 4)
  assert mean_bytes(settings, 130) == pytest.approx(each * (30 + 25) / 130)
  assert mean_bytes(settings, 20) == pytest.approx(each)


def mean_bytes(settings, training: int) -> float:
  """Of a step of a training, what any of four workers sends."""
  _, found = step_traffic.of_cycle(settings, LAYERS, 4, training=training)
  assert found.shares.sum() == pytest.approx(1)
  return found.shares @ np.asarray(found.sent.bytes).max(axis=0)


@pytest.mark.parametrize(
  'make, moments',
  [
    (optax.adam, 2),
    (functools.partial(optax.sgd, momentum=0.9), 1),
    (optax.sgd, 0),
  ],
)
def test_the_moments_of_ones_own_optimizer_are_billed(make, moments):
  settings = resolve.strategy_config(
    'des_loc', period=2, first_period=3, second_period=4
  )
  _, found = step_traffic.of_cycle(settings, LAYERS, 4, optimizer=make(0.1))
  sent = np.asarray(found.sent.bytes).max(axis=0).mean()
  each = of_cycle(resolve.strategy_config('all_reduce')).mean()
  periods_of = [2, 3, 4][: 1 + moments]
  assert sent == pytest.approx(each * sum(1 / k for k in periods_of))


@pytest.mark.parametrize('switch', [4000, 8192])
def test_a_beginning_counts_no_more_because_a_training_is_long(switch):
  settings = resolve.strategy_config('post_local_sgd', switch=switch)
  each = of_cycle(resolve.strategy_config('all_reduce')).mean()
  exchanges = switch + (40_000 - switch) / 16
  assert mean_bytes(settings, 40_000) == pytest.approx(
    each * exchanges / 40_000
  )


def test_of_a_long_beginning_steps_with_and_without_exchange_are_drawn():
  outer = {'name': 'post_local_sgd', 'switch': 1024, 'period': 4}
  settings = resolve.strategy_config('hierarchical', period=8, outer=outer)
  assert periods.beginning(settings) == 8192 == 2 * periods.MOST
  steps, shares = periods.sample(settings, 8192)
  drawn = steps[shares > 0]
  assert (np.diff(drawn) > 0).all() and drawn[-1] < 8192
  assert np.mean(drawn % 8 == 7) == pytest.approx(1 / 8, rel=0.1)


def test_the_work_of_a_beginning_counts_as_often_as_a_training_has_it(
  monkeypatch,
):
  config = defaults.get_config()
  config.strategy = resolve.strategy_config(
    'post_local_sgd', switch=40, period=4
  )
  config.steps = 400
  nothing = Strategy(identity(), identity())

  def took(strategy, local, params, workers, step):
    if strategy == nothing:
      return 1.0
    return 6.0 if step < 40 else 3.0 if step % 4 == 3 else 0.5

  monkeypatch.setattr(step_cost, '_update', took)
  monkeypatch.setattr(step_cost, 'median_seconds', lambda calls, turns: calls)
  plain, cost = step_cost.of(config, LAYERS, 4)
  assert plain == 1.0
  assert cost.select_s == pytest.approx(0.1 * 5 + 0.9 * 2 / 4)


def test_a_warm_up_is_no_part_of_the_cycle_that_follows():
  warm = {'name': 'dgc', 'steps': 5}
  settings = resolve.strategy_config('dgc', density=0.001, warmup=warm)
  assert periods.beginning(settings) == 20
  unset = {'name': 'dgc', 'steps': 5, 'densities': None}  # Of a command line.
  assert periods.beginning({'name': 'dgc', 'warmup': unset}) == 20
  trigger = {'name': 'norm_slope', 'warmup': 30}
  assert periods.beginning({'name': 'x', 'trigger': trigger}) == 30
  later = resolve.strategy_config('dgc', density=0.001)
  np.testing.assert_array_equal(of_cycle(settings), of_cycle(later))


def forecast(
  name: str,
  path_bytes: int,
  select_s: float = 0.0,
  rounds: int = 1,
  chance: risk.Risk = risk.Risk(),
) -> Forecast:
  """One worker, one step, a second of computing."""
  sent = Traffic(
    *np.array([path_bytes, path_bytes, 1, rounds, path_bytes]).reshape(5, 1, 1)
  )
  return Forecast(
    name,
    1.0,
    select_s,
    step_traffic.StepTraffic(sent, True, np.ones(1)),
    chance,
  )


DENSE = forecast('all_reduce', 1000)
LINK = network.Link(0.1, 1e4)


@pytest.mark.parametrize(
  ('mine', 'edge'),
  [
    (forecast('half', 500, select_s=0.25), 500 / 0.25),
    (forecast('small', 10), np.inf),
    (forecast('large', 2000), 0.0),
    (forecast('quick', 2000, rounds=0), np.nan),
  ],
)
def test_break_even_is_where_both_take_as_long(mine, edge):
  assert break_even(mine, DENSE, LINK) == pytest.approx(
    edge, rel=1e-6, nan_ok=True
  )


def test_a_row_splits_a_step_into_its_parts():
  row = rows([DENSE, forecast('half', 500, 0.25)], LINK)[1]
  assert row['seconds per step'] == pytest.approx(1 + 0.25 + 0.1 + 0.05)
  assert row['communication, s (model)'] == pytest.approx(0.15)
  assert row['share of computing'] == '71 %'
  assert row['faster than all-reduce'] == 'below 2 kB/s'


def known(strategy: str, value: float, steps=float('nan'), **given):
  """A run of an MLP on digits with 8 workers; all-reduce has 90 %."""
  place = {'task': 'digits', 'model': 'mlp', 'optimizer': 'sgd', 'workers': 8}
  place |= {'split': 'iid'}
  missed = steps if math.isnan(steps) else float(math.isinf(steps))
  score = ('test_accuracy', value, 0.9, missed, steps, 1)
  where = (place | given).values()
  return known_runs.Known('somewhere', *where, strategy, *score)


def test_what_is_not_faster_is_not_tried_and_what_never_arrives_is_last():
  slow = forecast('half', 500, select_s=0.25)
  little = forecast('little', 980)  # 0.2 % of a step.
  assert advise.faster([DENSE, slow, little], LINK) == []
  bad = forecast('small', 10, chance=chance(*[known('small', 0, math.inf)] * 3))
  good = forecast('other', 20)  # A half for what nobody has tried.
  assert advise.faster([DENSE, bad, good], LINK) == [good, bad]


def test_a_run_is_known_by_how_far_it_is():
  config = defaults.get_config()
  same, other = known('a', 0.9), known('b', 0.9, model='linear')
  apart = known('c', 0.9, task='cifar10', model='vgg8', workers=4)
  assert known_runs.distance(same, config) == (0, 0)
  assert known_runs.is_near(same, config)
  adam = known('a', 0.9, optimizer='adam')
  assert known_runs.distance(adam, config) == (1, 0)
  split = known('a', 0.9, split='dirichlet alpha=0.1')
  assert known_runs.distance(split, config) == (2, 0)
  assert known_runs.distance(other, config) == (3, 0)
  assert known_runs.distance(apart, config) == (5, 1)
  assert known_runs.nearest([apart, other], config) == [other]
  head, rows = known_table.told([apart, other], config)
  assert 'no run of your model (mlp on digits with sgd, P = 8)' in head
  assert head.endswith('nearest: linear on digits with sgd, P = 8')
  assert rows[0]['steps to the target over those of all-reduce'] == 'not kept'
  head, rows = known_table.told([apart, apart], config)
  assert head.endswith('nor of one like it.')
  assert rows == []


def test_trainings_of_another_split_are_no_evidence_of_the_same_training():
  config = defaults.get_config()
  apart = 'dirichlet alpha=0.5'
  kept = [known('a', 0.9, 1.2), known('a', 0.5, math.inf, split=apart)]
  for split, missed in ((defaults.split('dirichlet'), 1), ({}, 0)):
    config.split = split
    of_all, _, same = risk.of(kept, config).groups
    assert (same.missed, same.of) == (missed, 1)
    assert (of_all.missed, of_all.of) == (1, 2)  # Of both, each counts once.
  config.split = defaults.split('label', shards=3)
  assert known_runs.identity(config).split == 'label shards=3'
  assert not risk.of(kept, config).of_the_same
  head, rows = known_table.told(kept, config)
  assert 'no run of your model (mlp on digits with sgd, label shards=3' in head
  assert [row['split'] for row in rows] == ['iid', apart]


def chance(*known_of_it) -> risk.Risk:
  return risk.of(known_of_it, defaults.get_config())


def test_without_evidence_nothing_but_all_reduce_is_named():
  for kept in ((), (known('small', 0.9),)):
    found = [DENSE, forecast('small', 10, chance=chance(*kept))]
    assert recommendation.by_known(found, LINK) == ''
    said = advise_pilots.untried(found, LINK, 'advise --minutes 0 --tune', 5)
    assert said.startswith(
      'No kept runs match: use all-reduce, or first run:\n\n'
    )
    assert said.endswith('    advise --tune --minutes=5\n')


@pytest.mark.parametrize(
  'steps, words',
  [
    (0.9, 'Use small. Expected time to the target: 0.'),
    (9.0, 'Use all-reduce. The best alternative of which such a training'),
    (math.inf, 'Use all-reduce. The best alternative of which such a training'),
  ],
)
def test_trainings_of_the_same_name_are_evidence(steps, words):
  kept = chance(*[known('small', 0.9, steps)] * 3)
  found = [forecast('all_reduce', 20_000), forecast('small', 10, chance=kept)]
  said = recommendation.by_known(found, LINK)
  assert said.startswith(words)
  assert 'of mlp on digits with sgd.' in said
  said = advise_pilots.untried(found, LINK, 'advise --minutes=0', 5)
  assert 'To try it on your config:\n\n    advise --minutes=5\n' in said


def test_the_picture_has_a_line_per_strategy_and_the_link():
  figure = draw([DENSE, forecast('_half', 500, 0.25)], LINK)
  (axes,), (legend,) = figure.axes, figure.legends
  told = [text.get_text() for text in legend.get_texts()]
  assert told == ['all_reduce', '_half']
  assert len(axes.lines) == 3
  seconds = axes.lines[1].get_ydata()
  assert (np.diff(seconds) < 0).all()  # More bandwidth, less time.


def test_a_link_that_is_infinitely_fast_is_drawn_at_the_edge(tmp_path):
  figure = draw([DENSE], network.Link(0.0, math.inf))
  (axes,) = figure.axes
  assert 'infinite' in axes.texts[0].get_text()
  assert math.isfinite(axes.get_xlim()[1])
  figure.savefig(tmp_path / 'figure.png')


def test_kept_runs_are_read_from_the_file_of_the_package(tmp_path):
  path = tmp_path / 'known_runs.csv'
  path.write_text(
    'table,task,model,optimizer,workers,split,strategy,score,value,dense,'
    'missed,relative_steps,seeds,arguments\n'
    'a,digits,mlp,sgd,8,iid,topk,test_accuracy,0.88,0.9,nan,nan,1,\n'
    'c,text,transformer,adam,4,iid,gtopk,test_loss,2.8,1.7,1.0,inf,3,'
    '"conserve=True, density=0.01"\n'
  )
  one, two = known_runs.kept(path)
  assert one[:6] == ('a', 'digits', 'mlp', 'sgd', 8, 'iid')
  assert math.isnan(one.missed) and two[-4:-1] == (1.0, math.inf, 3)
  assert (one.arguments, two.arguments) == ('', 'conserve=True, density=0.01')


def test_the_runs_that_are_kept_can_be_read():
  found = known_runs.kept()
  assert {k.strategy for k in found} >= {'gossip', 'gtopk', 'elastic'}
  for run in found:
    most = 1 if run.score == 'test_accuracy' else 10  # Nats.
    assert 0.1 < run.value < most and 0.1 < run.dense < most


def workdir_with(path, second, target=0.0, first='all_reduce', **keys):
  """A comparison with two seeds; `second` gives the scores of its sparse one.

  All-reduce gets to 0.5 and 1.0 after 1 and 2 steps, topk after twice as many.
  """
  config = workdirs.config(
    dense={'strategy': {'name': first}}, sparse={'strategy': {'name': 'topk'}}
  )
  folder = workdirs.claim(
    path, config | {'target': target, 'seeds': [0, 1]} | keys
  )
  for seed in (0, 1):
    for name, scale in (('dense', 1), ('sparse', 2)):
      scores = second if (name, seed) == ('sparse', 1) else (0.5, 1.0)
      records = [
        workdirs.record(scale * s, test_accuracy=score)
        for s, score in zip((1, 2), scores, strict=True)
      ]
      workdirs.run(folder, f'{name}-seed{seed}', records, seed=seed)
  return folder


def test_a_workdir_of_ones_own_is_known(tmp_path):
  (found,) = known_workdirs.of_workdirs(
    [workdir_with(tmp_path / 'a', (0.5, 1.0))]
  )
  assert (found.strategy, found.workers, found.task) == ('topk', 2, 'digits')
  assert found.relative_steps == pytest.approx(2) and found.missed == 0
  (found,) = known_workdirs.of_workdirs(
    [workdir_with(tmp_path / 'b', (0.5, 0.6))]
  )
  assert found.missed == 0.5 and math.isnan(found.relative_steps)


def test_a_run_is_evidence_for_its_strategy_whatever_a_variant_is_called(
  tmp_path, monkeypatch
):
  known = [
    *known_workdirs.of_workdirs([workdir_with(tmp_path / 'a', (0.5, 1.0))])
  ]
  cost = step_cost.Cost(0.0, DENSE.traffic)
  monkeypatch.setattr(step_cost, 'of', lambda *_: (0.0, cost))
  monkeypatch.setattr(step_cost, 'gradient_s', lambda *_: 1.0)
  config = defaults.get_config()
  config.variants = defaults.variants(sparse='qsgd', other='topk')
  found = {f.name: f.risk for f in advise.forecasts(config, known)}
  assert found['sparse'] == risk.of([], config)
  assert found['other'] == risk.of(known, config) != found['sparse']


def test_runs_with_other_arguments_are_no_evidence():
  config = defaults.get_config()
  config.strategy = resolve.strategy_config('local_sgd')
  known_of = lambda arguments: known('local_sgd', 0.9)._replace(
    arguments=arguments
  )
  each = [known_of(''), known_of('period=400')]
  assert known_runs.of_strategy(each, config.strategy) == each[:1]
  config.strategy.period = 400
  assert known_runs.of_strategy(each, config.strategy) == each[1:]
  config.strategy.period = 40
  assert known_runs.of_strategy(each, config.strategy) == []


def test_a_strategy_that_would_never_exchange_is_left_out(monkeypatch):
  cost = step_cost.Cost(0.0, DENSE.traffic)
  monkeypatch.setattr(step_cost, 'of', lambda *_: (0.0, cost))
  monkeypatch.setattr(step_cost, 'gradient_s', lambda *_: 1.0)
  config, told = defaults.get_config(), []
  config.steps = 400
  config.variants = defaults.variants(
    'all_reduce', 'diloco', local=resolve.strategy_config('local_sgd', period=8)
  )
  found = advise.forecasts(config, say=told.append)
  assert [f.name for f in found] == ['all_reduce', 'local']
  (sentence,) = told
  assert sentence.startswith('diloco is left out: its period of 500 steps')


def test_a_workdir_that_is_named_twice_is_known_once(tmp_path):
  folder = workdir_with(tmp_path / 'a', (0.5, 1.0))
  twice = [folder, f'{tmp_path}/b/../a']
  (tmp_path / 'b').mkdir()
  assert len([*known_workdirs.of_workdirs(twice)]) == 1


@pytest.mark.parametrize(
  'cluster, waits',
  [
    ({}, True),
    (defaults.cluster(asynchronous=False).to_dict(), True),
    (defaults.cluster(asynchronous=True).to_dict(), False),
    (defaults.cluster(asynchronous=False, first=1).to_dict(), False),
  ],
)
def test_steps_of_who_does_not_wait_are_not_known(tmp_path, cluster, waits):
  folder = workdir_with(tmp_path / 'a', (0.5, 1.0), cluster=cluster)
  assert len([*known_workdirs.of_workdirs([folder])]) == waits


def test_advice_says_of_which_workdir_it_shows_no_run(tmp_path):
  good = str(workdir_with(tmp_path / 'a', (0.5, 1.0)))
  none = str(workdir_with(tmp_path / 'b', (0.5, 1.0), first='gossip'))
  mine = [*known_workdirs.of_workdirs([good, none])]
  config = defaults.get_config()  # mlp on digits, P = 8.
  head, rows = known_table.told(mine, config, [good + '/', none])
  assert rows[0]['from'] == good
  assert head.count('--known=') == 1
  assert head.startswith(f'--known={none}: nothing is known from it')
  head, _ = known_table.told([known('a', 0.9), *mine], config, [good])
  assert head.startswith(f'--known={good}: not shown')
  assert 'digits' in head.splitlines()[0] and 'P = 2' in head.splitlines()[0]


def test_a_run_that_left_no_record_never_got_there(tmp_path):
  changes = {'dense': 'all_reduce', 'wild': 'topk'}
  config = workdirs.config(
    **{name: {'strategy': {'name': s}} for name, s in changes.items()}
  )
  folder = workdirs.claim(tmp_path / 'a', config)
  workdirs.run(folder, 'dense', [workdirs.record(1), workdirs.record(2)])
  workdirs.run(folder, 'wild', [], diverged='The loss is NaN.')
  (found,) = known_workdirs.of_workdirs([folder])
  assert (found.strategy, found.missed, found.seeds) == ('topk', 1, 1)
  assert math.isnan(found.value)


def test_a_workdir_tells_nothing_of_another_target_or_reference(tmp_path):
  other = workdir_with(tmp_path / 'a', (0.5, 1.0), target=0.3)
  (found,) = known_workdirs.of_workdirs([other])
  assert math.isnan(found.missed) and math.isnan(found.relative_steps)
  none = workdir_with(tmp_path / 'b', (0.5, 1.0), first='gossip')
  assert list(known_workdirs.of_workdirs([none])) == []


def test_a_plain_all_reduce_is_compared_with_every_strategy():
  assert next(iter(advise.runs(defaults.get_config()))) == 'all_reduce'
  assert {*advise.runs(defaults.get_config())} == {*resolve.STRATEGIES}
  assert list(advise.runs(defaults.get_config('topk'))) == [
    'all_reduce',
    'topk',
  ]
  several = defaults.get_config()
  several.seeds, several.variants = (0, 1), defaults.variants(sparse='topk')
  assert list(advise.runs(several)) == ['all_reduce', 'sparse']


def test_what_overlaps_is_tried_without_and_tuned_with_it(tmp_path):
  config = defaults.get_config('delayed_gossip')
  config.update(overlap=True, executor='vmap', workers=2)
  runs = advise.runs(config)
  assert {n: run.overlap for n, run in runs.items()} == {
    'all_reduce': False,  # It is added.
    'delayed_gossip': True,
  }
  candidates = [ranking.Candidate(name, 0.2) for name in runs]
  for candidate in candidates:
    pilot = halving.Pilot(candidate, 20, 0)
    mine = pilot_config.config_of(runs[candidate.name], pilot)
    assert not mine.overlap
    check(candidate.name, mine)
  ranks = [
    ranking.Rank(candidate, *[1.0] * 7, 20, 1) for candidate in candidates
  ]
  tuned.write(tmp_path / 'tuned.py', config, runs, ranks)
  names = runpy.run_path(str(tmp_path / 'tuned.py'))
  again = dict(variants(names['get_config']()))
  assert {n: run.overlap for n, run in again.items()} == {
    n: run.overlap for n, run in runs.items()
  }


def test_a_variant_that_cannot_overlap_is_refused_before_anything_is_timed(
  monkeypatch,
):
  config = defaults.get_config()
  config.update(overlap=True, executor='vmap', workers=2)
  config.variants = defaults.variants('delayed_gossip', 'gossip')
  monkeypatch.setattr(step_cost, 'of', None)
  with pytest.raises(UserError, match='overlap: strategy gossip waits for'):
    advise.forecasts(config)


@pytest.mark.parametrize(
  'given',
  [
    {'name': 'sgd', 'momentum': 0.9, 'nesterov': True},
    {'name': 'sgd', 'momentum': 0.9, 'nesterov': False},
    {'name': 'adam'},
    {'name': 'adam', 'nesterov': True},
  ],
  ids=str,
)
def test_every_strategy_that_is_added_agrees_with_the_optimizer(given):
  config = defaults.get_config()
  config.optimizer = defaults.optimizer(learning_rate=0.1, **given)
  before = config.to_dict()
  for run in advise.runs(config).values():
    momentum.check(run.strategy, run.optimizer)
    optimizer.make(run.optimizer, 10)
  assert config.to_dict() == before


def test_a_strategy_that_does_not_fit_is_left_out_unless_the_config_names_it(
  monkeypatch,
):
  monkeypatch.setattr(resolve, 'STRATEGIES', ('all_reduce', 'hierarchical'))
  config, told = defaults.get_config(), []
  config.update(workers=7, executor='vmap')  # No groups of two.
  found = advise.forecasts(config, say=told.append)
  assert [f.name for f in found] == ['all_reduce']
  assert told[0].startswith('hierarchical is left out: Group size 2 does')
  config.variants = defaults.variants('hierarchical')
  with pytest.raises(UserError, match='Group size 2'):
    advise.forecasts(config)


def test_a_step_is_timed_with_its_own_batch_and_precision(monkeypatch):
  config, told = defaults.get_config(), []
  config.update(executor='vmap', workers=2, compute_dtype='bfloat16')
  config.variants = {
    'small': {'batch_size': 8},
    'large': {'batch_size': 512, 'accumulate': 2},
    'topk': {'batch_size': 8, 'strategy': resolve.strategy_config('topk')},
  }
  monkeypatch.setattr(
    step_cost,
    'of_batch',
    lambda *args, **given: told.append(given) or gradient.of_batch(*args),
  )
  examples, sizes = step_cost.examples, []
  monkeypatch.setattr(
    step_cost,
    'examples',
    lambda task, size: sizes.append(size) or examples(task, size),
  )
  found = {f.name: f.compute_s for f in advise.forecasts(config)}
  assert sizes == [512, 8]
  assert found['large'] != found['small'] == found['topk']
  assert told == [
    {'compute_dtype': 'bfloat16', 'accumulate': parts} for parts in (2, 0)
  ]


@pytest.mark.parametrize(
  'change, words',
  [
    ({'workers': 2}, r'variants\.other\.workers: advise compares'),
    ({'task': {'name': 'digits', 'model': 'cnn'}}, r'other\.task: advise'),
    ({'cluster': {'compute_s': 1.0}}, 'cluster'),
  ],
)
def test_variants_that_a_step_does_not_compare_are_refused(change, words):
  config = defaults.get_config()
  config.variants = {'all_reduce': {}, 'other': change}
  with pytest.raises(UserError, match=words):
    command.check(config)


def test_a_calibrated_link_is_read_from_its_file(tmp_path):
  file, ours = tmp_path / 'link.json', network.link(1e-4, 2e8)
  file.write_text(json.dumps(network.facts(ours)))  # As calibrate writes it.
  config = defaults.get_config()
  assert advise.chosen_link(str(file), None, None, config) == ours
  config.group_link = '10gbe'
  inside = advise.chosen_link(None, 1e-4, 2e8, config)
  assert inside == ours._replace(group=network.PRESETS['10gbe'])
  assert next(iter(resolve.links(str(file)).items())) == (str(file), ours)


@pytest.mark.parametrize(
  'text, words',
  [
    (
      '{"latency_s": 1e-4}',
      r'link\.json: bytes_per_s is None; a link needs the numbers',
    ),
    ('[1, 2]', 'link.json is not a link'),
    ('{', r'link\.json is not JSON of a link'),
    (
      '{"latency_s": -1, "bytes_per_s": 1}',
      r'link\.latency_s=-1 is out of range; must be at least 0',
    ),
    (None, r'link.json: No such file'),
  ],
)
def test_a_file_that_is_no_link_is_refused(tmp_path, text, words):
  file = tmp_path / 'link.json'
  if text is not None:
    file.write_text(text)
  with pytest.raises(UserError, match=words):
    resolve.links(str(file))


MISTAKES = {
  'a bandwidth of 0': (
    '--latency-s=1e-4 --bytes-per-s=0',
    'bytes_per_s=0.0 above 0',
  ),
  'a negative latency': (
    '--latency-s=-1 --bytes-per-s=1e8',
    'latency_s=-1.0 at least 0',
  ),
  'half a link': ('--latency-s=1', '--latency-s --bytes-per-s'),
  'two links': ('--link=wan --latency-s=1 --bytes-per-s=1', '--link or'),
  'minutes below 0': ('--minutes=-1', '--minutes=-1 0 or more'),
  'minutes that are no number': ('--minutes=nan', '--minutes=nan 0 or more'),
  'an unknown link': ('--link=2gbe', 'link=2gbe 1gbe'),
  'no such file': ('--link=no.json', 'no.json No such file'),
  'no picture': ('--plot --out=a.xyz', '--out=a.xyz .png'),
  'no folder': ('--plot --out=none/a.png', '--out=none/a.png none.'),
  'no workers': ('--workers=0', 'workers least 1'),
}


def test_measuring_stops_between_two_strategies_if_somebody_asks():
  config, asked = defaults.get_config('topk'), iter([False, True])
  with pytest.raises(Interrupted):
    advise.forecasts(config, interrupted=lambda: next(asked))
  assert next(asked, None) is None


@pytest.mark.parametrize('what', MISTAKES)
def test_a_mistake_is_a_sentence(what, tmp_path):
  args, words = MISTAKES[what]
  ended = program.run(
    tmp_path,
    'advise',
    '--config=configs/default.py:topk',
    *args.split(),
    module='gossipjax',
  )
  assert ended.code == 2 and ended.err.count('\n') == 1, ended.err
  for word in words.split():
    assert word in ended.err


def test_the_command_says_what_is_known_and_that_it_is_no_evidence(tmp_path):
  ended = program.run(
    tmp_path,
    'advise',
    '--config=configs/default.py:topk',
    '--config.task.model=cnn',  # No claim trains it, so none is kept.
    '--workers=16',
    '--link=wan',
    '--minutes=0',
    '--plot',
    f'--out={tmp_path}/advice.png',
    module='gossipjax',
  )
  assert ended.code == 0, ended.err
  for word in (
    'no run of your model (cnn on digits with sgd, P = 16)',
    '| all_reduce ',
  ):
    assert word in ended.out
  assert 'No kept runs match: use all-reduce' in ended.out
  assert '--minutes=5' in ended.out and 'Use topk' not in ended.out
  assert (tmp_path / 'advice.png').stat().st_size > 10_000


def test_a_variant_of_all_reduce_may_have_any_name(tmp_path):
  (tmp_path / 'named.py').write_text(
    'from gossipjax.config import defaults\n\n'
    'def get_config():\n'
    '  config = defaults.get_config()\n'
    "  config.task.model = 'cnn'\n"  # No claim trains it on digits.
    "  config.variants = defaults.variants(dense='all_reduce', sparse='topk')\n"
    '  return config\n'
  )
  words = f'--config={tmp_path}/named.py', '--link=wan', '--minutes=0'
  ended = program.run(tmp_path, 'advise', *words, module='gossipjax')
  assert ended.code == 0, ended.err
  assert 'No kept runs match: use all-reduce' in ended.out
  assert '| dense' in ended.out


def test_a_pilot_that_ends_within_a_period_costs_its_share(tmp_path):
  """Of six steps of local SGD, four lie in a period that is over."""
  config = defaults.get_config()
  config.update(workers=2, steps=40, executor='vmap')
  config.strategy = resolve.strategy_config('local_sgd', period=4)
  pilot = halving.Pilot(ranking.Candidate('local_sgd', 0.1), 6, 0)

  def spent(comm_s, folder):
    given = {'local_sgd': config}, {'local_sgd': 0.0}, comm_s, config.link
    bench = pilots.Bench(*given, folder, lambda told: None, lambda: False)
    return bench(pilot).seconds[-1]

  counted = spent({}, tmp_path)
  steps, traffic = step_traffic.of_cycle(
    config.strategy, {'x': jax.ShapeDtypeStruct((9,), np.float32)}, 2
  )
  assert traffic.exact and len(steps) % 4 == 0
  assert spent({'local_sgd': counted / 4}, tmp_path) == counted * 6 / 4


def test_a_pilot_of_a_longer_training_has_its_schedule(tmp_path):
  pilot = halving.Pilot(ranking.Candidate('all_reduce', 0.1), 4, 0)

  def scored(steps, folder):
    config = defaults.get_config()
    config.update(workers=2, steps=steps, executor='vmap')
    config.optimizer.warmup_steps = 40
    given = {'all_reduce': config}, {'all_reduce': 0.01}, {}, config.link
    bench = pilots.Bench(*given, folder, lambda told: None, lambda: False)
    return bench(pilot).scores

  short = scored(40, tmp_path / 'one')
  assert short != scored(400, tmp_path / 'one')
  assert scored(40, tmp_path / 'one') == short
  assert scored(400, tmp_path / 'one') == scored(400, tmp_path / 'two')


def test_pilots_rank_strategies_and_leave_a_config(tmp_path):
  (tmp_path / 'small.py').write_text(
    'from gossipjax.config import defaults\n'
    'def get_config():\n'
    '  config = defaults.get_config()\n'
    '  config.update(workers=2, steps=80, seeds=(0, 1))\n'
    "  config.variants = defaults.variants(sparse='topk')\n"
    '  return config\n'
  )
  words = (
    'advise',
    f'--config={tmp_path}/small.py',
    '--link=wan',
    '--minutes=6',
    '--tune',
    f'--workdir={tmp_path}/advice',
  )
  ended = program.run(tmp_path / '1', *words, module='gossipjax')
  assert ended.code == 0, ended.err
  assert '| sparse ' in ended.out and '| all_reduce ' in ended.out
  assert 'validation accuracy' in ended.out
  assert re.search(r'^Use (all-reduce|sparse)', ended.out, re.M)
  again = program.run(tmp_path / '2', *words, module='gossipjax')
  assert again.code == 0, again.err
  assert 'steps: ' not in again.err  # No pilot is trained twice.
  ended = program.run(
    tmp_path / '3',
    f'--config={tmp_path}/advice/tuned.py',
    '--config.steps=4',
    f'--workdir={tmp_path}/run',
  )
  assert ended.code == 0 and '| sparse ' in ended.out, ended.err
