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

  def through(self, jaxpr: Jaxpr, given: list[bool]) -> list[bool]:
    """Whether each result differs, if the given arguments do."""
    known = dict(zip(jaxpr.invars, given, strict=True))
    value = lambda v: not isinstance(v, Literal) and known.get(v, False)
    for eqn in jaxpr.eqns:
      found = self._results(eqn, [value(v) for v in eqn.invars])
      known |= dict(zip(eqn.outvars, found, strict=True))
    return [value(v) for v in jaxpr.outvars]

  def _results(self, eqn: JaxprEqn, given: list[bool]) -> list[bool]:
    name, inside, outs = name_of(eqn), eqn.params, len(eqn.outvars)
    if name == 'axis_index':
      return [True]
    if name in REDUCTIONS and is_of_all(eqn):
      return [False] * outs
    if name == 'cond':
      index, *operands = given
      branches = [*map(opened, inside['branches'])]
      self._check(eqn, index, branches)
      each = [self.through(branch, operands) for branch in branches]
      return [index or any(found) for found in zip(*each, strict=True)]
    if name == 'while':
      return self._loop(eqn, given)
    if name == 'scan':
      return self._scan(eqn, given)
    called = opened(inside.get('jaxpr', inside.get('call_jaxpr')))
    if isinstance(called, Jaxpr) and len(called.invars) == len(given):
      return self.through(called, given)
    return [any(given)] * outs

  def _scan(self, eqn: JaxprEqn, given: list[bool]) -> list[bool]:
    body = opened(eqn.params['jaxpr'])
    # Scanned and stacked arrays have one more dimension outside than inside.
    n = _whole(eqn.invars, body.invars)
    carried = _whole(eqn.outvars, body.outvars)
    held, scanned = given[: n - carried], given[n:]
    once = lambda carry: self.through(body, held + carry + scanned)
    return once(
      _settled(lambda carry: once(carry)[:carried], given[n - carried : n])
    )

  def _loop(self, eqn: JaxprEqn, given: list[bool]) -> list[bool]:
    n, inside = eqn.params['cond_nconsts'], eqn.params
    m = n + inside['body_nconsts']
    condition, body = (opened(inside[f'{k}_jaxpr']) for k in ('cond', 'body'))
    once = lambda carry: self.through(body, given[n:m] + carry)
    carry = _settled(once, given[m:])
    (goes_on,) = self.through(condition, given[:n] + carry)
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
  once: Callable[[list[bool]], list[bool]], carry: list[bool]
) -> list[bool]:
  """Which carried values of a loop differ before any one of its turns."""
  while True:
    found = once(carry)
    grown = [a or b for a, b in zip(carry, found, strict=True)]
    if grown == carry:
      return carry
    carry = grown
