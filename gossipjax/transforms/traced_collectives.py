"""The collectives of a program as JAX traces it: where, and who made them."""

import pathlib
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from gossipjax import collectives

# Names of primitives; those of jax.shard_map end in _invariant.
REDUCTIONS = 'psum', 'pmax', 'pmin', 'all_gather'
SENDING = {
  *REDUCTIONS,
  *('ppermute', 'all_to_all', 'reduce_scatter', 'ragged_all_to_all', 'pgather'),
}
_JAX = pathlib.Path(jax.__file__).parent


def name_of(eqn: JaxprEqn) -> str:
  """Of the primitive, as in jax.lax."""
  return eqn.primitive.name.removesuffix('_invariant')


def sending(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
  """The collectives of a program, also those inside its equations."""
  for eqn in jaxpr.eqns:
    if name_of(eqn) in SENDING:
      yield eqn
    for called in programs(eqn):
      yield from sending(opened(called))


def opened(program: Any) -> Any:
  """The program without the values that it is closed over."""
  return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def programs(eqn: JaxprEqn) -> Iterator[ClosedJaxpr | Jaxpr]:
  """The branches, bodies and functions that an equation runs."""
  for value in eqn.params.values():
    for each in value if isinstance(value, tuple | list) else (value,):
      if isinstance(each, ClosedJaxpr | Jaxpr):
        yield each


def is_of_all(eqn: JaxprEqn) -> bool:
  """Whether all workers, and no groups of them, take part in a collective."""
  axes = eqn.params.get('axes', eqn.params.get('axis_name'))
  names = axes if isinstance(axes, tuple) else (axes,)
  mine = collectives.axis()
  every = {mine} if isinstance(mine, str) else {*mine}
  return every <= {*names} and not eqn.params.get('axis_index_groups')


def caller(eqn: JaxprEqn) -> tuple[pathlib.Path, int] | None:
  """File and line outside JAX that made an equation, if known."""
  traceback: Any = eqn.source_info.traceback
  for frame in traceback.frames if traceback else ():
    path = pathlib.Path(frame.file_name)
    if _JAX not in path.parents and path.name != 'contextlib.py':
      return path, frame.line_num
  return None


def place(eqn: JaxprEqn) -> str:
  """In brackets where an equation was made; '' if that is not known."""
  found = caller(eqn)
  return f' ({found[0].name}, line {found[1]})' if found else ''
