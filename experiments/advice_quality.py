"""What it costs to follow the advice of `advise`.

    python -m experiments.advice_quality

Compares, on fifteen workloads and three links, the strategy that `advise`
recommends with whole trainings of all strategies, each at its best rate. Regret
is the extra time to the target over the best strategy in hindsight. The rule of
`advise` was made on twelve workloads; it is judged on the other three.
"""

import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments.framework import (
  advice_cases,
  advice_trainings,
  claim,
  figures,
  intervals,
  notes,
  regret,
  training_claim,
)
from experiments.framework.advice_cases import PILOTS, RULES, TARGET, UNTOLD
from experiments.framework.advice_trainings import METHODS, WORKERS
from experiments.framework.regret import AdviceCase
from experiments.framework.result_store import ResultStore
from gossipjax.advice.known_file import SHARES
from gossipjax.comparison.targets import SHARE

CLAIM = claim.Claim(
  'advice_quality',
  'What it costs to follow the advice',
  'Following `advise` costs less than 10 % more seconds than the best of '
  f'{len(METHODS)} strategies in hindsight, and at most half of what the '
  'best of three simple rules costs',
  'nothing; the goals are ours',
)
SEEN = (
  'digits',
  'fashion-mlp',
  'text-small',
  'mnist-small',
  'text-short',
  'cifar-small',
  'mnist-mlp',
  'fashion-small',
  'cifar-mlp',
  'fashion-adam',
  'cifar-adam',
  'text-lstm',
)
UNSEEN = ('mnist-wide', 'fashion-cnn-adam', 'text-narrow')
WORKLOADS = (*SEEN, *UNSEEN)
# Seeds, and the most learning rates. With as few as on the seen workloads, too
# few cases of the unseen ones would be decided.
OF_SEEN, OF_UNSEEN = (3, 5), (12, 7)
LINKS = ('wan', '1gbe', '10gbe')
GOAL, HALF = 0.1, 0.5
SMALL = f'{RULES[0]}: regret is surely below {100 * GOAL:.0f} %'


def studies(scale: str) -> training_claim.Studies:
  """Studies by workload: each strategy at full length, then the pilots; none on
  a GPU, since the workloads are small."""
  if scale == 'gpu':
    return {}
  quick = scale == 'quick'
  found: dict[tuple, Any] = {}
  for name in WORKLOADS[: 1 if quick else None]:
    args = scale, *(OF_UNSEEN if name in UNSEEN else OF_SEEN)
    for method in list(METHODS)[: 2 if quick else None]:
      found[name, method] = partial(advice_trainings.whole, name, method, *args)
    found[name, PILOTS] = partial(advice_trainings.of_pilots, name, scale)
  return found


def find(
  found: training_claim.Results, coverage: claim.Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row per workload and link, of workloads with all runs trained."""
  judged: dict[float, list[AdviceCase]] = {share: [] for share in SHARES}
  for name in dict.fromkeys(cell[0] for cell in found):
    if training_claim.is_complete(coverage, name):
      tuned = {c[1]: t for c, t in found.items() if c[0] == name}
      for share, cases in judged.items():
        cases += advice_cases.cases(name, tuned, kept, LINKS, SEEN, share)
  rows = [_row(case) for case in judged[SHARE]]
  seconds = [r for c in judged[SHARE] for r in c.table(seeds=OF_UNSEEN[0])]
  shares = advice_cases.by_share(judged, SEEN)
  return claim.Finding(
    verdict(rows, coverage, seconds, shares),
    rows,
    NOTES,
    *training_claim.evidence(rows, coverage),
    tables={'coverage': coverage, 'seconds': seconds, 'shares': shares},
  )


def _row(case: AdviceCase) -> dict[str, Any]:
  mean = {m: statistics.fmean(each) for m, each in case.seconds.items()}
  best = min(mean, key=lambda m: mean[m])
  costs = regret.mean([case])
  return {
    'workload': case.cell['workload'],
    'seen by the rule': case.cell['workload'] in SEEN,
    'link': case.cell['link'],
    'seeds': regret.seeds_of([case]),
    'best in hindsight': best,
    'its seconds to the target': mean[best],
    **{f'{rule}: strategy': case.picks[rule] for rule in RULES},
    **{f'{rule}: regret': costs[rule] for rule in RULES},
    SMALL: regret.is_below(GOAL, case, RULES[0]),
  }


def verdict(
  rows: claim.Rows,
  coverage: claim.Rows,
  seconds: claim.Rows,
  shares: claim.Rows,
) -> claim.Verdict:
  """Judges the regret on each unseen workload and link, and its mean."""
  cases = regret.read(rows, seconds, RULES)
  new = [case for case in cases if case.cell['workload'] in UNSEEN]
  held = [row[SMALL] for row in rows if row['workload'] in UNSEEN]
  text, lead = _sentence(regret.mean(new)), ''
  if new:
    less, error = regret.lead(new, HALF)
    case = intervals.at_least(0.0, less, error, regret.seeds_of(new))
    held.append(None if any(c.unsure for c in new) else case)
    lead = f' (less by {100 * less:.0f} +- {100 * error:.0f} points)'
    text += f' (errors up to {100 * regret.most_error(new):.0f} points)'
  old = [case for case in cases if case.cell['workload'] in SEEN]
  complete = all(
    training_claim.is_complete(coverage, name)
    for name in figures.distinct(coverage, 'workload')
  )
  return claim.make_verdict(
    held,
    f'mean regret, {len(new)} unseen pairs of workload and link: {text}'[:160],
    f'Regret in seconds to the target, mean over {len(new)} workloads and '
    f'links that the rule has not seen: {text}. On those that it was made on: '
    f'{_sentence(regret.mean(old))}. An unseen pair holds if the regret of '
    f'`advise` is below {100 * GOAL:.0f} %; the last case is that its '
    f'mean is at most half of that of the best simple rule{lead}.'
    f'{_at_lower_targets(shares)}',
    training_claim.doubt(coverage)
    or ('' if complete else 'not all is trained'),
  )


def _sentence(mean: Mapping[str, float]) -> str:
  text = ', '.join(f'{rule} {100 * mean[rule]:.0f} %' for rule in mean)
  return text or 'no runs yet'


def _at_lower_targets(shares: claim.Rows) -> str:
  """The regret of the advice and of the fastest step at lower targets."""
  lower = [r for r in shares if not r['seen by the rule'] and r[TARGET] < SHARE]
  percent = lambda key: ', '.join(f'{100 * row[key]:.0f} %' for row in lower)
  mine, simple = (f'{rule}: regret' for rule in (RULES[0], RULES[-1]))
  if not lower:
    return ''
  return (
    f' At lower targets, {percent(TARGET)}, the regret of `advise` on unseen '
    f'pairs is {percent(mine)}, that of {RULES[-1]} {percent(simple)}; no '
    'errors are computed.'
  )


NOTES = notes.of(
  'advice_quality',
  workers=WORKERS,
  methods=', '.join(METHODS),
  seen=OF_SEEN[0],
  unseen=OF_UNSEEN[0],
  untold=UNTOLD,
)


def figure(
  rows: claim.Rows,
  coverage: claim.Rows,
  seconds: claim.Rows,
  shares: claim.Rows,
) -> Figure:
  """Regret of the rules, a group of bars for each workload and link."""
  del coverage, seconds, shares
  found = Figure(figsize=(13, 4), layout='constrained')
  axes = found.subplots()
  for i, rule in enumerate(RULES):
    axes.bar(
      [k + 0.21 * (i - 1.5) for k in range(len(rows))],
      [100 * row[f'{rule}: regret'] for row in rows],
      0.2,
      label=rule,
    )
  names = [f'{row["workload"]}, {row["link"]}' for row in rows]
  axes.set_xticks(range(len(rows)), names, rotation=40, ha='right')
  axes.set(ylabel='regret, % of the best seconds', yscale='symlog')
  axes.axhline(100 * GOAL, color='0.5', lw=0.8)
  figures.legend(found, axes)
  return found


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
