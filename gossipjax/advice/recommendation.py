"""What to use, and why, in words: by what was tried, else by what is known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gossipjax import network
from gossipjax.advice import known_runs
from gossipjax.advice.choice import GAIN, chosen, dense_of, too_early, usable
from gossipjax.advice.forecast import Forecast
from gossipjax.advice.halving import DENSE, NEVER, Rank
from gossipjax.advice.known_runs import Known
from gossipjax.comparison import scores
from gossipjax.comparison.units import duration


def tried(
  ranks: Sequence[Rank],
  full: int,
  again: str,
  doubts: Mapping[str, Known] | None = None,
) -> str:
  """What pilots recommend, in sentences.

  Args:
    ranks: of the last complete round.
    full: steps of the config.
    again: the command, with more minutes.
    doubts: see `against`.
  """
  left, dense = usable(ranks, doubts), dense_of(ranks)
  first = left[0]
  how = (
    f'forecast from pilots of {first.steps} of {full} steps on validation data'
  )
  passed = ''.join(
    f' {_named(r)} was forecast {_seconds(r)}, but in {run.table} ({run.place})'
    ' it never got where all-reduce did.'
    for r in ranks[: ranks.index(first)]
    for run in [(doubts or {})[r.candidate.name]]
  )
  more = f' Longer pilots tell more: {again}'
  if too_early(ranks):
    return _early(dense, first, full) + more
  if chosen(ranks, doubts) != DENSE:
    said = (
      f'Use {_named(first)}: {_seconds(first)} to what all-reduce reaches, '
      f'which takes {_seconds(dense)}; {how}.{passed}'
    )
    sure = first.high < dense.low
    return said if sure else f'{said} These intervals overlap.{more}'
  if first is dense:
    after = left[1:2]
    told = ''.join(f' The next is {_named(r)}: {_seconds(r)}.' for r in after)
    nothing = 'nothing else' if passed else 'nothing'
    return (
      f'Use all-reduce: {nothing} was before its {_seconds(dense)}; {how}.'
      + (passed + told)
    )
  return (
    f'Use all-reduce: {_named(first)} gains less than {100 * GAIN:.0f} %, '
    f'{_seconds(first)} to what all-reduce reaches in {_seconds(dense)}; '
    f'{how}.{passed}{more}'
  )


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


def rows(ranks: Sequence[Rank], metric: str) -> list[dict[str, Any]]:
  """The table of what was tried, the quickest first."""
  dense = dense_of(ranks)
  return [
    {
      'strategy': rank.candidate.name,
      'learning rate': f'{rank.candidate.rate:.3g}',
      'seconds to the target (forecast)': _time(rank.seconds),
      'from': _time(rank.low),
      'to': _time(rank.high),
      'against all-reduce': _ratio(dense, rank),
      f'best {scores.label(metric).replace("held-out", "validation")}': (
        scores.told(metric, rank.score)
      ),
      'pilots': f'{rank.seeds} of {rank.steps} steps',
    }
    for rank in ranks
  ]


def _ratio(dense: Rank, rank: Rank) -> str:
  if rank is dense or NEVER in (rank.seconds, dense.seconds):
    return ''
  return f'{dense.seconds / rank.seconds:.3g} x'


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
      f'Use all-reduce: in {near[0].table} no strategy needs so few more steps '
      'that it would be faster on this link.'
    )
  return (
    f'Use {best}: in {near[0].table} ({near[0].place}) it took '
    f'{steps[best]:.3g} times the steps of all-reduce to the target, and its '
    f'steps here take {share:.3g} of the time: '
    f'{cost[dense] / cost[best]:.3g} times as fast (forecast).'
  )


def told(
  known: Sequence[Known], config: Mapping[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
  """What is known: a sentence about the distance, and a table.

  Runs that share neither task nor kind of model tell nothing of a strategy, so
  that only their places are named.
  """
  nearest = known_runs.nearest(known, config)
  if not nearest:
    return 'Known: nothing; no run is kept.', []
  task, model, workers = known_runs.identity(config)
  mine = (
    f'{model} on {task}, P = {workers}' if model else f'{task}, P = {workers}'
  )
  if known_runs.distance(nearest[0], config)[0] == known_runs.UNLIKE:
    places = '; '.join(dict.fromkeys(k.place for k in known))
    return (
      f'Known: no run of your model ({mine}), nor of one like it; kept runs '
      f'are of {places}'
    ), []
  head = (
    f'Known of your model ({mine})'
    if known_runs.is_near(nearest[0], config)
    else f'Known: no run of your model ({mine}); nearest: {nearest[0].place}'
  )
  table = [
    {
      'strategy': k.strategy,
      scores.label(k.score): scores.told(k.score, k.value),
      "all-reduce's": scores.told(k.score, k.dense),
      'steps to the target over its': _steps(k),
      'seeds': k.seeds,
      'from': k.table,
    }
    for k in nearest
  ]
  return head, table


def _steps(known: Known) -> str:
  if math.isnan(known.steps):
    return 'not kept'
  return 'never' if math.isinf(known.steps) else f'{known.steps:.3g}'
