"""Workers of whom mostly all come to a round: their states in one stack."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax import collectives
from gossipjax.collectives import WORKERS
from gossipjax.simulation.fleet import Fleet, State
from gossipjax.traffic import Traffic, digits, from_digits
from gossipjax.training.ledger import Ledger
from gossipjax.training.worker_program import Session


class SynchronousFleet(Fleet):
  """See `Fleet`; everyone takes part in everything."""

  def __init__(self, run: Session, config, ledger: Ledger):
    super().__init__(run, config, ledger)
    self._start = jax.jit(self._take_gradient, donate_argnums=0)
    # Rows are put back by a program of its own: where one reads and writes
    # them, XLA copies all workers first, at nine times a CNN's gradient.
    self._play = jax.jit(self._round)
    self._play_all = jax.jit(self._round, donate_argnums=0)
    self._put = jax.jit(_put_back, donate_argnums=0)
    self._fetch = jax.jit(self._adopt)
    self._ask = jax.jit(lambda *given: self._adopt(*given)[1])

  @property
  def held(self) -> State:
    """See `Fleet`."""
    return self.state

  def start(self, worker: int, step: int) -> None:
    """See `timeline.Player`, as the rest."""
    workers, *held = self.state
    held = self._start(
      held, workers.params, self.examples, np.int32(worker), np.int32(step)
    )
    self.state = State(workers, *held)

  def play(self, who: Sequence[int], step: int) -> Traffic:
    workers, grads, losses = self.state
    whom, step = self._whom(who), np.int32(step)
    if whom is None:
      workers, sent = self._play_all(workers, grads, None, step)
    else:
      rows, sent = self._play(workers, grads, whom, step)
      workers = self._put(workers, rows, whom)
    self.state = State(workers, grads, losses)
    return self._enter(who, np.asarray(losses)[list(who)], sent)

  def fetch(self, worker: int, giver: int, really: bool) -> Traffic:
    who = np.int32([worker, giver])
    if not really:
      return from_digits(self._ask(self.state.workers, who))
    rows, sent = self._fetch(self.state.workers, who)
    self.state = self.state._replace(
      workers=self._put(self.state.workers, rows, who)
    )
    return self._enter(who, np.zeros(0), sent)

  def _given(self, who):
    return self.state.workers, self.state.gradients, self._whom(who)

  def _whom(self, who):
    """None if all come: then nothing has to be gathered."""
    return None if len(who) == self.size else np.int32(who)

  def _take_gradient(self, held, params, examples, worker, step):
    grads, losses = held
    loss, new = self._run.gradient(
      _rows(params, worker), examples, worker, step
    )
    return [_put_back(grads, new, worker), losses.at[worker].set(loss)]

  def _round(self, workers, grads, who, step):

    def one(worker, grads):
      worker, sent = self._run.update(worker, grads, step)
      return worker, digits(sent)

    return _among(one, _rows(workers, who), _rows(grads, who))

  def _adopt(self, workers, who):

    def one(worker):
      mine, late = (worker.params, worker.opt), lax.axis_index(WORKERS) == 0
      theirs, _, sent = collectives.read(mine, (1, 1), late)
      params, opt = jax.tree.map(
        lambda t, x: jnp.where(late, t, x), theirs, mine
      )
      return worker._replace(params=params, opt=opt), digits(sent)

    return _among(one, _rows(workers, who))


def _among(one, *given):
  return jax.vmap(one, axis_name=WORKERS)(*given)


def _rows(tree, who):
  """Rows of a tree; without `who`, all."""
  if who is None:
    return tree
  return jax.tree.map(lambda x: x[who], tree)


def _put_back(tree, rows, who):
  return jax.tree.map(lambda x, new: x.at[who].set(new), tree, rows)
