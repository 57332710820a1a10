"""The collectives of a traced program, and the code that made them."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from gossipjax import collectives
from gossipjax.collectives import bill_names

# Names of primitives; those of jax.shard_map end in _invariant.
REDUCTIONS = 'psum', 'pmax', 'pmin', 'all_gather'
SENDING = {
  *REDUCTIONS,
  *('ppermute', 'all_to_all', 'reduce_scatter', 'ragged_all_to_all', 'pgather'),
}
_CONTROL = {'cond', 'while', 'scan'}
_JAX = pathlib.Path(jax.__file__).parent
_HERE = pathlib.Path(collectives.__file__).parents[1]
# Folders are compared by name, as there may be copies.
COUNTED = pathlib.Path(collectives.__file__).parts[-3:-1]
_AMONG_GROUPS = _HERE.name, 'transforms', 'groups.py'
_BILLING = 'with_joins', 'inner_mean', 'inner_gather', 'inner_scatter'


def name_of(eqn: JaxprEqn) -> str:
  """The name of an equation's primitive, as in jax.lax."""
  return eqn.primitive.name.removesuffix('_invariant')


def sending(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
  """The collectives of a program, also those inside its equations."""
  for eqn in jaxpr.eqns:
    if name_of(eqn) in SENDING:
      yield eqn
    for called in programs(eqn):
      yield from sending(opened(called))


def kinds(jaxpr: Jaxpr, within: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
  """The names of a program's collectives, branches and loops, each preceded by
  the names of the branches and loops around it."""
  found = set()
  for eqn in jaxpr.eqns:
    name = name_of(eqn)
    around = (*within, name) if name in _CONTROL else within
    found |= {(*within, name)} if name in SENDING else {around} - {within}
    for called in programs(eqn):
      found |= kinds(opened(called), around)
  return found


def bills(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
  """The equations that name bills, see collectives/bill_names.py."""
  for eqn in jaxpr.eqns:
    name = eqn.primitive.name == 'name' and eqn.params['name']
    if name and name.startswith(bill_names.PREFIX):
      yield eqn
    for called in programs(eqn):
      yield from bills(opened(called))


def opened(program: Any) -> Any:
  """The program without the values that it is closed over."""
  return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def programs(eqn: JaxprEqn) -> Iterator[ClosedJaxpr | Jaxpr]:
  """The branches, bodies and functions that an equation runs."""
  for value in eqn.params.values():
    for item in value if isinstance(value, tuple | list) else (value,):
      if isinstance(item, ClosedJaxpr | Jaxpr):
        yield item


def is_of_all(eqn: JaxprEqn) -> bool:
  """Whether all workers, and no groups of them, take part in a collective."""
  axes = eqn.params.get('axes', eqn.params.get('axis_name'))
  names = axes if isinstance(axes, tuple) else (axes,)
  own = collectives.axis()
  own_axes = {own} if isinstance(own, str) else {*own}
  return own_axes <= {*names} and not eqn.params.get('axis_index_groups')


def caller(
  eqn: JaxprEqn, outside: Sequence[pathlib.Path] = (_JAX,)
) -> tuple[pathlib.Path, int] | None:
  """File and line that made an equation, if known: the innermost ones outside
  of some folders, by default outside of JAX."""
  frame = next(_frames(eqn, outside), None)
  return (pathlib.Path(frame.file_name), frame.line_num) if frame else None


def is_billed(eqn: JaxprEqn) -> bool:
  """Whether an equation's messages are known to have a bill: a function that
  returns a bill made it, or it replaces such an equation within groups."""
  for frame in _frames(eqn):
    parts = pathlib.Path(frame.file_name).parts[-3:]
    if parts[:2] != COUNTED:
      return parts == _AMONG_GROUPS
    if frame.function_name.split('.<locals>.')[0] in _BILLING:
      return True
  return False


def _frames(
  eqn: JaxprEqn, outside: Sequence[pathlib.Path] = (_JAX,)
) -> Iterator[Any]:
  """The stack frames that made an equation, the innermost one first, without
  those in some folders."""
  traceback: Any = eqn.source_info.traceback
  for frame in traceback.frames if traceback else ():
    path = pathlib.Path(frame.file_name)
    inside = any(folder in path.parents for folder in outside)
    if not inside and path.name != 'contextlib.py':
      yield frame


def users_place(eqn: JaxprEqn) -> str:
  """As `place`, but the innermost place that is outside of gossipjax, too."""
  return _in_brackets(caller(eqn, (_JAX, _HERE)))


def place(eqn: JaxprEqn) -> str:
  """Says in brackets where an equation was made; '' if that is not known."""
  return _in_brackets(caller(eqn))


def _in_brackets(source: tuple[pathlib.Path, int] | None) -> str:
  return f' ({source[0].name}, line {source[1]})' if source else ''
