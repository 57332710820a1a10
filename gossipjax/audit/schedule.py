"""Finds the collectives of a scheduled program that run while it computes.

A compiler that hides communication splits a collective into a start and a done
and moves computation between them. The text of a scheduled program lists its
instructions in the order in which they are issued: instructions between the
start and the done run during the collective. XLA for GPUs and TPUs prints

  is_scheduled=true               in the first line of such a program
  all-reduce-start, -done         the same for the others
  async-start(...), calls=%body   several collectives as one
  "is_sync":true                  a pair that the device does not split

https://openxla.org/xla/operation_semantics
"""

from collections.abc import Iterator
from typing import NamedTuple

from gossipjax.audit import hlo
from gossipjax.audit.collective_bytes import transfers

# Instructions that take no time on a device.
_FREE = (
  'parameter',
  'constant',
  'tuple',
  'get-tuple-element',
  'bitcast',
  'after-all',
  'opt-barrier',
  'partition-id',
  'replica-id',
)
_STEPS = ('-start', '-update', '-done')


class ScheduledCollective(NamedTuple):
  """A collective, or several that are issued as one.

  Attributes:
    kind: all-reduce and the like; several kinds are joined by a plus sign.
    dtypes: of the arrays that move, as HLO spells them.
    bytes: of the results on one worker.
    split: whether the device may compute while the collective runs.
    beside: opcodes of the instructions that compute meanwhile.
  """

  kind: str
  dtypes: tuple[str, ...]
  bytes: int
  split: bool
  beside: tuple[str, ...]


def scheduled_collectives(program: hlo.Module) -> list[ScheduledCollective]:
  """All collectives of a program, in the order of its text.

  Raises:
    UserError: the bytes of a collective cannot be read from the text.
  """
  called = {
    name
    for i in program.instructions()
    if i.opcode.startswith('async-')
    for name in i.calls.get('calls', ())
  }
  return [
    collective
    for name, body in program.computations.items()
    if name not in called  # Counted where it starts.
    for collective in _in_body(program, body)
  ]


def _in_body(
  program: hlo.Module, body: list[hlo.Instruction]
) -> Iterator[ScheduledCollective]:
  for position, instruction in enumerate(body):
    if instruction.opcode.endswith(_STEPS[1:]):
      continue
    inside = [instruction] + [
      i
      for name in instruction.calls.get('calls', ())
      if instruction.opcode == 'async-start'
      for i in program.computations[name]
    ]
    moved = [t for i in inside for t in transfers(program, i)]
    if not moved:
      continue
    started = instruction.opcode.endswith('-start')
    split = started and not instruction.is_sync
    yield ScheduledCollective(
      '+'.join(dict.fromkeys(t.kind for t in moved)),
      tuple(dict.fromkeys(t.array.dtype for t in moved)),
      sum(t.array.size * t.array.bits for t in moved) // 8,
      split,
      tuple(_until_done(body, position) if split else ()),
    )


def _until_done(body: list[hlo.Instruction], start: int) -> Iterator[str]:
  """Yields the opcodes of the computation between a start and its done."""
  names = {body[start].name}
  for instruction in body[start + 1 :]:
    if names & {*hlo.operands(instruction)}:
      if instruction.opcode.endswith('-done'):
        return
      if instruction.opcode.endswith('-update'):
        names.add(instruction.name)
    if instruction.opcode not in _FREE and not _of_a_transfer(instruction):
      yield instruction.opcode


def _of_a_transfer(instruction: hlo.Instruction) -> bool:
  """Whether it starts or ends a transfer, such as a copy to the host."""
  return instruction.opcode.endswith(_STEPS)
