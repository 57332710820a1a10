"""Starts, pauses and ends the processes of a run."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import jax
import ray

from gossipjax import async_exchange
from gossipjax.engine import actors, clock
from gossipjax.engine.messages import START_S, WAIT_S, Entry, on_host
from gossipjax.engine.server_process import ServerProcess
from gossipjax.engine.setup import Setup, packed, unpacked
from gossipjax.engine.worker_process import WorkerProcess
from gossipjax.errors import UserError
from gossipjax.simulation.separate_fleet import Separate

WORKER, SERVER = 'Worker', 'Server'
Name = tuple[str, int]  # WORKER and its number, or SERVER and its shard's.


class Crew:
  """The actors of a run.

  Attributes:
    actors: by name; dead workers are removed, dead shards stay until replaced.
    steps: gradients that each worker has used.
    states: of all workers when they were last read.
    paused_at: when the clock was paused last, by `clock.now`.
    kept: a server's leaves in the last checkpoint.
  """

  def __init__(
    self,
    config: dict[str, Any],
    setup: Setup,
    states: Separate,
    steps: list[int],
  ):
    self._config, self._setup = config, setup
    self._visits = setup.exchange.kind == async_exchange.VISIT
    self.steps, self.states, self.kept = steps, states, on_host(states.server)
    self.paused_at, self._current = 0.0, True
    names = [(WORKER, i) for i in range(setup.run.workers)]
    names += [(SERVER, k) for k in range(len(setup.shards))]
    self.actors = {name: self.new(name) for name in names}

  def new(self, name: Name) -> Any:
    """Starts a process, which has no state yet."""
    kind, i = name
    actor = ray.remote(WorkerProcess if kind == WORKER else ServerProcess)
    # Workers, then shards, take all nodes in turn.
    place = actors.node(i + (kind == SERVER) * self._setup.run.workers)
    placed = actor.options(num_cpus=0, scheduling_strategy=place)
    return placed.remote(self._config, i)

  def of(self, kind: str) -> Iterator[tuple[int, Any]]:
    """Numbers and actors of a kind."""
    return ((i, a) for (k, i), a in self.actors.items() if k == kind)

  def alive(self) -> list[int]:
    """The workers known to be alive, in order; all workers if none is."""
    alive = sorted(i for i, _ in self.of(WORKER))
    return alive or [*range(len(self.steps))]

  def begin(self) -> None:
    """Gives all processes their states, and compiles their programs.

    Raises:
      UserError: see `actors.started`.
    """
    limit_s = START_S * len(self.actors)  # They may share a core.
    states = {(SERVER, k): self._restored(k, a) for k, a in self.of(SERVER)}
    for i, worker in self.of(WORKER):
      leaves = packed(self.states.singles[i])
      states[WORKER, i] = worker.begin.remote(leaves, self.steps[i])
    actors.started(states, limit_s)
    self.connect()
    starting = {
      name: actor.warm.remote() for name, actor in self.actors.items()
    }
    actors.started(starting, limit_s)

  def let_in(self, name: Name, actor: Any) -> str:
    """Gives a new process its first state, then tells the workers of it.

    Returns:
      Where the state comes from.

    Raises:
      RayError: it has died, or takes longer than WAIT_S to take the state.
    """
    kind, i = name
    if kind == WORKER:
      model, source = self._model(i)
      ref = actor.join.remote(*map(on_host, model), self.steps[i])
    else:
      ref, source = self._restored(i, actor), 'the last checkpoint'
    ray.get(ref, timeout=WAIT_S)  # Others call it as soon as they know it.
    self.actors[name] = actor
    self.connect()
    return source

  def _restored(self, k: int, shard: Any) -> Any:
    return shard.begin.remote([self.kept[i] for i in self._setup.shards[k]])

  def _model(self, i: int) -> tuple[tuple[list, list], str]:
    """Leaves of parameters and of a model's state, and where they are from."""
    for giver, worker in self.of(WORKER):
      if self._visits:
        break
      with contextlib.suppress(ray.exceptions.RayError):
        model = ray.get(worker.model.remote(), timeout=WAIT_S)
        return model, f'worker {giver}'
    held = self.read()
    full = self._setup.layout.joined(held.singles[i].own, held.server)
    center = self._setup.fleet.center(held)
    params = full.params if center is None else center
    model = tuple(map(jax.tree.leaves, (params, full.state)))
    return model, 'the server' if self._visits else 'what was last known of it'

  def connect(self) -> None:
    """Gives all workers the actors of the others, or of the server's shards."""
    others = dict(self.of(SERVER if self._visits else WORKER))
    for _, worker in self.of(WORKER):
      worker.connect.remote(others)

  def start_training(self, began: float) -> None:
    """Lets all workers train; by `clock.now`, the run began at `began`."""
    for _, worker in self.of(WORKER):
      worker.start_training.remote(began)

  def start(self, worker: int, step: int) -> None:
    """Lets one worker compute a gradient, while no worker trains."""
    ray.get(self.actors[WORKER, worker].start.remote(step))

  def exchange(self, worker: int, drawn: list[int], step: int) -> Entry:
    """Lets a worker use its gradient in a round with the workers drawn."""
    self.steps[worker] = step + 1
    return ray.get(self.actors[WORKER, worker].exchange.remote(drawn, step))

  def read(self) -> Separate:
    """Reads all states; keeps the last known one if there is no answer."""
    refs = {name: actor.state.remote() for name, actor in self.actors.items()}
    singles, server = list(self.states.singles), list(self.states.server)
    answers, self._current = {}, True
    for name, ref in refs.items():
      try:
        answers[name] = ray.get(ref, timeout=WAIT_S)
      except ray.exceptions.RayError as error:  # One that died is replaced.
        self._current &= isinstance(error, ray.exceptions.RayActorError)
    self._current &= any(kind == WORKER for kind, _ in answers)
    for (kind, i), leaves in answers.items():
      if kind == WORKER:
        singles[i] = unpacked(leaves, singles[i])
        continue
      for k, leaf in zip(self._setup.shards[i], leaves, strict=True):
        server[k] = leaf
    self.states = self.states._replace(singles=tuple(singles), server=server)
    return self.states

  def keep(self) -> None:
    """Takes what was read last as what a checkpoint keeps.

    Raises:
      UserError: it is from before: a process was silent, or no worker answered.
    """
    if not self._current:
      raise UserError(
        'The workers do not answer any more; --resume continues from the last '
        'checkpoint.'
      )
    self.kept = on_host(self.states.server)

  def pause(self) -> None:
    """Pauses the clock; waits, up to WAIT_S, until no worker computes."""
    self.paused_at, until = clock.now(), time.monotonic() + WAIT_S
    rests = [False]
    while not all(rests) and time.monotonic() < until:
      rests = []
      for _, worker in [*self.of(WORKER)]:
        with contextlib.suppress(ray.exceptions.RayError):
          ref = worker.pause.remote(self.paused_at)
          rests.append(ray.get(ref, timeout=WAIT_S))

  def resume(self) -> float:
    """Resumes the clock; returns how long it was paused."""
    now = clock.now()
    for _, worker in self.of(WORKER):
      worker.resume.remote(now)
    return now - self.paused_at

  def end(self) -> None:
    """Ends all processes."""
    for actor in self.actors.values():
      ray.kill(actor)
