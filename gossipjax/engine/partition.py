"""Cuts a round into what each of its processes computes, and the messages.

In virtual time a round is one program of all attending workers. Here the asker
(the worker whose step it is) sends a request, the others (workers or server
shards) reply, and the asker finishes:

  request  the asker's values that others need; what the round costs
  answer   another's new state, and the values that the asker needs from it
  finish   the asker's new state

Each process computes only what its own results need. A message holds values
that one side has and the other needs. Products are not sent but computed on
both sides, because XLA may fuse multiply and add, which then round only once.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jax.extend.core import ClosedJaxpr, Var

from gossipjax.engine.dataflow import Arrays, Dataflow
from gossipjax.errors import UserError


class Responder(NamedTuple):
  """What a process other than the asker's does in a round.

  Attributes:
    answer: (own leaves, message, step) -> (own leaves, message back).
    changes: whether the round changes its leaves.
  """

  answer: Callable[..., tuple[Arrays, Arrays]]
  changes: bool


class Partition(NamedTuple):
  """A round, cut into what its processes compute.

  Attributes:
    round_traffic: (own leaves, step) -> digits of the Traffic of each worker.
    request: (own leaves, step) -> a message for each other process.
    others: those processes, in the order of the round.
    finish: (own leaves, messages back, step) -> own leaves.
    alone: (own leaves, step) -> own leaves, for a round that sends nothing; the
      leaves given are donated, so they are lost.
  """

  round_traffic: Callable[..., Arrays]
  request: Callable[..., list[Arrays]]
  others: list[Responder]
  finish: Callable[..., Arrays]
  alone: Callable[..., Arrays]


def partition(
  closed: ClosedJaxpr,
  sizes: Sequence[tuple[int, int]],
  changes: bool,
  alone: Callable[..., Arrays],
) -> Partition:
  """Cuts a round.

  Args:
    closed: the round as a program: takes all leaves of the asker and of each
      other process, and the step; returns their new leaves, and the bills.
    sizes: for the asker and each other, how many leaves it gives and gets.
    changes: whether the others may change; if False they are only read.
    alone: see `Partition`.

  Raises:
    UserError: one of the others needs a value that another of them has.
  """
  inputs, results = iter(closed.jaxpr.invars), iter(closed.jaxpr.outvars)
  take = lambda source, count: [next(source) for _ in range(count)]
  before = [take(inputs, count) for count, _ in sizes]
  after = [take(results, count) for _, count in sizes]
  (step,), bills = inputs, list(results)
  owners = {v: owner for owner, leaves in enumerate(before) for v in leaves}
  flow, others = Dataflow(closed, owners), range(1, len(sizes))
  slots = {
    b: [i for i, v in enumerate(after[b]) if changes and v is not before[b][i]]
    for b in others
  }
  changed = {b: [after[b][i] for i in slots[b]] for b in others}
  back = _messages_back(flow, after[0], changed)
  sent = {b: flow.needs([*changed[b], *back[b]], {0}) for b in others}
  for b in others:
    if any(flow.of(v) - {0, b} for v in [*changed[b], *back[b]]):
      raise UserError(
        'A shard of this server needs values that another shard holds; set '
        'cluster.shards=1.'
      )
  arrived = [v for b in others for v in back[b]]
  round_traffic = flow.compiled([*before[0], step], bills)
  return Partition(
    lambda own, step: round_traffic(*own, step),
    _requester(flow, [*before[0], step], [*sent.values()]),
    [
      _responder(flow, before[b], sent[b], step, slots[b], changed[b], back[b])
      for b in others
    ],
    _finish(flow.compiled([*before[0], *arrived, step], after[0])),
    alone,
  )


def _messages_back(
  flow: Dataflow, results: list, changed: dict[int, list]
) -> dict[int, list[Var]]:
  """Returns the values that the asker needs from each other process."""
  made = {
    v
    for targets in changed.values()
    for eqn in flow.equations(targets, {*flow.needs(targets, {0})})
    for v in eqn.outvars
    if len(flow.of(v)) > 1
  }
  needed = flow.needs(results, {*changed}, made)
  return {b: [v for v in needed if b in flow.of(v)] for b in changed}


def _requester(flow: Dataflow, inputs: list[Var], messages: list[list[Var]]):
  run = flow.compiled(inputs, [v for message in messages for v in message])

  def request(own, step):
    results = iter(run(*own, step))
    return [[next(results) for _ in message] for message in messages]

  return request


def _responder(
  flow: Dataflow, inputs, sent, step, slots, changed, back
) -> Responder:
  run = flow.compiled([*inputs, *sent, step], changed + back)

  def answer(own, message, step):
    results = iter(run(*own, *message, step))
    own = list(own)
    for i in slots:
      own[i] = next(results)
    return own, list(results)

  return Responder(answer, bool(slots))


def _finish(run):
  def finish(own, messages, step):
    return run(*own, *(x for message in messages for x in message), step)

  return finish
