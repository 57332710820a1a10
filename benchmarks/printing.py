"""Times calls in turns, and prints the ratios of their times."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from gossipjax.profiling.interleaved_timing import Cost, time_in_turns


def compiled(stages: Mapping[str, tuple]) -> dict[str, Callable]:
  """Returns compiled calls of `(function, *arguments)`, by name.

  Arguments are passed to the compiled function, because the compiler would
  fold them if they were constants.
  """
  call = lambda function, *args: lambda f=jax.jit(function): f(*args)
  return {name: call(*stage) for name, stage in stages.items()}


def in_turns(
  ours: Iterator[Any], theirs: Iterator[Any], turns: int
) -> list[list[Cost]]:
  """Measures the turns of two iterators that do equal work for each item."""
  calls = {'ours': lambda: next(ours), 'theirs': lambda: next(theirs)}
  return list(time_in_turns(calls, turns).values())


def show(title: str, seconds: Mapping[str, float]) -> None:
  """Prints one line of seconds, relative to the first of them."""
  first, unit = next(iter(seconds.items()))
  print(
    f'{title}, over {first}: '
    + ', '.join(f'{name} {s / unit:.2f}' for name, s in seconds.items()),
    flush=True,
  )


def report(
  name: str,
  ours: Sequence[Cost],
  theirs: Sequence[Cost],
  over: str = 'the same by hand',
) -> None:
  """Prints the median of the ratios of each turn, quartiles in brackets."""
  parts = []
  for kind in Cost._fields:
    ratios = [
      getattr(a, kind) / getattr(b, kind)
      for a, b in zip(ours, theirs, strict=True)
    ]
    low, middle, high = statistics.quantiles(ratios, n=4)
    parts.append(f'{kind} {middle:.3f} ({low:.3f} to {high:.3f})')
  print(
    f'{name} over {over}, medians of {len(ours)} turns: {", ".join(parts)}',
    flush=True,
  )
