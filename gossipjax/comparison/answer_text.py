"""The answer in words: what every screen shows first."""

import shlex
from collections.abc import Sequence

from gossipjax.comparison import scores
from gossipjax.comparison.answer import Answer
from gossipjax.comparison.target_costs import Row
from gossipjax.comparison.units import duration, size
from gossipjax.results.total_time import MEASURED, VIRTUAL

IN_PYTHON = 'gossipjax.compare'  # The command of a comparison from there.
SEEDS = "--config.seeds='({})'"


def sentences(answer: Answer) -> list[str]:
  """What is said above the table: who is first, how sure that is, its price.

  None of them has a line break; `command` is the one to be run.
  """
  first = answer.first
  if first is None:
    return [_nobody(answer), *_too_short(answer), basis(answer)]
  return [
    _who(answer, first),
    *_doubt(answer),
    _price(answer, first),
    *_never(answer),
    *_too_short(answer),
    basis(answer),
  ]


def command(answer: Answer) -> str:
  """The command of the same comparison with more seeds; '' if none is due."""
  if not answer.unsure:
    return ''
  more = range(max(3, 2 * len(answer.seeds)))
  flag = SEEDS.format(', '.join(str(min(answer.seeds) + i) for i in more))
  if answer.command == IN_PYTHON:
    return f'{IN_PYTHON}(..., seeds={tuple(more)})'
  if not answer.command:
    return f'the same command with {flag}'
  words = shlex.split(answer.command)
  kept = [word for word in words if not word.startswith('--config.seeds=')]
  return f'{shlex.join(kept)} {flag}'


def goal(answer: Answer) -> str:
  """'held-out accuracy 92.0 %'."""
  told = scores.told(answer.metric, answer.target)
  return f'{scores.label(answer.metric)} {told}'


def place(answer: Answer) -> str:
  """Where the seconds pass: ' on 1gbe', or in virtual time."""
  places = {VIRTUAL: ' in virtual time', MEASURED: ' on the network it ran on'}
  return places.get(answer.clock, f' on {answer.link}')


def _who(answer: Answer, first: Row) -> str:
  """Who is first, beside all-reduce or, if it is that itself, the next."""
  mine, dense = seconds(first), answer.reference
  if len(answer.rows) == 1:
    return f'{first.name} is at {goal(answer)}{place(answer)} in {mine}.'
  head = f'First to {goal(answer)}{place(answer)}: {first.name}, in {mine}'
  if dense.arrives and dense is not first:
    return (
      f'{head}; {dense.name} takes {seconds(dense)}, '
      f'{_times(dense, first)} as long{_elsewhere(answer, dense, first)}.'
    )
  if not answer.rows[1].arrives:
    return f'{head}; no other run gets there.'
  after = answer.rows[1]
  return (
    f'{head}; the next is {after.name} with {seconds(after)}, '
    f'{_times(after, first)} as long{_elsewhere(answer, after, first)}.'
  )


def _elsewhere(answer: Answer, slow: Row, fast: Row) -> str:
  """Of one seed, how much longer to the easier target."""
  if len(answer.seeds) > 1 or slow.easier == float('inf'):
    return ''
  target = scores.told(answer.metric, answer.easier)
  return f' ({slow.easier / fast.easier:.3g} times as long to {target})'


def _times(slow: Row, fast: Row) -> str:
  return f'{slow.total.mean / fast.total.mean:.3g} times'


def _named(row: Row) -> str:
  return f'{row.name} ({seconds(row)})'


def seconds(row: Row) -> str:
  mean, sd = row.total
  told = duration(mean)
  return told if sd is None else told.replace(' s', f' ± {sd:.2g} s')


def _doubt(answer: Answer) -> list[str]:
  if not answer.unsure:
    return []
  seeds = len(answer.seeds)
  who = 'One seed' if seeds == 1 else f'{seeds} seeds'
  others = ', '.join(
    _named(row) if row.arrives else f'{row.name} (at best {best(answer, row)})'
    for row in answer.unsure
  )
  first = answer.rows[0].name
  return [f'{who} cannot tell {first} from {others}; this may:']


def _price(answer: Answer, first: Row) -> str:
  dense = answer.reference
  sent = f'{first.name} sends {size(first.bytes_sent)} per worker until then'
  mine = f'and its best is {best(answer, first)}'
  if dense is first:
    return f'{sent}, {mine}.'
  theirs = f' ({dense.name}: {size(dense.bytes_sent)})' if dense.arrives else ''
  return f'{sent}{theirs}, {mine} ({dense.name}: {best(answer, dense)}).'


def best(answer: Answer, row: Row) -> str:
  if row.score is None:
    return 'nothing'
  return scores.told(answer.metric, *row.score)


def _never(answer: Answer) -> list[str]:
  if not answer.never:
    return []
  told = ', '.join(f'{r.name} ({_why(answer, r)})' for r in answer.never)
  return [f'Never there: {told}.']


def _too_short(answer: Answer) -> list[str]:
  """Who does not get there, but was getting better until the training ended."""
  late = [row.name for row in answer.never if row.improving]
  if not late:
    return []
  return [
    f'Too short to tell: {", ".join(late)} still improved at the last '
    'evaluation; with more config.steps the answer may be another.'
  ]


def _why(answer: Answer, row: Row) -> str:
  if row.score is None:
    return 'diverged'
  missed = sum(seconds == float('inf') for seconds in row.each)
  seeds = f', {missed} of {len(row.each)} seeds' if len(row.each) > 1 else ''
  return f'at best {best(answer, row)}{seeds}'


def _nobody(answer: Answer) -> str:
  told = ', '.join(f'{r.name} ({_why(answer, r)})' for r in answer.rows)
  return f'Nobody gets to {goal(answer)}: {told}.'


def basis(answer: Answer) -> str:
  """Where target and seconds come from."""
  target = (
    "The target is the config's."
    if answer.given
    else f'The target is 99 % of the best of {answer.dense}'
    f'{", of its worst seed" if answer.seeds[1:] else ""}; config.target sets '
    'another.'
  )
  if answer.clock == VIRTUAL:
    return f'{target} Virtual seconds are modelled, waiting included.'
  if answer.clock == MEASURED:
    return f'{target} Seconds, computing and communication, are measured.'
  shared = (
    f' and divided by the {answer.sharing} workers that share it'
    if answer.sharing > 1
    else ''
  )
  return (
    f'{target} Seconds are computing, measured on this machine{shared}, plus '
    f'communication, modelled for {answer.link}.'
  )


def paragraphs(answer: Answer) -> Sequence[str]:
  """The sentences as plain text: what is due to be run has its own line."""
  due = command(answer)
  told = sentences(answer)
  if not due:
    return [' '.join(told)]
  cut = 2  # Who is first, and the doubt.
  return [' '.join(told[:cut]), f'    {due}', ' '.join(told[cut:])]
