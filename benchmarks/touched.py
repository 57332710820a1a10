"""What the instructions of a compiled program read and write.

An operand counts as a whole, but for those of which a gather or a slice looks
up a part, and those that a scatter or an update changes in place.
"""

import re
from collections.abc import Iterator

from gossipjax.audit import hlo
from gossipjax.audit.hlo import Array, Instruction, Module

Body = dict[str, Instruction]

LOOKS_UP = ('gather', 'slice', 'dynamic-slice')
CHANGES = {'scatter': 2, 'dynamic-update-slice': 1}  # Which operand is new.
AS_IT_IS = ('bitcast', 'reshape')
FREE = (
  *AS_IT_IS,
  'parameter',
  'constant',
  'tuple',
  'get-tuple-element',
  'while',
  'conditional',
  'call',
)


def operands(instruction: Instruction) -> list[str]:
  """Their names."""
  return re.findall(r'%([\w.-]+)', instruction.attributes.partition(')')[0])


def bodies(module: Module) -> Iterator[Body]:
  """The computations whose instructions run one by one: no fusion's."""
  parts = {
    name
    for i in module.instructions()
    if i.opcode != 'call'
    for role in ('calls', 'to_apply')
    for name in i.calls.get(role, ())
  }
  for name, body in module.computations.items():
    if name not in parts:
      yield {i.name: i for i in body}


def size(arrays: list[Array]) -> int:
  """Bytes."""
  return sum(a.size * a.bits for a in arrays) // 8


def _part(user: Instruction, name: str, body: Body) -> list[Array] | None:
  """What it touches of the operand of that name; None for all of it."""
  if operands(user)[0] == name and user.opcode in LOOKS_UP:
    return hlo.arrays(user.shape)
  if operands(user)[0] == name and user.opcode in CHANGES:
    return _changed(user, body)
  return None


def _used(body: Body) -> dict[str, dict[str, list[Array]] | None]:
  """What is used of all that is fused, by who looks it up; None for all of it.

  Of a term as much is used as of its sum.
  """
  found = {name: {} for name in body} | {[*body][-1]: None}
  for user in reversed(body.values()):
    for name in operands(user):
      part = _part(user, name, body)
      if part is not None:
        used = {user.name: part}
      else:
        same = user.shape[1:] == body[name].shape[1:]  # All but the dtype.
        used = found[user.name] if same else None
      whole = found[name] is None or used is None
      found[name] = None if whole else found[name] | used
  return found


def _changed(instruction: Instruction, body: Body) -> list[Array]:
  """What a scatter or an update writes, else all of a result."""
  inputs = operands(instruction)
  if instruction.opcode in AS_IT_IS and inputs[0] in body:
    return _changed(body[inputs[0]], body)
  if instruction.opcode == 'tuple':
    return [a for name in inputs for a in _changed(body[name], body)]
  if instruction.opcode in CHANGES:
    new = body[inputs[CHANGES[instruction.opcode]]]
    return hlo.arrays(new.shape)
  return hlo.arrays(instruction.shape)


def touched(
  module: Module, body: Body, instruction: Instruction
) -> tuple[list[Array], list[Array]]:
  """What an instruction of that body reads and what it writes."""
  if instruction.opcode in FREE:
    return [], []
  whole = [hlo.arrays(body[name].shape) for name in operands(instruction)]
  if instruction.opcode != 'fusion':
    parts = [_part(instruction, name, body) for name in operands(instruction)]
    written = _changed(instruction, body)
  else:
    *_, root = inner = module.computations[instruction.calls['calls'][0]]
    inside = {i.name: i for i in inner}
    numbered = {
      int(i.attributes.partition(')')[0]): i.name
      for i in inner
      if i.opcode == 'parameter'
    }
    used = _used(inside)
    parts = [
      None if by is None else [a for part in by.values() for a in part]
      for by in (used[numbered[i]] for i in range(len(whole)))
    ]
    written = _changed(root, inside)
  return [
    a
    for all_, part in zip(whole, parts, strict=True)
    for a in (all_ if part is None else part)
  ], written
