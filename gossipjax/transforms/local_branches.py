"""Refuses collectives in which only some workers would take part.

Workers on devices of their own all have to run the same collectives. So a
branch or a loop with a collective must not depend on values that differ between
workers.
"""

from collections.abc import Callable
from typing import Any

from jax.extend.core import Jaxpr, JaxprEqn, Literal

from gossipjax.errors import UserError
from gossipjax.transforms.traced_collectives import (
  REDUCTIONS,
  is_of_all,
  name_of,
  opened,
  sending,
  users_place,
)


def check(whose: str, jaxpr: Jaxpr, differs: list[bool]) -> None:
  """Refuses collectives in branches that depend on a worker's own values.

  Args:
    whose: name of the function, for messages.
    jaxpr: its program. The last argument is the step; the other arguments are
      the first results of the previous step.
    differs: for each of these others, whether its value differs between workers
      in the first step.

  Raises:
    UserError: there is such a collective; the message says where.
  """
  flow = _Flow(whose)
  step = lambda carry: flow.through(jaxpr, [*carry, False])[: len(carry)]
  _settled(step, differs)


def results(whose: str, jaxpr: Jaxpr, differs: list[bool]) -> list[bool]:
  """Whether each result differs between workers, if the arguments differ as
  stated; raises as `check`."""
  return _Flow(whose).through(jaxpr, differs)


class _Flow:
  """Finds which values of a program differ between workers."""

  def __init__(self, whose: str):
    self.whose = whose

  def through(self, jaxpr: Jaxpr, differs: list[bool]) -> list[bool]:
    """Whether each result differs, if the given arguments do."""
    known = dict(zip(jaxpr.invars, differs, strict=True))
    value = lambda v: not isinstance(v, Literal) and known.get(v, False)
    for eqn in jaxpr.eqns:
      flags = self._results(eqn, [value(v) for v in eqn.invars])
      known |= dict(zip(eqn.outvars, flags, strict=True))
    return [value(v) for v in jaxpr.outvars]

  def _results(self, eqn: JaxprEqn, differs: list[bool]) -> list[bool]:
    name, params, num_outs = name_of(eqn), eqn.params, len(eqn.outvars)
    if name == 'axis_index':
      return [True]
    if name in REDUCTIONS and is_of_all(eqn):
      return [False] * num_outs
    if name == 'cond':
      index, *operands = differs
      branches = [*map(opened, params['branches'])]
      self._check(eqn, index, branches)
      by_branch = [self.through(branch, operands) for branch in branches]
      return [index or any(flags) for flags in zip(*by_branch, strict=True)]
    if name == 'while':
      return self._loop(eqn, differs)
    if name == 'scan':
      return self._scan(eqn, differs)
    called = opened(params.get('jaxpr', params.get('call_jaxpr')))
    if isinstance(called, Jaxpr) and len(called.invars) == len(differs):
      return self.through(called, differs)
    return [any(differs)] * num_outs

  def _scan(self, eqn: JaxprEqn, differs: list[bool]) -> list[bool]:
    body = opened(eqn.params['jaxpr'])
    # Scanned and stacked arrays have one more dimension outside than inside.
    n = _whole(eqn.invars, body.invars)
    carried = _whole(eqn.outvars, body.outvars)
    held, scanned = differs[: n - carried], differs[n:]
    turn = lambda carry: self.through(body, held + carry + scanned)
    return turn(
      _settled(lambda carry: turn(carry)[:carried], differs[n - carried : n])
    )

  def _loop(self, eqn: JaxprEqn, differs: list[bool]) -> list[bool]:
    n, params = eqn.params['cond_nconsts'], eqn.params
    m = n + params['body_nconsts']
    condition, body = (opened(params[f'{k}_jaxpr']) for k in ('cond', 'body'))
    turn = lambda carry: self.through(body, differs[n:m] + carry)
    carry = _settled(turn, differs[m:])
    (goes_on,) = self.through(condition, differs[:n] + carry)
    self._check(eqn, goes_on, [condition, body])
    return [goes_on or each for each in carry]

  def _check(self, eqn: JaxprEqn, differs: bool, inside: list[Jaxpr]) -> None:
    """Raises a UserError if only some workers take part in a collective."""
    if differs and any(e for jaxpr in inside for e in sending(jaxpr)):
      raise UserError(
        f'{self.whose}: whether a worker takes part in the collectives of a '
        f'lax.{eqn.primitive.name}{users_place(eqn)} depends on its own '
        'values, so that those that take part would wait for the others for '
        'ever. Let it depend on the step, or on values that all share '
        '(gossipjax.collectives.agree, all_max), or exchange always and mask '
        'what is local.'
      )


def _whole(outside: list[Any], inside: list[Any]) -> int:
  """How many operands enter a loop's body whole, not one slice at a time."""
  pairs = zip(outside, inside, strict=True)
  return sum(a.aval.ndim == b.aval.ndim for a, b in pairs)


def _settled(
  turn: Callable[[list[bool]], list[bool]], carry: list[bool]
) -> list[bool]:
  """Which carried values of a loop differ before any one of its turns."""
  while True:
    after = turn(carry)
    grown = [a or b for a, b in zip(carry, after, strict=True)]
    if grown == carry:
      return carry
    carry = grown
