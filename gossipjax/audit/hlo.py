"""Parses the text of a compiled program: its calls and its shapes.

It reads the text that XLA's CPU, GPU and TPU compilers print.
https://openxla.org/xla/operation_semantics
"""

import itertools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_COMMENT = re.compile(r'/\*.*?\*/')
_HEADER = re.compile(r'(ENTRY )?%?([\w.-]+) (?:\(.*)?\{$')
_INSTRUCTION = re.compile(r'\s+(?:ROOT )?%?([\w.-]+) = (.*)$')
_OPCODE = re.compile(r'\s*([\w-]+)\(')
_ARRAY = re.compile(r'([a-z]\w*)\[([^]]*)\]')
_CALL = re.compile(
  r'\b(calls|to_apply|body|condition|(?:true|false)_computation|'
  r'(?:branch|called)_computations)=(?:\{([^}]*)\}|%?([\w.-]+))'
)
_TRIPS = re.compile(r'known_trip_count\W+n\W+(\d+)')  # Any style of quoting.
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_IS_SYNC = re.compile(r'is_sync\W+true')
_LAST_WORD = re.compile(r'([\w.-]+)$')


class Array(NamedTuple):
  dtype: str  # As HLO spells it: f32, bf16, s8, pred, token.
  size: int  # Entries.

  @property
  def bits(self) -> int:
    """Bits of an entry. An entry of fewer than 8 bits takes a byte, as in JAX's
    arrays and in the messages of XLA for CPUs."""
    width = re.search(r'\d+', self.dtype)
    return max(8, int(width[0])) if width else 8 * (self.dtype == 'pred')


Shape = Array | tuple['Shape', ...]


class Instruction(NamedTuple):
  name: str
  opcode: str
  shape: Shape  # Of the result.
  calls: dict[str, list[str]]  # Names of computations by role, as in `body=`.
  trips: int | None  # How often a loop runs, if the compiler knows.
  op_name: str  # Where the traced program made it: names joined by slashes.
  attributes: str  # Operands and attributes; strings are emptied.
  is_sync: bool = False  # Whether nothing runs between its start and done.


class Module(NamedTuple):
  entry: str
  computations: dict[str, list[Instruction]]

  def instructions(self) -> Iterator[Instruction]:
    """All instructions, whether they run or not."""
    return (i for body in self.computations.values() for i in body)


def arrays(shape: Shape) -> list[Array]:
  """The arrays of a shape, from left to right."""
  if isinstance(shape, Array):
    return [shape]
  return [array for part in shape for array in arrays(part)]


def parse(text: str) -> Module:
  """Reads the text of a module, one instruction per line."""
  entry, computations, body = '', {}, []
  for line in text.splitlines():
    if match := _INSTRUCTION.match(line):
      body.append(_instruction(match[1], _COMMENT.sub('', match[2])))
    elif match := _HEADER.match(line):
      body = computations.setdefault(match[2], [])
      entry = match[2] if match[1] else entry
  return Module(entry, computations)


def _instruction(name: str, text: str) -> Instruction:
  end = _end(text) if text.startswith('(') else text.index(' ')
  opcode = _OPCODE.match(text, end)
  attributes = _STRING.sub('""', text[opcode.end() :])
  calls = {
    role: [name.strip(' %') for name in (several or single).split(',')]
    for role, several, single in _CALL.findall(attributes)
  }
  trips, op_name = _TRIPS.search(text, end), _OP_NAME.search(text, end)
  return Instruction(
    name,
    opcode[1],
    _shape(text[:end]),
    calls,
    int(trips[1]) if trips else None,
    op_name[1] if op_name else '',
    attributes,
    bool(_IS_SYNC.search(text, end)),
  )


def operands(instruction: Instruction) -> list[str]:
  """The names of an instruction's operands, in order, without their shapes."""
  if instruction.opcode in ('parameter', 'constant'):
    return []
  edges = [-1]
  for i, (depth, letter) in enumerate(_depths(instruction.attributes)):
    if (depth, letter) == (0, ',') or depth < 0:
      edges.append(i)
    if depth < 0:
      break
  pieces = (
    instruction.attributes[a + 1 : b].strip()
    for a, b in itertools.pairwise(edges)
  )
  return [match[1] for p in pieces if (match := _LAST_WORD.search(p))]


def _depths(text: str) -> Iterator[tuple[int, str]]:
  """Yields the number of brackets around each letter, and the letter."""
  depth = 0
  for letter in text:
    depth -= letter in ')]}'
    yield depth, letter
    depth += letter in '([{'


def _end(text: str) -> int:
  """The position after the bracket that closes the first one."""
  return next(
    i + 1
    for i, (depth, letter) in enumerate(_depths(text))
    if depth == 0 and letter == ')'
  )


def _shape(text: str) -> Shape:
  text = text.strip()
  if text.startswith('('):
    commas = [i for i, d in enumerate(_depths(text)) if d == (1, ',')]
    edges = [0, *commas, len(text) - 1]
    parts = [text[a + 1 : b] for a, b in itertools.pairwise(edges)]
    return tuple(_shape(part) for part in parts if part.strip())
  dtype, dimensions = _ARRAY.match(text).groups()
  return Array(dtype, math.prod(map(int, re.findall(r'\d+', dimensions))))
