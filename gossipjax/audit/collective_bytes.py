"""Bytes that each worker sends in one collective of a compiled program."""

import itertools
from collections import Counter
from fractions import Fraction
from typing import NamedTuple, cast

from gossipjax.audit import hlo
from gossipjax.audit.routes import Route, route
from gossipjax.collectives import PRESENT, SERVED
from gossipjax.errors import UserError

# Bytes that a member of a ring of g sends, relative to the bytes of its result.
_RING = {
  'all-reduce': lambda g: Fraction(2 * (g - 1), g),
  'all-gather': lambda g: Fraction(g - 1, g),
  'reduce-scatter': lambda g: Fraction(g - 1),
  'all-to-all': lambda g: Fraction(g - 1, g),
}
_PERMUTE = 'collective-permute'
_UNKNOWN = {'collective-broadcast', 'ragged-all-to-all', 'send', 'recv'}


class Transfer(NamedTuple):
  """One array of one collective.

  Attributes:
    kind: all-reduce, collective-permute and the like.
    array: the result on one worker.
    route: groups of workers, or (source, target) pairs. If a worker is d
      devices, it holds devices instead: d * i + j is device j of worker i.
    served: whether the collective emulates a server.
    bits: of an entry, in the program before compilation; 0 for presence flags,
      which a server knows without a message.
  """

  kind: str
  array: hlo.Array
  route: Route
  served: bool
  bits: int

  def levels(self, devices: int) -> tuple['Transfer | None', 'Transfer | None']:
    """Splits the transfer into the part between workers of so many devices and
    the part within them; None if empty. No server is within a worker."""
    if devices == 1 or not self.route:
      return self, None
    inside = lambda group: len({i // devices for i in group}) == 1
    within = tuple(group for group in self.route if inside(group))
    between = tuple(group for group in self.route if not inside(group))
    return (
      self._replace(route=between) if between else None,
      self._replace(route=within, served=False) if within else None,
    )

  def compiled_bytes(self, workers: int) -> list[Fraction]:
    """Bytes that each worker sends in the compiled program."""
    return self._sent(workers, self.array.bits)

  def intended_bytes(self, workers: int) -> list[Fraction]:
    """Bytes that each worker would send with the bits of the source program,
    and to a real server if one is emulated."""
    if not self.served:
      return self._sent(workers, self.bits)
    upload = Fraction(self.array.size * self.bits, 8)
    members = {*itertools.chain(*self.route)} or range(workers)
    return [upload * (i in members) for i in range(workers)]

  def reasons(self) -> set[str]:
    """Names of the differences between intended and compiled bytes."""
    widened = {'widened'} if 0 < self.bits < self.array.bits else set()
    return widened | ({'served'} if self.served else set())

  def _sent(self, workers, bits):
    size = Fraction(self.array.size * bits, 8)
    if self.kind == _PERMUTE:
      times = Counter(s for s, t in self.route if s != t)
      return [size * times[i] for i in range(workers)]
    groups = self.route or [range(workers)]
    members = {i: len(group) for group in groups for i in group}
    return [size * _RING[self.kind](members.get(i, 1)) for i in range(workers)]


def transfers(
  program: hlo.Module, instruction: hlo.Instruction
) -> list[Transfer]:
  """The transfers of one instruction, one per array; [] for no collective.

  Raises:
    UserError: the audit has no rule for the bytes of such a collective, or
      cannot read which workers it joins.
  """
  kind = instruction.opcode.removesuffix('-start')
  if kind in _UNKNOWN:
    raise UserError(f'audit knows no rule for the bytes of a {kind}.')
  if kind not in _RING and kind != _PERMUTE:
    return []
  shape = instruction.shape
  if instruction.opcode != kind != 'all-reduce':
    # The shape is (operands, results, and what the device needs).
    shape = cast(tuple[hlo.Shape, ...], shape)[1]
  arrays = hlo.arrays(shape)
  if kind == 'all-to-all':  # May have one result for each worker.
    arrays = [hlo.Array(arrays[0].dtype, sum(a.size for a in arrays))]
  names, workers = _names(program, instruction), route(instruction)
  billed = PRESENT not in names
  return [
    Transfer(kind, a, workers, SERVED in names, billed * a.bits) for a in arrays
  ]


def _names(program, instruction) -> set[str]:
  """The parts of the names of an instruction and of its reducer; if XLA merges
  collectives, only the reducer keeps its name."""
  reducers = instruction.calls.get('to_apply', [])
  named = [instruction, *(i for r in reducers for i in program.computations[r])]
  return {part for i in named for part in i.op_name.split('/')}
