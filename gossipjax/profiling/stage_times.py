"""Seconds of each stage of a compiled program, measured by JAX's profiler."""

import collections
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax

from gossipjax.audit import hlo
from gossipjax.profiling import instruction_bytes, instruction_stages


class Program(NamedTuple):
  """A compiled program, its instructions, and a call that runs it.

  Attributes:
    call: runs the program once.
    stages: the stage of each instruction that runs, by instruction.
    bytes: bytes that each of these instructions reads and writes.
    least_bytes: bytes of the program's arguments and results, each once.
  """

  call: Callable[[], Any]
  stages: dict[str, str]
  bytes: dict[str, int]
  least_bytes: int


class Trace(NamedTuple):
  """What the profiler recorded of one call.

  Attributes:
    wall_s: seconds of the call.
    seconds: of each instruction, over all its executions.
    executions: how often each instruction ran. An instruction of a GPU may
      start several kernels; it counts as often as the rarest of them ran.
  """

  wall_s: float
  seconds: Mapping[str, float]
  executions: Mapping[str, int]


def describe(compiled: jax.stages.Compiled, call: Callable[[], Any]) -> Program:
  """Reads stages and bytes of a compiled function from its text.

  Args:
    compiled: from `lower(...).compile()`.
    call: runs it once.
  """
  text, memory = compiled.as_text(), compiled.memory_analysis()
  module = hlo.parse(text)
  moved = {
    i.name: sum(
      map(instruction_bytes.size, instruction_bytes.touched(module, body, i))
    )
    for body in instruction_bytes.bodies(module)
    for i in body.values()
    if i.opcode not in instruction_bytes.FREE
  }
  stages = instruction_stages.stages(text, module)
  return Program(
    call,
    {name: stages[name] for name in moved},
    moved,
    memory.argument_size_in_bytes + memory.output_size_in_bytes,
  )


def trace(call: Callable[[], Any], names: set[str]) -> Trace:
  """Runs `call` under the profiler; reports the instructions in `names`."""
  options = jax.profiler.ProfileOptions()
  options.python_tracer_level = 0
  with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder, profiler_options=options):
      began = time.perf_counter()
      jax.block_until_ready(call())
      wall_s = time.perf_counter() - began
    (file,) = pathlib.Path(folder).rglob('*.xplane.pb')
    events = _events(jax.profiler.ProfileData.from_file(str(file)).planes)
    return Trace(wall_s, *count(events, names))


def count(
  events: Iterable[Any], names: set[str]
) -> tuple[dict[str, float], dict[str, int]]:
  """Seconds and executions of the instructions in `names`.

  Args:
    events: of the profiler: name, duration_ns, stats.
    names: of the instructions.
  """
  seconds: dict[str, float] = collections.defaultdict(float)
  kernels = collections.defaultdict(collections.Counter)
  for event in events:
    if name := _instruction(event, names):
      seconds[name] += event.duration_ns / 1e9
      kernels[name][event.name] += 1
  executions = {name: min(runs.values()) for name, runs in kernels.items()}
  return dict(seconds), executions


def _events(planes: Iterable[Any]) -> Iterator[Any]:
  """The events of what ran on GPUs if the trace has any, else on the host.

  A GPU's plane may list its kernels twice: by stream, and by instruction.
  """
  planes = [*planes]
  lines = lambda of: [line for plane in of for line in plane.lines]
  devices = lines(p for p in planes if p.name.startswith('/device:GPU'))
  streams = [line for line in devices if line.name.startswith('Stream')]
  for line in streams or devices or lines(planes):
    yield from line.events


def _instruction(event: Any, names: set[str]) -> str | None:
  """The instruction of an event; a kernel's own name may be another one's."""
  stats = {key: value for key, value in event.stats if key == 'hlo_op'}
  name = stats.get('hlo_op', event.name)
  return name if name in names else None
