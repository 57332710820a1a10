"""Bytes that the instructions of a compiled program read and write.

An operand counts as a whole, with two exceptions: of an operand that a gather
or a slice indexes, the selected part counts; of an operand that a scatter or an
update changes in place, the new entries count.
"""

from collections.abc import Iterator

from gossipjax.audit import hlo
from gossipjax.audit.hlo import Array, Instruction, Module

Body = dict[str, Instruction]

INDEXED_READS = ('gather', 'slice', 'dynamic-slice')
# Opcode -> index of the operand that holds the new entries.
IN_PLACE = {'scatter': 2, 'dynamic-update-slice': 1}
RESHAPES = ('bitcast', 'reshape')
FREE = (
  *RESHAPES,
  'parameter',
  'constant',
  'tuple',
  'get-tuple-element',
  'while',
  'conditional',
  'call',
)


def bodies(module: Module) -> Iterator[Body]:
  """Computations whose instructions run one by one, without fusions' bodies."""
  fused = {
    name
    for i in module.instructions()
    if i.opcode != 'call'
    for role in ('calls', 'to_apply')
    for name in i.calls.get(role, ())
  }
  for name, body in module.computations.items():
    if name not in fused:
      yield {i.name: i for i in body}


def size(arrays: list[Array]) -> int:
  """Bytes of the arrays together."""
  return sum(a.size * a.bits for a in arrays) // 8


def _part(user: Instruction, name: str, body: Body) -> list[Array] | None:
  """What `user` reads of the operand `name`; None for all of it."""
  if hlo.operands(user)[0] == name and user.opcode in INDEXED_READS:
    return hlo.arrays(user.shape)
  if hlo.operands(user)[0] == name and user.opcode in IN_PLACE:
    return _changed(user, body)
  return None


def _used(body: Body) -> dict[str, dict[str, list[Array]] | None]:
  """Per instruction of a fusion, the parts of its result that are used.

  Parts are listed by the instruction that selects them; None means all of the
  result. An elementwise operation uses as much of its operands as is used of
  its own result.
  """
  found = {name: {} for name in body} | {[*body][-1]: None}
  for user in reversed(body.values()):
    for name in hlo.operands(user):
      part = _part(user, name, body)
      if part is not None:
        used = {user.name: part}
      else:
        same = user.shape[1:] == body[name].shape[1:]  # All but the dtype.
        used = found[user.name] if same else None
      is_whole = found[name] is None or used is None
      found[name] = None if is_whole else found[name] | used
  return found


def _changed(instruction: Instruction, body: Body) -> list[Array]:
  """Arrays that it writes: new entries if in place, else its whole result."""
  inputs = hlo.operands(instruction)
  if instruction.opcode in RESHAPES and inputs[0] in body:
    return _changed(body[inputs[0]], body)
  if instruction.opcode == 'tuple':
    return [a for name in inputs for a in _changed(body[name], body)]
  if instruction.opcode in IN_PLACE:
    new = body[inputs[IN_PLACE[instruction.opcode]]]
    return hlo.arrays(new.shape)
  return hlo.arrays(instruction.shape)


def touched(
  module: Module, body: Body, instruction: Instruction
) -> tuple[list[Array], list[Array]]:
  """Arrays that an instruction of `body` reads, and arrays that it writes."""
  if instruction.opcode in FREE:
    return [], []
  names = hlo.operands(instruction)
  operands = [hlo.arrays(body[name].shape) for name in names]
  if instruction.opcode != 'fusion':
    parts = [
      _part(instruction, name, body) for name in hlo.operands(instruction)
    ]
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
      None if uses is None else [a for part in uses.values() for a in part]
      for uses in (used[numbered[i]] for i in range(len(operands)))
    ]
    written = _changed(root, inside)
  return [
    a
    for operand, part in zip(operands, parts, strict=True)
    for a in (operand if part is None else part)
  ], written
