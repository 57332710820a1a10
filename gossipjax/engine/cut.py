"""Cuts a round into what each of its processes computes, and the messages.

A round is one program of all who attend, as virtual time plays it. Here the
active worker sends a request, the others (workers or server shards) reply, and
the active worker finishes:

  ask     the asker's values that others need; what the round costs
  answer  another's new state, and the values that the asker needs from it
  finish  the asker's new state

Each computes what its own results need. A message is a value that one side has
and the other does not. Products are not sent but computed on both sides,
because XLA may fuse multiply and add, which rounds once.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jax.extend.core import ClosedJaxpr, Var

from gossipjax.engine.dataflow import Arrays, Dataflow
from gossipjax.errors import UserError


class Part(NamedTuple):
  """What one of the others does in a round.

  Attributes:
    answer: (own leaves, message, step) -> (own leaves, message back).
    changes: whether the round changes its leaves.
  """

  answer: Callable[..., tuple[Arrays, Arrays]]
  changes: bool


class Cut(NamedTuple):
  """A round, cut.

  Attributes:
    price: (own leaves, step) -> digits of the Traffic of each.
    ask: (own leaves, step) -> a message for each other.
    others: in the order of those who attend, without the asker.
    finish: (own leaves, messages back, step) -> own leaves.
    alone: (own leaves, step) -> own leaves, of a round that sends nothing; they
      take the place of those given, which are lost.
  """

  price: Callable[..., Arrays]
  ask: Callable[..., list[Arrays]]
  others: list[Part]
  finish: Callable[..., Arrays]
  alone: Callable[..., Arrays]


def cut(
  closed: ClosedJaxpr,
  sizes: Sequence[tuple[int, int]],
  changes: bool,
  alone: Callable[..., Arrays],
) -> Cut:
  """Cuts a round.

  Args:
    closed: a program of all leaves of the asker, of each other, and the step;
      its results are their new leaves, and the bills.
    sizes: for the asker and each other, how many leaves it gives and gets.

    changes: whether the others take part; else they are only read.
    alone: see `Cut`.

  Raises:
    UserError: one of the others needs what another one has.
  """
  inputs, results = iter(closed.jaxpr.invars), iter(closed.jaxpr.outvars)
  take = lambda source, count: [next(source) for _ in range(count)]
  given = [take(inputs, count) for count, _ in sizes]
  wanted = [take(results, count) for _, count in sizes]
  (step,), bills = inputs, list(results)
  owners = {v: who for who, leaves in enumerate(given) for v in leaves}
  flow, others = Dataflow(closed, owners), range(1, len(sizes))
  where = {
    b: [i for i, v in enumerate(wanted[b]) if changes and v is not given[b][i]]
    for b in others
  }
  changed = {b: [wanted[b][i] for i in where[b]] for b in others}
  back = _messages_back(flow, wanted[0], changed)
  asked = {b: flow.needs([*changed[b], *back[b]], {0}) for b in others}
  for b in others:
    if any(flow.of(v) - {0, b} for v in [*changed[b], *back[b]]):
      raise UserError(
        'A shard of this server needs what another holds; set cluster.shards=1.'
      )
  arrived = [v for b in others for v in back[b]]
  price = flow.compiled([*given[0], step], bills)
  return Cut(
    lambda own, step: price(*own, step),
    _ask(flow, [*given[0], step], [*asked.values()]),
    [
      _part(flow, given[b], asked[b], step, where[b], changed[b], back[b])
      for b in others
    ],
    _finish(flow.compiled([*given[0], *arrived, step], wanted[0])),
    alone,
  )


def _messages_back(
  flow: Dataflow, wanted: list, changed: dict[int, list]
) -> dict[int, list[Var]]:
  """What the asker needs from each other."""
  made = {
    v
    for of_one in changed.values()
    for eqn in flow.equations(of_one, {*flow.needs(of_one, {0})})
    for v in eqn.outvars
    if len(flow.of(v)) > 1
  }
  told = flow.needs(wanted, {*changed}, made)
  return {b: [v for v in told if b in flow.of(v)] for b in changed}


def _ask(flow: Dataflow, given: list[Var], asked: list[list[Var]]):
  run = flow.compiled(given, [v for each in asked for v in each])

  def ask(own, step):
    found = iter(run(*own, step))
    return [[next(found) for _ in each] for each in asked]

  return ask


def _part(flow: Dataflow, given, asked, step, where, changed, back) -> Part:
  run = flow.compiled([*given, *asked, step], changed + back)

  def answer(own, message, step):
    found = iter(run(*own, *message, step))
    own = list(own)
    for i in where:
      own[i] = next(found)
    return own, list(found)

  return Part(answer, bool(where))


def _finish(run):
  def finish(own, messages, step):
    return run(*own, *(x for message in messages for x in message), step)

  return finish
