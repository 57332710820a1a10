"""The recommendation and its reasons in words, with or without pilots."""

from collections.abc import Mapping, Sequence
from typing import Any

from gossipjax import network
from gossipjax.advice.choice import GAIN, chosen, dense_of
from gossipjax.advice.forecast import Forecast
from gossipjax.advice.halving import entering
from gossipjax.advice.ranking import DENSE, WORSE, Rank
from gossipjax.comparison import scores
from gossipjax.comparison.target_costs import NEVER
from gossipjax.comparison.targets import SHARE
from gossipjax.comparison.units import duration

SHOWN = 2  # Alternatives that are named when all-reduce is recommended.


def tried(
  ranks: Sequence[Rank], full: int, more: str, share: float = SHARE
) -> str:
  """Returns the recommendation after pilots, in sentences.

  Args:
    ranks: of the last complete round, sorted by expected seconds.
    full: steps of the config.
    more: the command that writes a config for `run`; '' if this one did.
    share: the fraction of all-reduce's best score that is the target.
  """
  first, dense, name = ranks[0], dense_of(ranks), chosen(ranks)
  if name != DENSE:
    text = (
      f'Use {_named(first)}. Expected time to the target: '
      f'{_time(first.expected)}; all-reduce: {_time(dense.expected)}. '
      f'{_why(first)}'
    )
  elif first is not dense:
    text = (
      f'Use {_named(dense)}. {_named(first)} is expected to gain less than '
      f'{100 * GAIN:.0f} %. {_why(first)}'
    )
  else:
    others = (
      f' {_named(rank)}: expected time {_time(rank.expected)}. {_why(rank)}'
      for rank in ranks[1 : 1 + SHOWN]
    )
    text = (
      f'Use {_named(dense)}: of the strategies with the longest pilots, none '
      f'is expected to reach the target sooner than in its '
      f'{_time(dense.expected)}.{"".join(others)}'
    )
  text += (
    f' Learning rates are the best of pilots of {first.steps} of {full} steps, '
    f'on validation data. The target is {100 * (1 - share):.3g} % worse than '
    'the best score of all-reduce; config.target_share sets another'
  )
  text += '.' if first.steps == full else _scaled()
  if more:
    text += f' To train these strategies at full length, begin with: {more}'
  return text


def _scaled() -> str:
  goals = ', '.join(f'{100 * worse:.0f}' for worse in WORSE)
  return (
    '; a time to it is the mean of the times at which pilots reach scores that '
    f'are {goals} % worse than the best of all-reduce in its pilots, scaled to '
    'all steps. Pilots do not show which strategies reach the target.'
  )


def left_out(
  rounds: Sequence[Sequence[Rank]],
  planned: Sequence[str],
  untried: Mapping[str, Sequence[str]],
) -> str:
  """Names the strategies that are not in the last round; '' if there are none.

  Args:
    rounds: the ranks of each round.
    planned: the strategies of the first round.
    untried: the strategies without a pilot, by the reason.
  """
  last = {rank.candidate.name: rank for ranks in rounds for rank in ranks}
  names = [[rank.candidate.name for rank in ranks] for ranks in rounds]
  entered = [[c.name for c in entering(ranks)] for ranks in rounds[:-1]]
  diverged = [
    name
    for started, ranked in zip([planned, *entered], names, strict=True)
    for name in started
    if name not in ranked
  ]
  dropped = [
    f'{name} ({rank.steps} steps, {_time(rank.expected)} expected)'
    for name, rank in last.items()
    if name not in names[-1] and name not in diverged
  ]
  groups = {
    'Dropped after shorter, less reliable pilots': dropped,
    'Diverged': diverged,
    **untried,
  }
  return ' '.join(
    f'{label}: {", ".join(names)}.' for label, names in groups.items() if names
  )


def _why(rank: Rank) -> str:
  """States the time if the target is reached or missed, and the risk."""
  if rank.risk is None:
    end = ', or never got there' if rank.high == NEVER else ''
    return (
      f'Its pilots took {_time(rank.low)}{end or " to " + _time(rank.high)}.'
    )
  if rank.misses:
    return (
      'Its pilots do not get beyond the first score of all-reduce, so it is '
      'taken to miss the target.'
    )
  return (
    f'If it reaches the target: {_time(rank.low)}. If not, all-reduce is '
    f'trained afterwards: {_time(rank.high)} together. {rank.risk}'
  )


def _named(rank: Rank) -> str:
  name = 'all-reduce' if rank.candidate.name == DENSE else rank.candidate.name
  return f'{name} at learning rate {rank.candidate.rate:.3g}'


def _time(seconds: float) -> str:
  return 'never' if seconds == NEVER else duration(seconds)


def rows(ranks: Sequence[Rank], metric: str) -> list[dict[str, Any]]:
  """Returns a table row for each tried strategy, in the order of `ranks`.

  Without risks, the pilots were full-length, and the interval is that of seeds.
  """
  risks = any(rank.risk is not None for rank in ranks)
  low, high = 'time if the target is reached', 'time if all-reduce follows'
  if not risks:
    low, high = 'from', 'to'
  dense = dense_of(ranks)
  return [
    {
      'strategy': rank.candidate.name,
      'learning rate': f'{rank.candidate.rate:.3g}',
      'expected time to the target': _time(rank.expected),
      low: '' if (rank is dense and risks) or rank.misses else _time(rank.low),
      high: '' if rank is dense and risks else _time(rank.high),
      'misses the target': _risk(rank),
      'time of all steps': _time(rank.whole),
      'times as fast as all-reduce': _ratio(dense, rank),
      f'best {scores.validation(metric)}': scores.as_text(metric, rank.score),
      'pilots': f'{rank.seeds} x {rank.steps} steps',
    }
    for rank in ranks
  ]


def _risk(rank: Rank) -> str:
  if rank.risk is None:
    return ''
  return 'its pilots do' if rank.misses else rank.risk.as_text


def _ratio(dense: Rank, rank: Rank) -> str:
  if rank is dense or NEVER in (rank.expected, dense.expected):
    return ''
  return f'{dense.expected / rank.expected:.3g}'


def by_known(found: Sequence[Forecast], link: network.Link) -> str:
  """Says what kept trainings of the same kind recommend; '' without any.

  Args:
    found: forecasts of a step, all-reduce first.
    link: the link that the user asks about.
  """
  dense, *others = found
  known = [f for f in others if f.risk.of_the_same]
  if not known:
    return ''
  best = min(known, key=lambda f: f.expected(dense, link))
  share = best.expected(dense, link)
  if share < 1 - GAIN:
    return (
      f'Use {best.name}. Expected time to the target: {share:.2g} of that of '
      f'all-reduce. {best.risk}'
    )
  return (
    'Use all-reduce. Of the strategies with a known training of this kind, the '
    f'best is {best.name}; its expected time to the target is {share:.2g} of '
    f'that of all-reduce. {best.risk}'
  )
