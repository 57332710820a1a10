"""Laws that every strategy obeys: plain functions that raise AssertionError.

`record` and `replay` run a few rounds of all workers; the laws judge their
events. In an event all arrays are NumPy's, with the workers on axis 0.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax import collectives, executors, topology
from gossipjax.aggregator import Aggregator, Strategy
from gossipjax.local_step import make_worker
from gossipjax.traffic import Traffic
from gossipjax.transforms.nesterov import LookAheadState

N = 8  # Workers, unless a test says otherwise.
EPS = np.finfo(np.float32).eps
COMMON_PERIOD = 2**9 * 3**2 * 5**4 * 7 * 13  # A multiple of any usual period.
STEPS = (0, 1, 2, COMMON_PERIOD - 1, COMMON_PERIOD, 2 * COMMON_PERIOD - 1)
SHAPES = {'bias': (32,), 'conv': (3, 3, 8, 16), 'dense': (40, 50)}
QUIET = (1, 6)  # Workers whose parameters move too little to trigger.
# Fields of a state that change while a worker is absent, and why.
OF_OTHERS = {
  'center': 'A server holds it.',
  'server': 'A server holds it.',
  'inbox': 'Others send to a worker whether or not it is present.',
  'waiting': 'It counts what is in the inbox.',
}


class Event(NamedTuple):
  """One round of all workers: what went in and what came out."""

  step: int
  active: np.ndarray  # bool[workers]; which workers took part.
  tree: Any
  state: Any
  new_tree: Any
  new_state: Any
  sent: Traffic


def _attendance(workers):
  """Masks of the workers that take part in each of STEPS; all in the last."""
  i = np.arange(workers)
  return (i == 2) | (i == 3), i != 6, i < 0, i % 3 > 0, i > 2, i >= 0


@functools.lru_cache(maxsize=8)  # Of one strategy at a time.
def _program(aggregator, executor, workers, everyone):
  """All workers' update; all take part if `everyone`, else those `active`."""

  def update(tree, state, active, step):
    present = () if everyone else (active,)
    return aggregator.update(tree, state, step, *present)

  where = executors.executor(workers, executor)
  run, put = where.run(update), where.put
  return lambda tree, state, active, step: jax.device_get(
    run(*map(put, (tree, state, active)), step=jnp.int32(step))
  )


forget = _program.cache_clear  # After a change in the code under test.


def start(workers):
  rng = np.random.default_rng(0)
  return {
    name: np.broadcast_to(
      rng.standard_normal(shape, np.float32), (workers, *shape)
    )
    for name, shape in SHAPES.items()
  }


def walk(tree, seed):
  """Each worker's next tree: close to its last, and different per worker."""
  rng = np.random.default_rng(seed + 1)
  length = np.where(np.isin(np.arange(len(tree['bias'])), QUIET), 1e-4, 1)
  stride = lambda x: (
    rng.standard_normal(x.shape, np.float32)
    * length.reshape(-1, *[1] * (x.ndim - 1)).astype(np.float32)
  )
  return jax.tree.map(lambda x: x + stride(x), tree)


def record(aggregator: Aggregator, everyone=True, workers=N) -> list[Event]:
  """Runs STEPS on one device, with absent workers unless `everyone`."""
  update = _program(aggregator, 'vmap', workers, everyone)
  tree, events = start(workers), []
  state = jax.device_get(
    jax.vmap(aggregator.init, axis_name=collectives.WORKERS)(tree)
  )
  for step, active in zip(STEPS, _attendance(workers), strict=True):
    active |= everyone
    tree = walk(tree, len(events))
    events.append(
      Event(step, active, tree, state, *update(tree, state, active, step))
    )
    tree, state = events[-1].new_tree, events[-1].new_state
  return events


def replay(aggregator: Aggregator, events, executor, everyone=True):
  """Repeats rounds from their recorded trees and states on an executor."""
  update = _program(aggregator, executor, len(events[0].active), everyone)
  return [
    Event(*e[:4], *update(e.tree, e.state, e.active, e.step)) for e in events
  ]


def train(strategy: Strategy, executor='vmap', workers=N, steps=4):
  """Yields all workers' parameters after each step of SGD with momentum."""
  init, update = make_worker(strategy, optax.sgd(0.1, momentum=0.9))
  where = executors.executor(workers, executor)
  run = where.run(update)
  params = start(workers)
  worker = where.put(jax.vmap(init, axis_name=collectives.WORKERS)(params))
  for step in range(steps):
    grads = where.put(walk(params, step))
    worker, _ = run(worker, grads, step=jnp.int32(step))
    yield jax.device_get(worker.params)


def rows(tree) -> np.ndarray:
  """A tree as f64[workers, entries]."""
  leaves = [np.asarray(x, np.float64) for x in jax.tree.leaves(tree)]
  return np.concatenate([x.reshape(len(x), -1) for x in leaves], axis=1)


def recall(state, name, like) -> np.ndarray:
  """Sums the fields of the state called `name`, in the shape of `like`."""
  key = jax.tree_util.GetAttrKey(name)
  found = [
    leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    if key in path
  ]
  if not found:
    return np.zeros_like(like)
  return rows(found).reshape(len(like), -1, like.shape[1]).sum(axis=1)


def private(tree, state) -> np.ndarray:
  """Each worker's tree and three memories: f64[kinds, workers, entries]."""
  held = rows(tree)
  memories = 'residual', 'pulled', 'in_flight'
  return np.stack([held, *(recall(state, name, held) for name in memories)])


def mass(tree, state, active) -> np.ndarray:
  """The conserved sum of trees, residuals, messages in flight, and the center.

  With a server that integrates progress since the last pull it is the center
  plus the mean progress of the workers that take part.
  """
  held, residual, pulled, in_flight = private(tree, state)
  center = recall(state, 'center', held)
  if pulled.any():
    return center[0] + (held - pulled)[active].sum(axis=0) / max(
      active.sum(), 1
    )
  return (held + residual + in_flight).sum(axis=0) + center[0]


def nothing_is_lost(events: list[Event]) -> None:
  for e in events:
    largest = max(  # Of values, not of counters or keys of random numbers.
      np.abs(rows(x)).max()
      for x in jax.tree.leaves((e.tree, e.state, e.new_tree))
      if jnp.issubdtype(x.dtype, jnp.inexact)
    )
    np.testing.assert_allclose(
      mass(e.new_tree, e.new_state, e.active),
      mass(e.tree, e.state, e.active),
      rtol=0,
      atol=4 * EPS * len(e.active) * largest,
      err_msg='The sum over workers changed; a strategy that does so by '
      'design says NOT_CONSERVED = {slot: how} in its file.',
    )


def what_is_no_number_shows(aggregator: Aggregator, bad, whole: bool) -> None:
  """If a gradient is not finite, some worker's result shows it in two steps.

  Args:
    aggregator: of gradients.
    bad: NaN or an infinity.
    whole: whether nearly all entries are bad; else one, maybe not the largest.
  """
  update = _program(aggregator, 'vmap', N, everyone=True)
  tree, everyone = walk(start(N), 0), np.ones(N, bool)
  state = jax.device_get(
    jax.vmap(aggregator.init, axis_name=collectives.WORKERS)(tree)
  )
  gradients = jax.tree.map(np.array, tree)
  for x in jax.tree.leaves(gradients):
    x.reshape(N, -1)[1, 7 : None if whole else 8] = bad
    if not whole:
      break
  for step, given in enumerate((gradients, tree)):
    found, state, _ = update(given, state, everyone, step)
    if not np.isfinite(rows(found)).all():
      return
  raise AssertionError(
    f'A gradient with {bad} is hidden, in a residual for example: the run '
    'would go on as if nothing had happened.'
  )


def someone_talks(events: list[Event]) -> None:
  assert sum(e.sent.bytes.sum() for e in events) > 0


def executors_agree(ours: list[Event], theirs: list[Event]) -> None:
  for a, b in zip(ours, theirs, strict=True):
    jax.tree.map(_close, (a.new_tree, a.new_state), (b.new_tree, b.new_state))
    jax.tree.map(np.testing.assert_array_equal, a.sent, b.sent)


def _close(a, b):
  is_float = jnp.issubdtype(a.dtype, jnp.floating)
  size = np.abs(a.astype(np.float64)).max(initial=0) if is_float else 0
  np.testing.assert_allclose(a, b, rtol=0, atol=8 * EPS * size)


def shapes_and_dtypes_are_kept(aggregator: Aggregator, *dtypes) -> None:
  """An update keeps shapes and dtypes of tree and state; nothing is run."""
  kinds = dict(zip(SHAPES, dtypes, strict=True))
  tree = {
    name: jax.ShapeDtypeStruct((N, *shape), kinds[name])
    for name, shape in SHAPES.items()
  }
  everyone = lambda f: jax.vmap(f, axis_name=collectives.WORKERS)
  state = jax.eval_shape(everyone(aggregator.init), tree)
  new_tree, new_state, _ = jax.eval_shape(
    everyone(lambda t, s: aggregator.update(t, s, jnp.int32(0))), tree, state
  )
  same = lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype)
  assert jax.tree.all(jax.tree.map(same, (tree, state), (new_tree, new_state)))


def own(state) -> list[np.ndarray]:
  """The leaves of a state that change only if the worker takes part.

  Those of a look-ahead change at local steps, which absent workers take, too.
  """
  follows_steps = lambda s: isinstance(s, LookAheadState)
  state = jax.tree.map(
    lambda s: s.inner if follows_steps(s) else s, state, is_leaf=follows_steps
  )
  return [
    leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    if not any(getattr(key, 'name', '') in OF_OTHERS for key in path)
  ]


def absent_are_left_alone(events: list[Event]) -> None:
  """Absent workers keep their trees and what is their `own` of the state."""
  for e in events:
    before, after = (
      [x[~e.active] for x in jax.tree.leaves((tree, own(state)))]
      for tree, state in ((e.tree, e.state), (e.new_tree, e.new_state))
    )
    jax.tree.map(np.testing.assert_array_equal, after, before)


def absent_pay_nothing(events: list[Event]) -> None:
  for e in events:
    for count in (
      e.sent.bytes,
      e.sent.received,
      e.sent.messages,
      e.sent.rounds,
      e.sent.path_bytes,
    ):
      assert not count[~e.active].any()


def bills_balance(events: list[Event], served: bool) -> None:
  """Bytes sent are bytes received; no link carries more than the busiest."""
  for e in events:
    up, down, messages, rounds, path = (
      np.asarray(count)
      for count in (
        e.sent.bytes,
        e.sent.received,
        e.sent.messages,
        e.sent.rounds,
        e.sent.path_bytes,
      )
    )
    if served:  # The other end is not a worker.
      np.testing.assert_array_equal(up, down)
    assert up.sum() == down.sum()
    assert (path >= np.maximum(up, down)).all()
    assert ((messages > 0) == (up > 0)).all()
    assert (rounds >= (path > 0)).all()


def replicas_are_identical(tree) -> None:
  jax.tree.map(
    lambda x: np.testing.assert_array_equal(x, np.broadcast_to(x[:1], x.shape)),
    tree,
  )


def gossip_multiplies_with_w(
  events, graph: topology.Topology, period=1
) -> None:
  """W is the graph's; a worker takes itself in place of an absent one."""
  for e in events:
    w = np.eye(len(e.active))
    if e.step % period == period - 1:
      rounds = graph(len(e.active))
      w = topology.mixing_matrix(
        rounds[e.step // period % len(rounds)], len(e.active)
      )
      w = np.where(np.outer(e.active, e.active), w, 0)
      w += np.diag(1 - w.sum(axis=1))
    np.testing.assert_allclose(
      rows(e.new_tree),
      w @ rows(e.tree),
      rtol=0,
      atol=8 * EPS * np.abs(rows(e.tree)).max(),
    )


def is_served(aggregator: Aggregator) -> bool:
  """Whether workers talk to a server, which the program does not contain."""
  tree = {name: jnp.zeros(shape) for name, shape in SHAPES.items()}
  text = jax.make_jaxpr(
    lambda: aggregator.update(tree, aggregator.init(tree), jnp.int32(0)),
    axis_env=[(collectives.WORKERS, N)],
  )().pretty_print(name_stack=True)
  return collectives.SERVED in text
