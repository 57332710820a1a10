"""What a program moves, for every way through its branches."""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable

from gossipjax.audit import hlo
from gossipjax.audit.collective_bytes import Move, moves
from gossipjax.errors import UserError

Bag = frozenset[tuple[Move, int]]  # Moves, and how often each runs.
Ways = frozenset[Bag]  # One of these happens.

_STILL: Ways = frozenset([frozenset()])
_MOST = 10_000


def ways(program: hlo.Module, source: hlo.Module) -> Ways:
  """What may move while a program runs once.

  Args:
    program: as compiled.
    source: before compilation, to know what the compiler has widened.

  Raises:
    UserError: nobody can tell.
  """
  widths = _widths(source)

  @functools.cache
  def run(name: str) -> Ways:
    body = program.computations[name]
    return _in_turn(step(instruction, body) for instruction in body)

  def step(instruction: hlo.Instruction, body) -> Ways:
    if instruction.opcode.endswith(('-done', '-update')):
      return _STILL  # Counted at the start.
    called = {
      role: [run(name) for name in names]
      for role, names in instruction.calls.items()
    }
    if instruction.opcode == 'while':
      return _repeated(*called['body'], *called['condition'], instruction.trips)
    if instruction.opcode == 'conditional':
      return _taken(called, _constant(instruction, body))
    inner = itertools.chain(*called.values())
    mine = moves(program, instruction)
    return _in_turn([*(_as_written(move, widths) for move in mine), *inner])

  return run(program.entry)


def _widths(source: hlo.Module) -> dict[tuple[str, int], set[int]]:
  """Bits of an entry by kind of collective and number of entries."""
  found = {}
  for instruction in source.instructions():
    for move in moves(source, instruction):
      found.setdefault((move.kind, move.array.size), set()).add(move.bits)
  return found


def _as_written(move: Move, widths) -> Ways:
  """The move; where the source has several widths of its size, any of them."""
  written = widths.get((move.kind, move.array.size), set())
  bits = {b for b in written if b <= move.array.bits} or {move.array.bits}
  return frozenset(frozenset([(move._replace(bits=b), 1)]) for b in bits)


def _constant(instruction: hlo.Instruction, body) -> str | None:
  """The literal of the first operand, if the compiler knows it."""
  first = re.match(r'[^,)]*?([\w.-]+)[,)]', instruction.attributes)[1]
  (made,) = (i for i in body if i.name == first)
  if made.opcode in ('copy', 'bitcast'):
    return _constant(made, body)
  return made.attributes.split(')')[0] if made.opcode == 'constant' else None


def _taken(called: dict[str, list[Ways]], predicate: str | None) -> Ways:
  """Any branch, or the one of a predicate that is a constant.

  Compilers shy away from removing a branch that communicates.
  """
  if predicate is None:
    return frozenset().union(*itertools.chain(*called.values()))
  if predicate in ('true', 'false'):
    return called[f'{predicate}_computation'][0]
  branches = called['branch_computations']
  index = int(predicate)  # Out of bounds means the last one.
  return branches[index if 0 <= index < len(branches) else -1]


def _add(a: Bag, b: Bag) -> Bag:
  total = Counter(dict(a))
  total.update(dict(b))
  return frozenset(total.items())


def _in_turn(stages: Iterable[Ways]) -> Ways:
  """One after the other: each way of each with each of the others'."""
  total = _STILL
  for stage in stages:
    if stage != _STILL:
      total = frozenset(_add(a, b) for a in total for b in stage)
    if len(total) > _MOST:
      raise UserError(
        f'audit finds more than {_MOST} ways through the branches '
        'of a step; a config with fewer of them can be audited.'
      )
  return total


def _repeated(body: Ways, condition: Ways, trips: int | None) -> Ways:
  """A loop; its condition is asked once more than its body runs."""
  once = _in_turn([body, condition])
  if once == _STILL:
    return once
  if trips is None:
    raise UserError(
      'audit meets a while loop that communicates and that runs '
      'nobody knows how often; lax.scan has a known length.'
    )
  if len(once) == 1:
    (bag,) = once
    many = frozenset([frozenset((m, k * trips) for m, k in bag if trips)])
  else:
    many = _in_turn([once] * trips)
  return _in_turn([condition, many])
