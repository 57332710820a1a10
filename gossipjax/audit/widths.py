"""Finds the bits that an entry of each compiled collective has in the source.

A compiler may widen entries, so that two collectives that differ in their bits
in the source program are alike in the compiled one. It then remains unknown
which is which, also between two branches, but their numbers are known.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from gossipjax.audit import hlo
from gossipjax.audit.collective_bytes import Transfer, transfers
from gossipjax.audit.routes import Route

# The number of times that each computation has each transfer, in source bits.
Own = dict[str, Counter[Transfer]]
Key = tuple[str, int, Route | None]  # None stands for all routes.
Place = tuple[str, Transfer]  # A computation, and one of its transfers.


def choices(program: hlo.Module, source: hlo.Module, most: int) -> list[Own]:
  """All ways to assign the bits in the source to the transfers of a program.

  Transfers of the same kind, size and route share the widths that the source
  has for them. No width is assigned more often than the source has it, unless
  the compiler repeats transfers.

  Args:
    program: as compiled.
    source: before compilation.
    most: the limit of the list; if there are more ways, it has `most` + 1.
  """
  written = _written(source)
  places: dict[Key, Counter[Place]] = {}
  for name, body in program.computations.items():
    for t in (t for i in body for t in transfers(program, i)):
      key = t.kind, t.array.size, t.route
      key = key if key in written else (*key[:2], None)
      places.setdefault(key, Counter())[name, t] += 1
  ways = [
    [*itertools.islice(_of_key(counter, written.get(key, Counter())), most + 1)]
    for key, counter in places.items()
  ]
  return [
    _own(itertools.chain(*parts))
    for parts in itertools.islice(itertools.product(*ways), most + 1)
  ]


def _written(source: hlo.Module) -> dict[Key, Counter[int]]:
  """How often the source has each width, by key and for all routes together."""

  @functools.cache
  def of_computation(name: str) -> Counter[Transfer]:
    total: Counter[Transfer] = Counter()
    for i in source.computations.get(name, ()):
      total.update(transfers(source, i))
      for called in itertools.chain(*i.calls.values()):
        total.update(of_computation(called))
    return total

  found: dict[Key, Counter[int]] = {}
  for t, times in of_computation(source.entry).items():
    for route in (t.route, None):
      key = t.kind, t.array.size, route
      found.setdefault(key, Counter())[t.bits] += times
  return found


def _of_key(
  places: Counter[Place], written: Counter[int]
) -> Iterator[list[Place]]:
  """Yields the ways to assign the source's widths to transfers of one key."""
  total = places.total()
  if total > written.total():  # The compiler has unrolled a loop, perhaps.
    written = Counter(dict.fromkeys(written, total))
  return _shared(list(places.items()), written)


def _shared(
  places: Sequence[tuple[Place, int]], left: Counter[int]
) -> Iterator[list[Place]]:
  """As `_of_key`; `left` says how often each width can still be assigned."""
  if not places:
    yield []
    return
  ((name, transfer), count), *others = places
  fitting = [b for b in left if b <= transfer.array.bits]
  fitting = fitting or [transfer.array.bits]
  for bits in itertools.combinations_with_replacement(fitting, count):
    used = Counter(bits)
    if all(used[b] <= left[b] for b in used if b in left):
      assigned = [(name, transfer._replace(bits=b)) for b in bits]
      rest = Counter({b: n - used[b] for b, n in left.items()})
      for further in _shared(others, rest):
        yield assigned + further


def _own(places: Iterator[Place]) -> Own:
  own: Own = {}
  for name, transfer in places:
    own.setdefault(name, Counter())[transfer] += 1
  return own
