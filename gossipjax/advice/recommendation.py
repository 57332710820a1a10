"""What to use, and why, in words: by what was tried, else by what is known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gossipjax import network
from gossipjax.advice.choice import GAIN, chosen, dense_of
from gossipjax.advice.forecast import Forecast
from gossipjax.advice.known_runs import Known
from gossipjax.advice.ranking import DENSE, NEVER, Rank
from gossipjax.advice.risk import Risk
from gossipjax.comparison import scores
from gossipjax.comparison.units import duration

SHOWN = 2  # Strategies that are named beside the one to use.
NONE: Mapping[str, Risk] = {}


def tried(
  ranks: Sequence[Rank],
  full: int,
  again: str,
  risks: Mapping[str, Risk] = NONE,
) -> str:
  """What is recommended after pilots, in sentences.

  Args:
    ranks: of the last complete round, the least expected seconds first.
    full: steps of the config.
    again: the command that leaves a config for whole trainings.
    risks: by name, that it never gets where all-reduce does.
  """
  first, dense, name = ranks[0], dense_of(ranks), chosen(ranks)
  how = (
    f'Learning rates are the best of pilots of {first.steps} of {full} steps, '
    f'on validation data. Only whole trainings tell more: {again}'
  )
  if name != DENSE:
    return (
      f'Use {_named(first)}: {_time(first.expected)} are expected to what '
      f'all-reduce reaches in {_time(dense.expected)}, '
      f'{_outcomes(first)}.{_why(first, risks)} {how}'
    )
  if first is not dense:
    gains = f'{_named(first)} is expected to gain less than {100 * GAIN:.0f} %'
    return f'Use {_named(dense)}: {gains}.{_why(first, risks)} {how}'
  others = ''.join(_other(r, risks) for r in ranks[1 : 1 + SHOWN])
  return (
    f'Use {_named(dense)}: nothing is expected before its '
    f'{_time(dense.expected)}.{others} {how}'
  )


def _why(rank: Rank, risks: Mapping[str, Risk]) -> str:
  """What speaks for it and against it."""
  risk = risks.get(rank.candidate.name)
  return '' if risk is None else _said(risk)


def _said(risk: Risk) -> str:
  said = str(risk)
  return f' {said[0].upper()}{said[1:]}.'


def _outcomes(rank: Rank) -> str:
  return (
    f'{_time(rank.low)} if it gets there and {_time(rank.high)} if it does not'
  )


def _other(rank: Rank, risks: Mapping[str, Risk]) -> str:
  return (
    f' Of {_named(rank)} {_time(rank.expected)} are expected, '
    f'{_outcomes(rank)}.{_why(rank, risks)}'
  )


def _named(rank: Rank) -> str:
  name = 'all-reduce' if rank.candidate.name == DENSE else rank.candidate.name
  return f'{name} at learning rate {rank.candidate.rate:.3g}'


def _time(seconds: float) -> str:
  return 'never' if seconds == NEVER else duration(seconds)


def rows(
  ranks: Sequence[Rank], metric: str, risks: Mapping[str, Risk] = NONE
) -> list[dict[str, Any]]:
  """The table of what was tried, the least expected seconds first."""
  dense = dense_of(ranks)
  return [
    {
      'strategy': rank.candidate.name,
      'learning rate': f'{rank.candidate.rate:.3g}',
      'expected seconds to the target': _time(rank.expected),
      'from': _time(rank.low),
      'to': _time(rank.high),
      'may never get there': _share(risks.get(rank.candidate.name)),
      'all its steps': _time(rank.whole),
      'against all-reduce': _ratio(dense, rank),
      f'best {scores.label(metric).replace("held-out", "validation")}': (
        scores.told(metric, rank.score)
      ),
      'pilots': f'{rank.seeds} of {rank.steps} steps',
    }
    for rank in ranks
  ]


def _share(risk: Risk | None) -> str:
  return '' if risk is None else f'{100 * risk.share:.0f} %'


def _ratio(dense: Rank, rank: Rank) -> str:
  if rank is dense or NEVER in (rank.expected, dense.expected):
    return ''
  return f'{dense.expected / rank.expected:.3g} x'


def by_known(
  found: Sequence[Forecast],
  near: Sequence[Known],
  link: network.Link,
  again: str,
) -> str:
  """What whole trainings of the same model recommend, or that there are none.

  Args:
    found: forecasts of a step, all-reduce first.
    near: runs of the same training with about as many workers.
    link: that is asked about.
    again: the command that tries.
  """
  dense, *others = found
  whole = {k.strategy for k in near if not math.isnan(k.missed)}
  known = [f for f in others if f.name in whole]
  if not known:
    return f'No evidence: all-reduce until you have run\n\n    {again}\n'
  best = min(known, key=lambda f: f.expected(dense, link))
  share = best.expected(dense, link)
  of = f'{share:.2g} of the time of all-reduce to the target is expected'
  if share < 1 - GAIN:
    return f'Use {best.name}: {of}.{_said(best.risk)}'
  return f'Use all-reduce: of {best.name}, the next, {of}.{_said(best.risk)}'
