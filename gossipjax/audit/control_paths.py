"""The transfers of each control path of a compiled program."""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable

from gossipjax.audit import hlo, widths
from gossipjax.audit.collective_bytes import Transfer
from gossipjax.errors import UserError

# The transfers of one control path, each with the number of times it runs.
Path = frozenset[tuple[Transfer, int]]
Paths = frozenset[Path]  # A run takes one of these.

_SILENT: Paths = frozenset([frozenset()])  # One path without a transfer.
_MOST = 10_000


class TooManyPaths(UserError):
  """The control paths of a program cannot be listed."""


def control_paths(program: hlo.Module, source: hlo.Module) -> Paths:
  """All control paths of one run of a program that differ in their transfers.

  Args:
    program: as compiled.
    source: before compilation; its entries have the intended number of bits.

  Raises:
    TooManyPaths: more than 10,000.
    UserError: a loop that communicates has no known length, or the audit has no
      rule for a collective.
  """
  paths: set[Path] = set()
  for assignment in _limited(widths.choices(program, source, _MOST)):
    paths = _limited(paths | _at_widths(program, assignment))
  return frozenset(paths)


def alike_but_for_bits(paths: Paths) -> bool:
  """Whether some paths differ only in the source's bits of a transfer that the
  compiler widened: then it is unknown which branch has which bits."""
  bare = lambda path: frozenset(
    (t._replace(bits=0), times) for t, times in path
  )
  return len({*map(bare, paths)}) < len(paths)


def _limited(entries):
  """Returns its argument; raises TooManyPaths if it has too many entries."""
  if len(entries) > _MOST:
    raise TooManyPaths(f'More than {_MOST} control paths.')
  return entries


def _at_widths(program: hlo.Module, assignment: widths.Own) -> Paths:
  """As `control_paths`, for one assignment of bits to all transfers."""

  @functools.cache
  def of_computation(name: str) -> Paths:
    body = program.computations[name]
    moved = frozenset([frozenset(assignment.get(name, {}).items())])
    return _in_sequence([moved, *(of_instruction(i, body) for i in body)])

  def of_instruction(instruction: hlo.Instruction, body) -> Paths:
    if instruction.opcode.endswith(('-done', '-update')):
      return _SILENT  # Counted at the start.
    called = {
      role: [of_computation(name) for name in names]
      for role, names in instruction.calls.items()
    }
    if instruction.opcode == 'while':
      (body_of,), (condition,) = called['body'], called['condition']
      return _of_loop(body_of, condition, instruction.trips)
    if instruction.opcode == 'conditional':
      return _of_branches(called, _constant(instruction, body))
    return _in_sequence(itertools.chain(*called.values()))

  return of_computation(program.entry)


def _constant(instruction: hlo.Instruction, body) -> str | None:
  """The literal of the first operand; None if it is not a constant."""
  operand = re.match(r'[^,)]*?([\w.-]+)[,)]', instruction.attributes)[1]
  (node,) = (i for i in body if i.name == operand)
  if node.opcode in ('copy', 'bitcast'):
    return _constant(node, body)
  return node.attributes.split(')')[0] if node.opcode == 'constant' else None


def _of_branches(
  called: dict[str, list[Paths]], predicate: str | None
) -> Paths:
  """The paths of all branches, or of one if the predicate is a constant.

  XLA keeps branches that communicate, even if they are never taken.
  """
  if predicate is None:
    return frozenset().union(*itertools.chain(*called.values()))
  if predicate in ('true', 'false'):
    return called[f'{predicate}_computation'][0]
  branches = called['branch_computations']
  index = int(predicate)  # Out of bounds means the last one.
  return branches[index if 0 <= index < len(branches) else -1]


def _add(a: Path, b: Path) -> Path:
  total = Counter(dict(a))
  total.update(dict(b))
  return frozenset(total.items())


def _in_sequence(parts: Iterable[Paths]) -> Paths:
  """All combinations of one path of each part."""
  total = _SILENT
  for paths in parts:
    if paths != _SILENT:
      total = frozenset(_add(a, b) for a in total for b in paths)
    _limited(total)
  return total


def _of_loop(body: Paths, condition: Paths, trips: int | None) -> Paths:
  """The paths of a loop; its condition runs once more than its body."""
  once = _in_sequence([body, condition])
  if once == _SILENT:
    return once
  if trips is None:
    raise UserError(
      'audit found a while loop that communicates and whose number of '
      'iterations is unknown at compile time; use lax.scan, which has a known '
      'length.'
    )
  if len(once) == 1:
    (path,) = once
    repeated = frozenset([frozenset((t, k * trips) for t, k in path if trips)])
  else:
    repeated = _in_sequence([once] * trips)
  return _in_sequence([condition, repeated])
