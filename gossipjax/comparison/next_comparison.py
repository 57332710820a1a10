"""The command of a comparison that may decide what another could not."""

import itertools
import shlex
from collections.abc import Iterator

from gossipjax.comparison.answer import Answer
from gossipjax.comparison.never_exchanged import SEVERAL

IN_PYTHON = 'gossipjax.compare'  # The `command` of a comparison from Python.


def command(answer: Answer) -> str:
  """Repeats the command with more seeds or steps; '' if neither is needed, or
  if the target is the score of a reference that learned nothing."""
  unlearned = answer.share and answer.reference.unlearned
  due = {} if unlearned else dict(_due(answer))
  if not due:
    return ''
  if answer.command == IN_PYTHON:
    return f'{IN_PYTHON}(..., {", ".join(f"{k}={v}" for k, v in due.items())})'
  flags = ' '.join(f'--config.{k}={_quoted(v)}' for k, v in due.items())
  if not answer.command:
    return f'the same command with {flags}'
  replaced = [*due, 'seed'] if 'seeds' in due else due
  prefixes = tuple(f'--config.{key}=' for key in replaced)
  words = shlex.split(answer.command)
  kept = [word for word in words if not word.startswith(prefixes)]
  return f'{shlex.join(kept)} {flags}'


def _due(answer: Answer) -> Iterator[tuple[str, int | tuple[int, ...]]]:
  if not all(row.at_once for row in answer.undecided) and not answer.own_seeds:
    yield 'seeds', _more_seeds(answer.seeds)
  # --config.steps does not change the steps that a variant sets itself.
  longer = [2 * answer.steps] * any(
    row.planned == answer.steps for row in answer.may_overtake
  )
  periods = [r.period for r in answer.rows if r.planned == answer.steps]
  longer += [SEVERAL * period for period in periods if period]
  if longer:
    yield 'steps', max(longer)


def useless(answer: Answer) -> list[str]:
  """Sentences about runs that show nothing of their strategy."""
  return _learned_nothing(answer) + _never_exchanged(answer)


def _learned_nothing(answer: Answer) -> list[str]:
  """A sentence for each sign by which runs show that they learned nothing."""
  found = []
  for why in dict.fromkeys(r.unlearned for r in answer.rows if r.unlearned):
    names = ', '.join(r.name for r in answer.rows if r.unlearned == why)
    found.append(
      f'{names} learned little or nothing: {why}; '
      'try a lower learning rate, or more steps'
    )
  return found


def _never_exchanged(answer: Answer) -> list[str]:
  """A sentence for each run that never exchanged, with what it needs."""
  found = []
  for row in answer.rows:
    if row.period:
      found.append(
        f'{row.name} never exchanged in this run: its period of {row.period} '
        f'steps is longer than the {row.planned} steps, so give it a shorter '
        f'one or at least {SEVERAL * row.period} steps'
      )
    elif row.period == 0:
      found.append(f'{row.name} sent nothing, so its workers trained alone')
  return found


def _more_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
  """Twice as many seeds, at least 3: these, and the next unused ones."""
  missing = max(3, 2 * len(seeds)) - len(seeds)
  others = (seed for seed in itertools.count(min(seeds)) if seed not in seeds)
  return *seeds, *itertools.islice(others, missing)


def _quoted(value: int | tuple[int, ...]) -> str:
  return f"'{value}'" if isinstance(value, tuple) else str(value)
