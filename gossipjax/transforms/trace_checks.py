"""Checks what the functions of an aggregator do, as JAX traces them.

A collective that gossipjax.collectives does not make has no bill, and a bill
that is not returned is in no ledger. Workers on devices of their own wait for
ever if only some take the branch of a collective. A number that changes between
two traces is frozen in the compiled program, and a value kept from an earlier
trace does not exist when the program runs.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jax.interpreters import partial_eval

from gossipjax import collectives
from gossipjax.aggregator import Aggregator
from gossipjax.collectives import bill_names
from gossipjax.errors import UserError
from gossipjax.traffic import SILENCE
from gossipjax.transforms import local_branches, traced
from gossipjax.transforms.traced_collectives import (
  COUNTED,
  bills,
  caller,
  is_billed,
  name_of,
  opened,
  place,
  programs,
  sending,
  users_place,
)


def check(
  whose: str, given: Aggregator, arguments: tuple[Any, ...], differs: bool
) -> None:
  """Refuses an aggregator that sends unbilled, hangs, or is impure.

  Args:
    whose: its name, for messages.
    given: the aggregator.
    arguments: of its update: a tree, a state, a step, and `active`; arrays or
      tracers.
    differs: whether the tree differs between workers in the first step.

  Raises:
    UserError: see above.
  """
  *args, active = arguments
  program = lambda tree, state, step: given.update(tree, state, step, active)
  with bill_names.naming():
    closed = jax.make_jaxpr(program)(*args)
  check_counted(f'{whose}.update', closed.jaxpr)
  _check_billed(f'{whose}.update', closed)
  closed_init = jax.make_jaxpr(given.init)(args[0])
  for eqn in sending(closed_init.jaxpr):
    raise UserError(
      f'{whose}.init sends{users_place(eqn)}, which no ledger counts; a state '
      'begins without messages.'
    )
  if isinstance(collectives.axis(), str):  # Of several axes, one may suffice.
    flags = [differs] * len(jax.tree.leaves(args[0]))
    flags += local_branches.results(whose, closed_init.jaxpr, flags)
    local_branches.check(f'{whose}.update', closed.jaxpr, flags)
  with bill_names.naming():
    retraced = jax.make_jaxpr(lambda *args: program(*args))(*args)
  if _traced(closed) != _traced(retraced):
    raise UserError(
      f'{whose} keeps an array of one call outside of the state, in a variable '
      'or a list of its own, and uses it in the next call; that array exists '
      'only while JAX traces the function, not when the compiled step runs. '
      'Return it in the state.'
    )
  if [*_constants(closed)] != [*_constants(retraced)]:
    raise UserError(
      f'{whose}.update uses a number that changes each time JAX traces it, '
      'such as a random number or a counter of Python or NumPy; the compiled '
      'step would always use the first one. Draw with jax.random from a key in '
      'the state, and keep what changes in the state.'
    )


def check_counted(whose: str, jaxpr: Jaxpr) -> None:
  """Raises a UserError for a collective that gossipjax.collectives did not
  make."""
  for eqn in sending(jaxpr):
    check_made(whose, eqn)


def check_made(whose: str, eqn: JaxprEqn) -> None:
  """Checks one collective, as `check_counted` does."""
  source = caller(eqn)
  if source and source[0].parts[-3:-1] != COUNTED:
    raise UserError(
      f'{whose} sends with {name_of(eqn)} of jax.lax{place(eqn)}, which no '
      'ledger counts; use gossipjax.collectives, whose functions return what '
      'they have sent.'
    )
  if source and not is_billed(eqn):
    raise UserError(
      f'{whose} sends{users_place(eqn)} with an inner function of '
      'gossipjax.collectives, which returns no bill; use those that '
      'gossipjax.collectives exports, which return what they have sent.'
    )


def _check_billed(whose: str, closed: ClosedJaxpr) -> None:
  """Raises a UserError for a message whose bill is not part of the result."""
  rewritten = lambda *args: traced.evaluate(closed, _UNROLLING, list(args))
  jaxpr = jax.make_jaxpr(rewritten)(*closed.in_avals).jaxpr
  num_others = len(jaxpr.outvars) - len(jax.tree.leaves(SILENCE))
  is_bill = [i >= num_others for i in range(len(jaxpr.outvars))]
  needed, _ = partial_eval.dce_jaxpr(jaxpr, is_bill)
  # Counted, since calls of one traced function have the same names.
  names = lambda program: Counter(eqn.params['name'] for eqn in bills(program))
  unpaid = names(jaxpr) - names(needed)
  for eqn in bills(closed.jaxpr):
    if eqn.params['name'] in unpaid:
      raise UserError(
        f'{whose} sends{users_place(eqn)}, but does not return the bill of it; '
        'return the sum of what the functions of gossipjax.collectives have '
        'sent.'
      )


def _is_billed_loop(equation: JaxprEqn) -> bool:
  return traced.trip_count(equation) > 0 and any(
    any(bills(opened(body))) for body in programs(equation)
  )


def _two_turns(equation: JaxprEqn, operands: list, run: Callable) -> list:
  """Unrolls loops with bills: a turn may overwrite the bill of another."""
  if _is_billed_loop(equation):
    return traced.unrolled(equation, operands, _UNROLLING, turns=2)
  return run(operands)


_UNROLLING = traced.Rewriting(_is_billed_loop, _two_turns)


def _traced(program: ClosedJaxpr) -> set[int]:
  """The ids of values of other traces that a program is closed over."""
  return {id(x) for x in program.consts if isinstance(x, jax.core.Tracer)}


def _constants(program: ClosedJaxpr | Jaxpr) -> Iterator[tuple[Any, ...]]:
  """All numbers of a program, bit by bit, in the order of its equations."""
  jaxpr = program
  if isinstance(program, ClosedJaxpr):
    known = (x for x in program.consts if not isinstance(x, jax.core.Tracer))
    yield from map(_bits, known)
    jaxpr = program.jaxpr
  for eqn in jaxpr.eqns:
    yield from (_bits(v.val) for v in eqn.invars if isinstance(v, Literal))
    for called in programs(eqn):
      yield from _constants(called)


def _bits(number: Any) -> tuple[Any, ...]:
  if jax.dtypes.issubdtype(getattr(number, 'dtype', None), jax.dtypes.prng_key):
    with jax.ensure_compile_time_eval():  # Inside the trace of a whole step.
      number = jax.random.key_data(number)
  array = np.asarray(number)
  return array.shape, array.dtype, array.tobytes()
