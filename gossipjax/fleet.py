"""All workers' states on one device, and rounds to which few of them come.

A round gathers the rows of those who came, runs the same `worker.update` over
an axis of just them, and puts the rows back in place.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax import apart, collectives, session
from gossipjax.collectives import WORKERS
from gossipjax.ledger import Ledger
from gossipjax.traffic import SILENCE, Traffic


class State(NamedTuple):
  leaves: list[jax.Array]  # Of all Workers, [workers, ...]; a center once.
  gradients: Any  # Like their parameters; each worker's pending one.
  losses: jax.Array  # f32[workers]; where those were taken.


class Fleet:
  """A `timeline.Player` that really learns; `state` is all that it holds."""

  def __init__(self, run: session.Session, config, way: str | None,
               ledger: Ledger):
    """`way`: of apart.py; None if everyone takes part in everything."""
    self._run, self._ledger, self._size = run, ledger, config.workers
    self._paired = way in (apart.READ, apart.PUSH, apart.MEET)
    self._answers = way == apart.MEET
    workers, self.examples = session.start(run, config)
    leaves, self._tree = jax.tree.flatten(workers)
    paths, _ = jax.tree.flatten_with_path(workers)
    self._axes = [None if way == apart.VISIT and _of_server(path) else 0
                  for path, _ in paths]
    leaves = [x[0] if axis is None else x
              for x, axis in zip(leaves, self._axes, strict=True)]
    self.state = State(leaves, jax.tree.map(jnp.zeros_like, workers.params),
                       jnp.zeros(config.workers))
    self._start = jax.jit(self._take_gradient, donate_argnums=0)
    # Rows are put back by a program of its own: where one reads and writes
    # them, XLA copies all workers first, at nine times a CNN's gradient.
    self._play = jax.jit(self._meet)
    self._play_all = jax.jit(self._meet, donate_argnums=0)
    self._put = jax.jit(self._put_back, donate_argnums=0)
    self._price = jax.jit(lambda *given: self._meet(*given)[1])
    self._fetch = jax.jit(self._adopt)
    self._ask = jax.jit(lambda *given: self._adopt(*given)[1])

  @property
  def params(self) -> Any:
    """Everyone's parameters, leaves [workers, ...]."""
    return self._workers(self.state.leaves).params

  @property
  def center(self) -> Any:
    """The server's parameters; None if there is no server."""
    if None not in self._axes:
      return None
    shared = [x for x, axis in zip(self.state.leaves, self._axes, strict=True)
              if axis is None]
    return jax.tree.unflatten(jax.tree.structure(self.params), shared)

  def start(self, worker: int, step: int) -> None:
    """See `timeline.Player`, as the rest."""
    leaves, *held = self.state
    held = self._start(held, self._workers(leaves).params, self.examples,
                       np.int32(worker), np.int32(step))
    self.state = State(leaves, *held)

  def price(self, who: Sequence[int], step: int) -> Traffic:
    leaves, grads, _ = self.state
    return _bill(self._price(leaves, grads, self._whom(who), np.int32(step)))

  def play(self, who: Sequence[int], step: int) -> Traffic:
    leaves, grads, losses = self.state
    whom, step = self._whom(who), np.int32(step)
    if whom is None:
      leaves, sent = self._play_all(leaves, grads, None, step)
    else:
      rows, sent = self._play(leaves, grads, whom, step)
      leaves = self._put(leaves, rows, whom)
    stepping = who[:1] if self._paired else who
    self.state, bill = State(leaves, grads, losses), _bill(sent)
    self._ledger.enter(who, np.asarray(losses)[stepping], bill)
    return bill

  def fetch(self, worker: int, giver: int, really: bool) -> Traffic:
    who = np.int32([worker, giver])
    if not really:
      return _bill(self._ask(self.state.leaves, who))
    rows, sent = self._fetch(self.state.leaves, who)
    self.state = self.state._replace(
        leaves=self._put(self.state.leaves, rows, who))
    bill = _bill(sent)
    self._ledger.enter(who, np.zeros(0), bill)
    return bill

  def _whom(self, who):
    """None if all come in their order: then nothing has to be gathered."""
    everyone = not self._paired and len(who) == self._size
    return None if everyone else np.int32(who)

  def _workers(self, leaves):
    return jax.tree.unflatten(self._tree, leaves)

  def _take_gradient(self, held, params, examples, worker, step):
    grads, losses = held
    mine = jax.tree.map(lambda x: x[worker], params)
    loss, new = self._run.gradient(mine, examples, worker, step)
    return [jax.tree.map(lambda all, one: all.at[worker].set(one), grads, new),
            losses.at[worker].set(loss)]

  def _meet(self, leaves, grads, who, step):

    def one(mine, grads):
      first = lax.axis_index(WORKERS) == 0
      worker, sent = self._run.update(
          self._workers(mine), grads, step, first if self._paired else True,
          first if self._paired and not self._answers else True)
      return jax.tree.leaves(worker), jnp.stack(jax.tree.leaves(sent))

    return self._among(one, leaves, who, _rows(grads, who))

  def _adopt(self, leaves, who):

    def one(mine):
      worker, late = self._workers(mine), lax.axis_index(WORKERS) == 0
      theirs, _, sent = collectives.read(
          (worker.params, worker.opt), (1, 1), late)
      params, opt = jax.tree.map(
          lambda t, x: jnp.where(late, t, x), theirs,
          (worker.params, worker.opt))
      worker = worker._replace(params=params, opt=opt)
      return jax.tree.leaves(worker), jnp.stack(jax.tree.leaves(sent))

    return self._among(one, leaves, who)

  def _among(self, one, leaves, who, *given):
    """Runs `one` over an axis of those who came; `given` are their rows."""
    each = jax.vmap(
        one, axis_name=WORKERS, in_axes=(self._axes, *(0 for _ in given)),
        out_axes=(self._axes, 0))
    return each([x if axis is None else _rows(x, who)
                 for x, axis in zip(leaves, self._axes, strict=True)], *given)

  def _put_back(self, leaves, rows, who):
    return [new if axis is None else x.at[who].set(new)
            for x, new, axis in zip(leaves, rows, self._axes, strict=True)]


def _rows(tree, who):
  """Rows of a tree; without `who`, all."""
  if who is None:
    return tree
  return jax.tree.map(lambda x: x[who], tree)


def _of_server(path) -> bool:
  names = [getattr(key, 'name', None) for key in path]
  return names[0] == 'parameters' and 'center' in names


def _bill(sent: jax.Array) -> Traffic:
  """From u32[who, 10], on the host."""
  counts = np.moveaxis(jax.device_get(sent), -1, 0)
  return jax.tree.unflatten(jax.tree.structure(SILENCE), counts)
