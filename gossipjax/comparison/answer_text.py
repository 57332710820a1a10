"""The answer in words: what every screen shows first."""

from collections.abc import Sequence

from gossipjax.comparison import next_comparison, scores
from gossipjax.comparison.answer import Answer
from gossipjax.comparison.answer_basis import basis
from gossipjax.comparison.certainty import NOISE
from gossipjax.comparison.target_costs import Row, common, means
from gossipjax.comparison.units import deviation, duration, size
from gossipjax.results.total_time import MEASURED, VIRTUAL


def sentences(answer: Answer) -> list[str]:
  """Returns the sentences above the table, each without a line break."""
  if (first := answer.first) is None:
    return [_nobody(answer), *_doubt(answer), basis(answer)]
  return [
    _leader(answer, first),
    *_doubt(answer),
    *_alike(answer, first),
    _price(answer, first),
    *_never(answer),
    basis(answer),
  ]


def goal(answer: Answer) -> str:
  """'held-out accuracy 92.0 %'."""
  value = scores.as_text(answer.metric, answer.target)
  return f'{scores.label(answer.metric)} {value}'


def place(answer: Answer) -> str:
  """Where the seconds pass: ' on 1gbe', or in virtual time."""
  places = {VIRTUAL: ' in virtual time', MEASURED: ' on the network it ran on'}
  return places.get(answer.clock, f' on {answer.link}')


def _leader(answer: Answer, first: Row) -> str:
  """Names the first run and, to compare, all-reduce or else the next run."""
  first_time, dense = time(first), answer.reference
  if len(answer.rows) == 1:
    return f'{first.name} is at {goal(answer)}{place(answer)} in {first_time}.'
  so_far = ' so far' if answer.may_overtake else ''
  target = f'{goal(answer)}{place(answer)}'
  head = f'First{so_far} to {target}: {first.name}, in {first_time}'
  if dense.arrives and dense is not first:
    longer = _longer(answer, dense, first)
    return f'{head}; {dense.name} takes {time(dense)}{longer}.'
  if not answer.rows[1].arrives:
    with_all = ' with all its seeds' * (len(answer.seeds) > 1)
    return f'{head}; no other run gets there{with_all}.'
  second = answer.rows[1]
  longer = _longer(answer, second, first)
  return f'{head}; the next is {second.name} with {time(second)}{longer}.'


def at_most(row: Row) -> str:
  return 'at most ' * row.at_once  # It may have reached it earlier.


def time(row: Row) -> str:
  return at_most(row) + seconds(row)


def _elsewhere(answer: Answer, slow: Row, fast: Row) -> str:
  """The ratio of times to the easier target, if at most one seed is common."""
  slow_s, fast_s = means('easier', slow, fast)
  if len(common(slow, fast)) > 1 or slow_s == float('inf') or not fast_s:
    return ''
  target = scores.as_text(answer.metric, answer.easier)
  return f' ({slow_s / fast_s:.3g} times as long to {target})'


def _longer(answer: Answer, slow: Row, fast: Row) -> str:
  """', 2 times as long'; two upper bounds have no ratio, nor has 0 s."""
  slow_s, fast_s = means('each', slow, fast)
  if (slow.at_once and fast.at_once) or not fast_s:
    return ''
  bound = 'at least ' * fast.at_once + 'at most ' * slow.at_once
  ratio = f', {bound}{slow_s / fast_s:.3g} times as long'
  return ratio + _elsewhere(answer, slow, fast)


def seconds(row: Row) -> str:
  mean, sd = row.total
  text = duration(mean)
  return text if sd is None else text.replace(' s', f' ± {deviation(sd)} s')


def _doubt(answer: Answer) -> list[str]:
  """What few seeds, steps or evaluations leave open; announces a command."""
  doubts = next_comparison.useless(answer)
  doubts += _too_few(answer) + _too_short(answer) + _too_rare(answer)
  hint = ' To decide, run:' if next_comparison.command(answer) else ''
  return [f'{"; ".join(doubts)}.{hint}'] if doubts else []


def _alike(answer: Answer, first: Row) -> list[str]:
  if not answer.within_noise:
    return []
  names = ', '.join(row.name for row in answer.within_noise)
  are = 'are' if len(answer.within_noise) > 1 else 'is'
  return [
    f'{names} {are} as fast as {first.name} within noise: measured seconds of '
    f'computing vary by {100 * NOISE:.0f} %.'
  ]


def _too_few(answer: Answer) -> list[str]:
  if not (unsure := [row for row in answer.undecided if not row.at_once]):
    return []
  seeds = min(len(common(row, answer.rows[0])) for row in unsure)
  few = {0: 'Without a common seed one', 1: 'One seed'}
  others = ', '.join(
    f'{r.name} ({seconds(r) if r.arrives else "at best " + best(answer, r)})'
    for r in unsure
  )
  hint = '; set config.seeds and no seed of a variant' * answer.own_seeds
  subject = few.get(seeds, f'{seeds} seeds')
  return [f'{subject} cannot tell {answer.rows[0].name} from {others}{hint}']


def _too_short(answer: Answer) -> list[str]:
  doubts = []
  for steps in dict.fromkeys(row.planned for row in answer.improving):
    names = ', '.join(r.name for r in answer.improving if r.planned == steps)
    names += ' get' if ', ' in names else ' gets'
    hint = '' if steps == answer.steps else '; raise the steps of that variant'
    doubts.append(
      f'{steps} steps are too few to tell when {names} there (the last score '
      f'is the best){hint}'
    )
  return doubts


def _too_rare(answer: Answer) -> list[str]:
  rows = answer.first, *answer.undecided
  names = ', '.join(row.name for row in rows if row and row.at_once)
  what = 'who is first' if any(r.at_once for r in answer.undecided) else 'when'
  some = ' with a seed' * (len(answer.seeds) > 1)
  text = f'{names} reached the target{some} at the first evaluation or before'
  hint = f'evaluate more often (eval_every) to tell {what}'
  return [f'{text}; {hint}'] if names else []


def _price(answer: Answer, first: Row) -> str:
  dense = answer.reference
  most = f'{at_most(first)}{size(first.bytes_sent)}'
  sent = f'{first.name} sends {most} per worker until then'
  score = f'and its best is {best(answer, first)}'
  if dense is first:
    return f'{sent}, {score}.'
  theirs = f' ({dense.name}: {size(dense.bytes_sent)})' if dense.arrives else ''
  return f'{sent}{theirs}, {score} ({dense.name}: {best(answer, dense)}).'


def best(answer: Answer, row: Row) -> str:
  if row.score is None:
    return 'diverged' if row.diverged else 'none'
  text = scores.as_text(answer.metric, *row.score)
  if not row.diverged:
    return text
  return f'{text}, {row.diverged} of {len(row.each)} seeds diverged'


def _never(answer: Answer) -> list[str]:
  if not answer.missed:
    return []
  every = ' with every seed' * (len(answer.seeds) > 1)
  return [f'Did not reach the target{every}: {_missed(answer, answer.missed)}.']


def _missed(answer: Answer, rows: Sequence[Row]) -> str:
  return ', '.join(f'{row.name} ({_why(answer, row)})' for row in rows)


def _why(answer: Answer, row: Row) -> str:
  if row.score is None and row.diverged:
    return best(answer, row)
  if row.score is None:
    return f'no score of its training{row.ending}'
  missed, of = [*row.each.values()].count(float('inf')), len(row.each)
  seeds = f', {missed} of {of} seeds missed it' * (of > 1)
  return f'at best {best(answer, row)}{seeds}{row.ending}'


def _nobody(answer: Answer) -> str:
  return f'No run reached {goal(answer)}: {_missed(answer, answer.rows)}.'


def paragraphs(answer: Answer) -> Sequence[str]:
  """The sentences as plain text; a command to run has a line of its own."""
  command, texts = next_comparison.command(answer), sentences(answer)
  if not command:
    return [' '.join(texts)]
  cut = 2  # The first run, or that there is none; the doubt.
  return [' '.join(texts[:cut]), f'    {command}', ' '.join(texts[cut:])]
