"""The command of a comparison that may decide what another could not."""

import itertools
import shlex
from collections.abc import Iterator

from gossipjax.comparison.answer import Answer

IN_PYTHON = 'gossipjax.compare'  # The command of a comparison from there.


def command(answer: Answer) -> str:
  """The same with more seeds or steps; '' if neither is due."""
  due = dict(_due(answer))
  if not due:
    return ''
  if answer.command == IN_PYTHON:
    return f'{IN_PYTHON}(..., {", ".join(f"{k}={v}" for k, v in due.items())})'
  flags = ' '.join(f'--config.{k}={_quoted(v)}' for k, v in due.items())
  if not answer.command:
    return f'the same command with {flags}'
  replaced = [*due, 'seed'] if 'seeds' in due else due
  old = tuple(f'--config.{key}=' for key in replaced)
  words = shlex.split(answer.command)
  kept = [word for word in words if not word.startswith(old)]
  return f'{shlex.join(kept)} {flags}'


def _due(answer: Answer) -> Iterator[tuple[str, int | tuple[int, ...]]]:
  if not all(row.at_once for row in answer.unsure):
    yield 'seeds', _more_seeds(answer.seeds)
  # The flag does not change steps that a variant has of its own.
  if any(row.planned == answer.steps for row in answer.hopeful):
    yield 'steps', 2 * answer.steps


def _more_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
  """Twice as many, at least 3: these, and the next others."""
  more = max(3, 2 * len(seeds)) - len(seeds)
  others = (seed for seed in itertools.count(min(seeds)) if seed not in seeds)
  return *seeds, *itertools.islice(others, more)


def _quoted(value: int | tuple[int, ...]) -> str:
  return f"'{value}'" if isinstance(value, tuple) else str(value)
