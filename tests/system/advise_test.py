"""Advice: measured alone, billed really, and all-reduce where that is best."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import executors, network
from gossipjax.advice import advise, measured_accuracies, step_traffic
from gossipjax.advice.bandwidth_figure import draw
from gossipjax.advice.forecast import Forecast, break_even, rows
from gossipjax.advice.isolated_worker import alone
from gossipjax.aggregator import Strategy
from gossipjax.collectives import WORKERS
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker
from gossipjax.traffic import Traffic
from tests.support import program

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


def test_bills_of_shapes_are_those_of_the_real_thing():
  shapes = jax.eval_shape(lambda: PARAMS)
  for name, steps in (('gtopk', 1), ('local_sgd', 9)):
    bill = step_traffic.per_step(strategy(name), shapes, 4, steps)
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
  bill = step_traffic.per_step(strategy('adaptive_gossip'), shapes, 2, 1)
  assert not bill.exact and np.asarray(bill.sent.bytes).min() > 0


def forecast(
  name: str,
  path_bytes: int,
  select_s: float = 0.0,
  rounds: int = 1,
  accuracies=(),
) -> Forecast:
  """One worker, one step, a second of computing."""
  sent = Traffic(
    *np.array([path_bytes, path_bytes, 1, rounds, path_bytes]).reshape(5, 1, 1)
  )
  return Forecast(
    name, 1.0, select_s, step_traffic.StepTraffic(sent, True), accuracies
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
  assert break_even(mine, DENSE, 0.1) == pytest.approx(
    edge, rel=1e-6, nan_ok=True
  )


def test_a_row_splits_a_step_into_its_parts():
  row = rows([DENSE, forecast('half', 500, 0.25)], LINK)[1]
  assert row['seconds per step'] == pytest.approx(1 + 0.25 + 0.1 + 0.05)
  assert row['communicate (model)'] == pytest.approx(0.15)
  assert row['efficiency'] == '71 %'
  assert row['faster than all-reduce'] == 'below 2 kB/s'


def accuracy(strategy: str, score: float) -> measured_accuracies.Accuracy:
  """Against all-reduce with 90 %."""
  return measured_accuracies.Accuracy('somewhere', strategy, score, 0.9)


def test_all_reduce_is_the_answer_where_nothing_good_is_faster():
  slow = forecast('half', 500, select_s=0.25)
  assert advise.verdict([DENSE, slow], LINK).startswith('Use all-reduce')
  little = forecast('little', 980)  # 0.2 % of a step.
  assert advise.verdict([DENSE, little], LINK).startswith('Use all-reduce')
  bad = forecast('small', 10, accuracies=[accuracy('small', 0.88)])
  assert advise.verdict([DENSE, bad], LINK).startswith('Use all-reduce')
  assert 'somewhere: 88.0 %' in advise.warnings([DENSE, bad])[0]
  good = forecast('other', 20, accuracies=[accuracy('other', 0.895)])
  assert advise.verdict([DENSE, bad, good], LINK).startswith('Use other')
  untried = forecast('untried', 20)
  assert 'no table' in advise.verdict([DENSE, untried], LINK)


def test_the_picture_has_a_line_per_strategy_and_the_link():
  axes = draw([DENSE, forecast('half', 500, 0.25)], LINK).axes[0]
  assert len(axes.lines) == 3
  seconds = axes.lines[1].get_ydata()
  assert (np.diff(seconds) < 0).all()  # More bandwidth, less time.


def test_accuracies_are_read_from_the_file_of_the_package(tmp_path):
  path = tmp_path / 'accuracies.csv'
  path.write_text(
    'table,strategy,accuracy,dense\na,topk,0.88,0.9\nb,topk,0.845,0.85\n'
  )
  one, two = measured_accuracies.accuracies(path)
  assert one == ('a', 'topk', 0.88, 0.9)
  assert one.suffers and not two.suffers


def test_the_results_that_are_kept_can_be_read():
  found = measured_accuracies.accuracies()
  assert {a.strategy for a in found} >= {'gossip', 'gtopk', 'elastic'}
  assert all(0.1 < a.accuracy < 1 and 0.1 < a.dense < 1 for a in found)


def test_a_plain_all_reduce_is_compared_with_every_strategy():
  assert next(iter(advise.runs(defaults.get_config()))) == 'all_reduce'
  assert {*advise.runs(defaults.get_config())} == {*resolve.STRATEGIES}
  assert list(advise.runs(defaults.get_config('topk'))) == [
    'all_reduce',
    'topk',
  ]


def test_a_calibrated_link_is_read_from_its_file(tmp_path):
  file = tmp_path / 'link.json'
  file.write_text(json.dumps({'latency_s': 1e-4, 'bytes_per_s': 2e8}))
  ours = network.link(latency_s=1e-4, bytes_per_s=2e8)
  assert advise.chosen_link(str(file), None, None, '1gbe') == ours
  assert next(iter(resolve.links(str(file)).items())) == (str(file), ours)


@pytest.mark.parametrize(
  'text, words',
  [
    (
      '{"latency_s": 1e-4}',
      r'link\.json: bytes_per_s is None; a link needs the numbers',
    ),
    ('[1, 2]', 'link.json is no link'),
    ('{', r'link\.json is no JSON of a link'),
    (
      '{"latency_s": -1, "bytes_per_s": 1}',
      r'link\.latency_s=-1 is out of range; it is at least 0',
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
  'an unknown link': ('--link=2gbe', 'link=2gbe 1gbe'),
  'no such file': ('--link=no.json', 'no.json No such file'),
  'no workers': ('--workers=0', 'workers least 1'),
}


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


def test_the_command_prints_a_row_per_strategy_and_an_answer(tmp_path):
  ended = program.run(
    tmp_path,
    'advise',
    '--config=configs/default.py:topk',
    '--workers=16',
    '--link=10gbe',
    '--plot',
    f'--out={tmp_path}/advice.png',
    module='gossipjax',
  )
  assert ended.code == 0, ended.err
  for word in ('| all_reduce ', '| topk ', '16 workers', 'Use '):
    assert word in ended.out
  assert (tmp_path / 'advice.png').stat().st_size > 10_000
