"""Data dependencies of a program between workers.

Extracts the part of a program that computes given values.
"""

from collections.abc import Callable, Collection, Iterable, Set
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Literal, Var

from gossipjax.transforms.traced import equations, part

Arrays = list[jax.Array]
_PRODUCTS = {'mul', 'integer_pow', 'square', 'dot_general'}
_KEEP = {  # Their result is a product if an operand is.
  'broadcast_in_dim',
  'concatenate',
  'convert_element_type',
  'copy',
  'dynamic_update_slice',
  'neg',
  'reshape',
  'slice',
  'squeeze',
  'transpose',
}


class Dataflow:
  """A program as a graph.

  Attributes:
    closed: the program.
  """

  def __init__(self, closed: ClosedJaxpr, owners: dict[Var, int]):
    """Finds the owners of all values of a program.

    Args:
      closed: the program, without equations that no result needs.
      owners: number of the owner of each argument; arguments without an owner
        belong to all.
    """
    self.closed, jaxpr = closed, closed.jaxpr
    self._made_by = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    nobody: frozenset[int] = frozenset()
    self._owners = dict.fromkeys([*jaxpr.constvars, *jaxpr.invars], nobody)
    self._owners |= {v: frozenset([owner]) for v, owner in owners.items()}
    for eqn in jaxpr.eqns:
      of_all = frozenset().union(*map(self.of, eqn.invars))
      self._owners |= dict.fromkeys(eqn.outvars, of_all)

  def of(self, atom: Any) -> frozenset[int]:
    """Returns the owners of the arguments that a value depends on."""
    return frozenset() if isinstance(atom, Literal) else self._owners[atom]

  def needs(
    self,
    targets: Iterable[Any],
    senders: Set[int],
    made: Collection[Var] = (),
  ) -> list[Var]:
    """The values that results need from others: what their messages carry.

    Args:
      targets: the results.
      senders: the others; each can send values that depend on its arguments
        alone.
      made: values that the senders compute from arguments of several owners
        and can send, too.
    """
    seen, found, left = set(), {}, list(targets)
    while left:
      v = left.pop()
      if isinstance(v, Literal) or v in seen:
        continue
      seen.add(v)
      owners = self.of(v)
      sendable = bool(owners) and owners <= senders and (len(owners) == 1)
      if (sendable or v in made) and self._travels(v):
        found[v] = None
      elif v in self._made_by:
        left += self._made_by[v].invars
    order = {v: i for i, v in enumerate(self._owners)}
    return sorted(found, key=order.__getitem__)

  def _travels(self, v) -> bool:
    eqn = self._made_by.get(v)
    return eqn is None or not (
      eqn.primitive.name == 'broadcast_in_dim' or self._is_product(v)
    )

  def _is_product(self, v) -> bool:
    eqn = None if isinstance(v, Literal) else self._made_by.get(v)
    if eqn is None:
      return False
    name = eqn.primitive.name
    return name in _PRODUCTS or (
      name in _KEEP and any(map(self._is_product, eqn.invars))
    )

  def equations(self, targets: Iterable[Any], given: Collection[Var]) -> list:
    """The equations between given values and targets, in their order."""
    return equations(self.closed.jaxpr, targets, given)

  def compiled(
    self, given: list[Var], wanted: list[Any]
  ) -> Callable[..., Arrays]:
    """The part of the program between given values and results, compiled."""
    return jax.jit(part(self.closed, given, wanted))
