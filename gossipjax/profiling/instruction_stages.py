"""The stage of an exchange that each instruction of a program belongs to.

The text of a program gives for most instructions the Python stack under which
they were traced; the modules of this package in that stack decide the stage. A
fusion has the stage of its root, though it may do the work of several.
"""

import collections
import pathlib
import re

from gossipjax.audit import hlo
from gossipjax.audit.hlo import Instruction, Module

# For each stage the pattern of a stack frame. The first stage whose pattern is
# found counts, since a merge also selects, for example.
STAGES = {
  'merge': r'compressors/merging\.py|^servers/sharded_server\.py add_up',
  'select': r'compressors/(largest\.py|bisection|selections/|bitmap)',
  'exchange': (
    r'^(collectives/|(flatten|servers/sharded_server|transforms/flattened)\.py)'
  ),
  'pack': r'^compressors/',
  'own': r'^(?!local_step|executors|devices|aggregator)\w[\w/]*\.py',
  'apply': '',
}
_ROOT = f'{pathlib.Path(__file__).parents[1]}/'  # Of this package.
_TABLE = r'^{}\n((?:\d+ .*\n)+)'


def _table(text: str, name: str, row: str) -> dict[int, tuple[str, ...]]:
  found = re.search(_TABLE.format(name), text, re.M)
  lines = found[1].splitlines() if found else ()
  return {
    int(line.partition(' ')[0]): re.search(row, line).groups() for line in lines
  }


def stacks(text: str) -> dict[int, list[str]]:
  """Stack frames by their number in the metadata, the innermost first.

  A frame is `file function`; files of this package are relative to it, others
  are absolute.
  """
  files = _table(text, 'FileNames', r'"(.*)"')
  functions = _table(text, 'FunctionNames', r'"(.*)"')
  places = _table(
    text, 'FileLocations', r'file_name_id=(\d+) function_name_id=(\d+)'
  )
  frames = _table(
    text, 'StackFrames', r'file_location_id=(\d+)(?: parent_frame_id=(\d+))?'
  )

  def stack(number):
    if number not in frames:
      return []
    place, parent = frames[number]
    file, function = map(int, places[int(place)])
    # XLA writes a parent's number plus one; 1 means that there is none.
    return [
      f'{files[file][0].removeprefix(_ROOT)} {functions[function][0]}',
      *stack(int(parent or 1) - 1),
    ]

  return {number: stack(number) for number in frames}


def _stage(stack: list[str]) -> str:
  return next(
    name
    for name, pattern in STAGES.items()
    if any(re.search(pattern, frame) for frame in stack)
  )


def _stage_of(
  instruction: Instruction, by_frame: dict[int, str], module: Module
) -> str | None:
  """The stage of its own stack; else that of most instructions fused in it."""
  if instruction.opcode in ('parameter', 'constant'):  # Shared by many.
    return None
  frame = re.search(r'stack_frame_id=(\d+)', instruction.attributes)
  if frame and int(frame[1]) in by_frame:
    return by_frame[int(frame[1])]
  inside = collections.Counter(
    filter(
      None,
      (
        _stage_of(i, by_frame, module)
        for name in instruction.calls.get('calls', ())
        for i in module.computations[name]
      ),
    )
  )
  return max(inside, key=inside.get, default=None)


def stages(text: str, module: Module) -> dict[str, str]:
  """The stage of every instruction, by name.

  An instruction without a stack has the stage of an operand, else that of an
  instruction that uses its result, else that of the loop that it runs in.
  """
  by_frame = {n: _stage(s) for n, s in stacks(text).items() if s}
  caller = {
    name: i.name
    for i in module.instructions()
    for names in i.calls.values()
    for name in names
  }
  found = {}
  # The text defines a computation before those that call it.
  for name, body in reversed(module.computations.items()):
    inputs_of = {i.name: hlo.operands(i) for i in body}
    constants = {i.name for i in body if i.opcode == 'constant'}
    # XLA may share an array of one constant, under the stack of another stage.
    shared = {i for i, x in inputs_of.items() if x and constants.issuperset(x)}
    known = {
      i.name: None if i.name in shared else _stage_of(i, by_frame, module)
      for i in body
    }
    operands = {
      i: [x for x in names if x in known] for i, names in inputs_of.items()
    }
    for i, inputs in operands.items():
      known[i] = known[i] or next(filter(None, map(known.get, inputs)), None)
    for i, inputs in reversed(operands.items()):
      known |= {x: known[i] for x in inputs if known[x] is None}
    outer = found.get(caller.get(name), 'own')
    found |= {i: stage or outer for i, stage in known.items()}
  return found
