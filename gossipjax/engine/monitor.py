"""Collects what the processes of a run did, and replaces those that died.

A worker restarts with the parameters of the server or of another worker, a
shard of the server with its leaves of the last checkpoint. The others go on.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import ray

from gossipjax.engine import clock
from gossipjax.engine.crew import SERVER, WORKER, Crew, Name
from gossipjax.engine.messages import START_S, WAIT_S, Entry
from gossipjax.errors import UserError
from gossipjax.simulation.timeline import silent

MOST_DEATHS = 3  # Unplanned deaths of a process without a step between them.


class Monitor:
  """Tracks which processes work, have died, or are about to come back.

  Attributes:
    faults: how often a process died.
    began: when the run's clock was 0, by `clock.now`, had it never been paused.
  """

  def __init__(
    self,
    crew: Crew,
    outages: Sequence[tuple[float, float, float]],
    notify: Callable[[str], None],
    began: float,
  ):
    """Begins with all processes at work.

    Args:
      crew: the processes.
      outages: (worker, from_s, until_s): when a worker is killed, and when it
        is started again.
      notify: called with a sentence for each death and each return.
      began: when the run's clock was 0, by `clock.now`.
    """
    self._crew, self._notify, self.began = crew, notify, began
    self._outages = sorted(outages, key=lambda outage: outage[1])
    self._asked: dict[Name, tuple[Any, float]] = {}
    self._away: dict[Name, float] = {}  # The dead; when each may restart.
    self._until: dict[Name, float] = {}  # The same of those being killed.
    self._starting: dict[Name, tuple[Any, Any, float]] = {}
    self._deaths: dict[Name, int] = {}
    self.faults = 0

  def news(self, pause_s: float) -> list[Entry]:
    """Returns what the workers have done since the last call, in that order.

    Args:
      pause_s: before they are asked; answering takes them time.

    Raises:
      UserError: a process cannot be replaced, or a worker raised one.
      RuntimeError: a worker raised another exception.
    """
    self._kill()
    self._start()
    self._let_in()
    time.sleep(pause_s)
    return self.receive(pause_s)

  def receive(self, wait_s: float) -> list[Entry]:
    """As `news`, but waits `wait_s` for answers and replaces no process."""
    for name, actor in self._crew.actors.items():
      if name not in self._asked and name not in self._away:
        self._asked[name] = actor.news.remote(), time.monotonic()
    refs = [ref for ref, _ in self._asked.values()]
    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=wait_s)
    entries = []
    for name, (ref, since) in [*self._asked.items()]:
      if ref in ready:
        del self._asked[name]
        entries += self._result(name, ref)
      elif time.monotonic() - since > WAIT_S:
        ray.kill(self._crew.actors[name])  # It hangs.
    return sorted(entries, key=lambda entry: entry.spans[-1][-1])

  def _result(self, name: Name, ref: Any) -> list[Entry]:
    try:
      entries, error = ray.get(ref)
    except ray.exceptions.RayActorError:
      self._died(name)
      return []
    if error is not None:
      raise error
    if name[0] == WORKER and entries:
      self._deaths.pop(name, None)
      if not all(silent(entry.sent) for entry in entries):
        self._shards_made_a_step()
      self._crew.steps[name[1]] += len(entries)
    return entries

  def _shards_made_a_step(self) -> None:
    """Clears the deaths of all shards: a worker visits all of them."""
    for name in [name for name in self._deaths if name[0] == SERVER]:
      del self._deaths[name]

  def _died(self, name: Name) -> None:
    kind, i = name
    planned = name in self._until
    until = self._away[name] = self._until.pop(name, 0.0)
    self._deaths[name] = self._deaths.get(name, 0) + (not planned)
    self.faults += 1
    if kind == WORKER:  # Not to be drawn; workers wait for a server.
      self._crew.actors.pop(name, None)
      self._crew.connect()
    ends = until == math.inf
    self._say(
      f'{kind} {i} died; it '
      + ('does not come back.' if ends else 'is started again.')
    )
    if self._deaths[name] > MOST_DEATHS:
      raise UserError(
        f'{kind} {i} died {self._deaths[name]} times without a step; it '
        'may have run out of memory; use a smaller model or fewer workers.'
      )
    back = any(k == WORKER and t < math.inf for (k, _), t in self._away.items())
    if not back and not any(True for _ in self._crew.of(WORKER)):
      raise UserError(
        'cluster.failures stopped every worker for good; keep one running, or '
        'give one a time to come back.'
      )

  def _kill(self) -> None:
    """Kills workers whose outage begins; one that is down stays down longer."""
    while self._outages and self._outages[0][1] <= self._now():
      worker, _, until = self._outages.pop(0)
      name = WORKER, int(worker)
      if name in self._crew.actors:
        self._until[name] = until
        ray.kill(self._crew.actors[name])
      elif name in self._away:
        self._away[name] = max(self._away[name], until)
        if starting := self._starting.pop(name, None):
          ray.kill(starting[0])

  def _start(self) -> None:
    for name, until in [*self._away.items()]:
      if until <= self._now() and name not in self._starting:
        actor = self._crew.new(name)
        self._starting[name] = actor, actor.warm.remote(), time.monotonic()

  def _let_in(self) -> None:
    """Lets processes that have started again take part."""
    for name, (actor, ref, since) in [*self._starting.items()]:
      if not ray.wait([ref], timeout=0)[0]:
        if time.monotonic() - since > START_S:
          raise UserError(
            f'{name[0]} {name[1]} did not start in {START_S:g} s.'
          )
        continue
      del self._starting[name]
      try:
        ray.get(ref)
        source = self._crew.let_in(name, actor)
      except (
        ray.exceptions.RayActorError,
        ray.exceptions.ActorUnschedulableError,  # Its node has left.
        ray.exceptions.GetTimeoutError,  # It hangs.
      ):
        ray.kill(actor)
        self._died(name)
        continue
      del self._away[name]
      if name[0] == WORKER:
        actor.start_training.remote(self.began)
      self._say(f'{name[0]} {name[1]} is back with the state of {source}.')

  def _now(self) -> float:
    return clock.now() - self.began

  def _say(self, sentence: str) -> None:
    self._notify(f'{self._now():.1f} s: {sentence}')
