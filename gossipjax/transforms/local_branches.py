"""Refuses collectives in which only some workers would take part.

Workers on devices of their own all have to run the same collectives. A branch
or a loop that holds one must not depend on what differs between them.
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
  """Refuses a branch on a worker's own values that holds a collective.

  Args:
    whose: name of the function, for sentences.
    jaxpr: of it. Its arguments but the last, the step, are its first results of
      the step before.
    differs: of each of these, whether its value differs between workers in the
      first step.

  Raises:
    UserError: there is one; where it is.
  """
  flow = _Flow(whose)
  step = lambda carry: flow.through(jaxpr, [*carry, False])[: len(carry)]
  _settled(step, differs)


def results(whose: str, jaxpr: Jaxpr, differs: list[bool]) -> list[bool]:
  """Of each result, whether it differs between workers if these arguments do;
  raises as `check`."""
  return _Flow(whose).through(jaxpr, differs)


class _Flow:
  """Follows through a program what differs between workers."""

  def __init__(self, whose: str):
    self.whose = whose

  def through(self, jaxpr: Jaxpr, given: list[bool]) -> list[bool]:
    """Whether each result differs, if these arguments do."""
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
    # What is scanned, or stacked, has a dimension more than inside.
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
    """Raises a UserError if some workers only take part in a collective."""
    if differs and any(e for jaxpr in inside for e in sending(jaxpr)):
      raise UserError(
        f'{self.whose}: whether a worker takes part in the collectives of a '
        f'lax.{eqn.primitive.name}{users_place(eqn)} depends on values of its '
        'own, so that some would wait for others for ever. Let it depend on '
        'the step, or on what all know (gossipjax.collectives.agree, all_max), '
        'or exchange always and mask what is local.'
      )


def _whole(outside: list[Any], inside: list[Any]) -> int:
  """How many operands enter a loop's body whole, not one slice at a time."""
  pairs = zip(outside, inside, strict=True)
  return sum(a.aval.ndim == b.aval.ndim for a, b in pairs)


def _settled(
  once: Callable[[list[bool]], list[bool]], carry: list[bool]
) -> list[bool]:
  """What differs before some run of a loop's body."""
  while True:
    found = once(carry)
    grown = [a or b for a, b in zip(carry, found, strict=True)]
    if grown == carry:
      return carry
    carry = grown
