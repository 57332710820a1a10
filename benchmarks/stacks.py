"""Which stage of an exchange an instruction of a compiled program belongs to.

The text of a program tells for most instructions the Python stack under which
they were traced; the stage is which of our modules stands in it. A fusion has
that of its root, though it may do the work of several.
"""

import collections
import pathlib
import re

import gossipjax
from benchmarks import touched
from gossipjax.audit.hlo import Instruction, Module

# The first whose pattern is found in a stack; merges also select, for example.
STAGES = {
  'merge': r'compressors/merging\.py|^sharded\.py add_up',
  'select': r'compressors/(selection|bitmap)',
  'exchange': r'^(collectives|sharded|packed|pieces)\.py',
  'pack': r'^compressors/',
  'own': r'^(?!worker|spmd|aggregator)\w[\w/]*\.py',
  'apply': '',
}
_ROOT = f'{pathlib.Path(gossipjax.__file__).parent}/'
_TABLE = r'^{}\n((?:\d+ .*\n)+)'


def _table(text: str, name: str, row: str) -> dict[int, tuple[str, ...]]:
  found = re.search(_TABLE.format(name), text, re.M)
  lines = found[1].splitlines() if found else ()
  return {
    int(line.partition(' ')[0]): re.search(row, line).groups() for line in lines
  }


def stacks(text: str) -> dict[int, list[str]]:
  """By their number in the metadata, `file function` from the innermost on.

  Files are relative to our package, or absolute if they are not in it.
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
    # The number of a parent is one too large: 1 stands for none.
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


def _told(
  instruction: Instruction, of: dict[int, str], module: Module
) -> str | None:
  """By its own stack, else by most of those that are fused in it."""
  if instruction.opcode in ('parameter', 'constant'):  # Shared by many.
    return None
  frame = re.search(r'stack_frame_id=(\d+)', instruction.attributes)
  if frame and int(frame[1]) in of:
    return of[int(frame[1])]
  inside = collections.Counter(
    filter(
      None,
      (
        _told(i, of, module)
        for name in instruction.calls.get('calls', ())
        for i in module.computations[name]
      ),
    )
  )
  return max(inside, key=inside.get, default=None)


def stages(text: str, module: Module) -> dict[str, str]:
  """The stage of every instruction, by name.

  One that tells nothing goes by what it takes, else by who takes what it makes,
  else by the loop that it runs in.
  """
  of = {n: _stage(s) for n, s in stacks(text).items() if s}
  caller = {
    name: i.name
    for i in module.instructions()
    for names in i.calls.values()
    for name in names
  }
  found = {}
  # In the text, who is called stands before the caller.
  for name, body in reversed(module.computations.items()):
    known = {i.name: _told(i, of, module) for i in body}
    taken = {
      i.name: [x for x in touched.operands(i) if x in known] for i in body
    }
    for i, inputs in taken.items():
      known[i] = known[i] or next(filter(None, map(known.get, inputs)), None)
    for i, inputs in reversed(taken.items()):
      known |= {x: known[i] for x in inputs if known[x] is None}
    outer = found.get(caller.get(name), 'own')
    found |= {i: stage or outer for i, stage in known.items()}
  return found
