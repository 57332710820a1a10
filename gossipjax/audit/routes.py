"""Finds which workers a collective joins, in every notation that XLA uses.

  source_target_pairs={{0,1},{1,0}}                of a permute
  replica_groups={{0,1},{2,3}}                     groups; {} for all
  replica_groups=[2,4]<=[4,2]T(1,0)                numbers, transposed and cut
  replica_groups=mesh['a'=2,'b'=4] {'b'}           along axes of a mesh
  replica_groups=mesh['a'=8] {'a':(2)2}            along a part of an axis
  mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'a'}    other devices than 0, 1, 2...

https://openxla.org/xla/operation_semantics
"""

import itertools
import math
import re

import numpy as np

from gossipjax.audit.hlo import Instruction
from gossipjax.errors import UserError

# Groups of workers, () for one of all; or (source, target) pairs.
Route = tuple[tuple[int, ...], ...]

_LISTED = re.compile(
  r'(?:replica_groups|source_target_pairs)=\{((?:\{[\d,]*\},?)*)\}'
)
_IOTA = r'\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?'
_NUMBERED = re.compile(f'replica_groups={_IOTA}')
_MESH = re.compile(
  r'replica_groups=mesh\[([^]]*)\]'
  r'(?:, device_ids=\(((?:[^()]|\([^()]*\))*)\))? \{([^}]*)\}'
)
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_PART = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")


def route(instruction: Instruction) -> Route:
  """The groups of a collective, or the pairs of a permute.

  Raises:
    UserError: the groups are written in an unknown notation.
  """
  text = instruction.attributes
  if match := _LISTED.search(text):
    return tuple(map(_numbers, re.findall(r'\{([\d,]+)\}', match[1])))
  if match := _NUMBERED.search(text):
    shape, dimensions, order = map(_numbers, match.groups())
    return _rows(_iota(dimensions, order).reshape(shape))
  if match := _MESH.search(text):
    return _along(*match.groups())
  if 'replica_groups=' in text:
    raise UserError(f'audit cannot read the replica_groups in: {text}')
  return ()


def _numbers(text: str | None) -> tuple[int, ...]:
  return tuple(map(int, re.findall(r'\d+', text or '')))


def _iota(dimensions: tuple[int, ...], order: tuple[int, ...]) -> np.ndarray:
  ids = np.arange(math.prod(dimensions)).reshape(dimensions)
  return ids.transpose(order or None)


def _rows(ids: np.ndarray) -> Route:
  return tuple(map(tuple, ids.tolist()))


def _along(mesh: str, devices: str | None, axes: str) -> Route:
  """The groups along axes of a mesh, or along parts of axes.

  Args:
    mesh: names and sizes of its axes.
    devices: the numbers of its devices, if they are not in order.
    axes: their names, or parts of them. On an axis of 8, the part (2)2 cuts the
      axis in 2, and each half in 2 again: its stride is 8 / 4.
  """
  sizes = [(name, int(size)) for name, size in _AXIS.findall(mesh)]
  spans = [
    (name, int(before or 1), int(before or 1) * int(part or dict(sizes)[name]))
    for name, before, part in _PART.findall(axes)
  ]
  shape, grouped = [], []
  for name, size in sizes:
    limits = [ends for axis, *ends in spans if axis == name]
    edges = sorted({1, size, *itertools.chain(*limits)})
    for low, high in itertools.pairwise(edges):
      grouped += [len(shape)] * any(a <= low and high <= b for a, b in limits)
      shape.append(high // low)
  ids = _devices(devices, math.prod(shape)).reshape(shape)
  ungrouped = [i for i in range(len(shape)) if i not in grouped]
  members = math.prod(shape[i] for i in grouped)
  return _rows(ids.transpose([*ungrouped, *grouped]).reshape(-1, members))


def _devices(text: str | None, count: int) -> np.ndarray:
  """The numbers of a mesh's devices, i32[count]."""
  if text is None:
    return np.arange(count)
  if text.startswith('['):  # A shape, and how it is transposed.
    shape, _, order = text.partition('T')
    return _iota(_numbers(shape), _numbers(order)).ravel()
  return np.array(_numbers(text))
