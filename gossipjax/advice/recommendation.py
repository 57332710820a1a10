"""What to use, and why, in words: by what was tried, else by what is known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gossipjax import network
from gossipjax.advice.choice import GAIN, chosen, dense_of, too_early
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
  """What pilots recommend, in sentences.

  Args:
    ranks: of the last complete round, the least expected seconds first.
    full: steps of the config.
    again: the command, with more minutes.
    risks: by name, that it never gets where all-reduce does.
  """
  first, dense, name = ranks[0], dense_of(ranks), chosen(ranks)
  used = first if name != DENSE else dense
  how = (
    f'forecast from pilots of {first.steps} of {full} steps on validation data'
  )
  passed = _passed(used, ranks, risks)
  more = f' Longer pilots tell more: {again}'
  if too_early(ranks):
    return _early(dense, first, full) + more
  if used is not dense:
    said = (
      f'Use {_named(first)}: {_seconds(first)} to what all-reduce reaches, '
      f'which takes {_seconds(dense)}; {how}.{_expected(first, risks)}{passed}'
    )
    sure = first.high < dense.low
    return said if sure else f'{said} These intervals overlap.{more}'
  if first is dense:
    after = [r for r in ranks if r.seconds > dense.seconds][:1]
    told = ''.join(f' The next is {_named(r)}: {_seconds(r)}.' for r in after)
    nothing = 'nothing else' if passed else 'nothing'
    return (
      f'Use all-reduce: {nothing} is expected before its {_seconds(dense)}; '
      f'{how}.{passed or told}'
    )
  return (
    f'Use all-reduce: {_named(first)} gains less than {100 * GAIN:.0f} %, '
    f'{_seconds(first)} to what all-reduce reaches in {_seconds(dense)}; '
    f'{how}.{_expected(first, risks)}{more}'
  )


def _passed(
  used: Rank, ranks: Sequence[Rank], risks: Mapping[str, Risk]
) -> str:
  """Who is forecast to be quicker, and why it is not taken all the same."""
  quicker = [r for r in ranks if r is not used and r.seconds < used.seconds]
  return ''.join(
    f' {_named(r)} is forecast {_seconds(r)}, but '
    f'{risks[r.candidate.name]}: {_time(r.expected)} are expected.'
    for r in quicker[:SHOWN]
    if r.candidate.name in risks
  )


def _expected(rank: Rank, risks: Mapping[str, Risk]) -> str:
  """What to expect of it with its risk, where that is more."""
  risk = risks.get(rank.candidate.name)
  if risk is None or rank.expected <= 1.01 * rank.seconds:
    return ''
  return f' But {risk}: {_time(rank.expected)} are expected.'


def _early(dense: Rank, first: Rank, full: int) -> str:
  ahead = '' if first is dense else f', here {_named(first)},'
  return (
    f'Use all-reduce: its pilots of {dense.steps} of {full} steps lost '
    f'{100 * dense.learnt:.0f} % of the loss that they began with, and who is '
    f'ahead so early{ahead} often never gets where all-reduce does.'
  )


def _named(rank: Rank) -> str:
  return f'{rank.candidate.name} at learning rate {rank.candidate.rate:.3g}'


def _seconds(rank: Rank) -> str:
  low, high = (_time(s) for s in (rank.low, rank.high))
  return f'{_time(rank.seconds)} ({low} to {high})'


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
      'seconds to the target (forecast)': _time(rank.seconds),
      'from': _time(rank.low),
      'to': _time(rank.high),
      'never got there': _missed(risks.get(rank.candidate.name)),
      'expected with that': _time(rank.expected),
      'against all-reduce': _ratio(dense, rank),
      f'best {scores.label(metric).replace("held-out", "validation")}': (
        scores.told(metric, rank.score)
      ),
      'pilots': f'{rank.seeds} of {rank.steps} steps',
    }
    for rank in ranks
  ]


def _missed(risk: Risk | None) -> str:
  if risk is None:
    return ''
  return f'{risk.missed} of {risk.of}' if risk.of else 'not known'


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
  """What runs of the same model recommend, or that there is no evidence.

  Args:
    found: forecasts of a step, all-reduce first.
    near: runs of the same task and model with about as many workers.
    link: that is asked about.
    again: the command that tries.
  """
  steps = {k.strategy: k.steps for k in near if not math.isnan(k.steps)}
  dense = found[0].name  # A variant of all-reduce may have any name.
  steps[dense] = 1.0
  cost = {
    f.name: steps[f.name] * f.step_s(link) for f in found if f.name in steps
  }
  best = min(cost, key=lambda name: cost[name])
  if len(cost) == 1:
    return f'No evidence: all-reduce until you have run\n\n    {again}\n'
  share = cost[best] / steps[best] / cost[dense]
  if best == dense:
    return (
      f'Use all-reduce: in {near[0].table} ({near[0].place}) no strategy got '
      'to its score in so few steps that it would be before it on this link.'
    )
  return (
    f'Use {best}: in {near[0].table} ({near[0].place}) it took '
    f'{steps[best]:.3g} times the steps of all-reduce to the target, and its '
    f'steps here take {share:.3g} of the time: '
    f'{cost[dense] / cost[best]:.3g} times as fast (forecast).'
  )
