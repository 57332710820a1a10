"""What it costs to follow the advice of `advise`.

    python -m experiments.advice_quality

On twelve workloads and three links: the strategy that pilots recommend, against
whole trainings of all strategies, each at its best rate. Regret is what the
recommended one takes longer to the target than the best in hindsight. The rule
of `advise` was made on nine of the workloads; it is judged on the others.
"""

import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments.framework import (
  advice_trainings,
  claim,
  figures,
  trained,
  workloads,
)
from experiments.framework.advice_trainings import METHODS, WORKERS
from experiments.framework.kept import Kept
from gossipjax.advice.ranking import DENSE

CLAIM = claim.Claim(
  'advice_quality',
  'What it costs to follow the advice',
  'Following `advise` costs less than 10 % more seconds than the best strategy '
  'in hindsight, and at most half of what the better of two simple rules costs',
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
)
UNSEEN = ('fashion-adam', 'cifar-adam', 'text-lstm')
WORKLOADS = (*SEEN, *UNSEEN)
LINKS = ('wan', '1gbe', '10gbe')
GOAL, HALF = 0.1, 0.5
RULES = ('advise', 'always all-reduce', 'fastest step')
PILOTS = 'pilots'  # In place of a strategy's name in a cell.


def studies(scale: str) -> trained.Studies:
  """By workload: each strategy at full length, then the pilots; none on a GPU,
  since the workloads are small."""
  if scale == 'gpu':
    return {}
  quick = scale == 'quick'
  found: dict[tuple, Any] = {}
  for name in WORKLOADS[: 1 if quick else None]:
    for method in list(METHODS)[: 2 if quick else None]:
      found[name, method] = partial(advice_trainings.whole, name, method, scale)
    found[name, PILOTS] = partial(advice_trainings.of_pilots, name, scale)
  return found


def find(
  found: trained.Results, coverage: claim.Rows, kept: Kept
) -> claim.Finding:
  """A row for each workload and link of which everything is trained."""
  rows = []
  for name in dict.fromkeys(cell[0] for cell in found):
    if trained.is_complete(coverage, name):
      tuned = {c[1]: t for c, t in found.items() if c[0] == name}
      own_s = {
        m: advice_trainings.own_seconds(name, m, kept)
        for m in tuned
        if m != PILOTS
      }
      rows += [_row(name, link, tuned, own_s) for link in LINKS]
  return claim.Finding(
    verdict(rows, coverage),
    rows,
    NOTES,
    *trained.evidence(rows, coverage),
    tables={'coverage': coverage},
  )


def _row(
  name: str, link: str, tuned: Mapping[str, Any], own_s: Mapping[str, float]
) -> dict[str, Any]:
  higher = not workloads.WORKLOADS[name].is_loss
  curves = {
    m: [
      advice_trainings.curve(name, run, own_s[m], link) for run in tuned[m].runs
    ]
    for m in own_s
  }
  seconds = advice_trainings.to_target(curves, higher)
  step_s = {m: curves[m][0].seconds[-1] for m in own_s if curves[m][0].seconds}
  full = max(r['step'] for r in tuned[DENSE].runs[0]['records'])
  picks = dict(
    zip(
      RULES,
      (
        advice_trainings.advised(name, link, tuned[PILOTS], own_s, full, SEEN),
        DENSE,
        min(step_s, key=lambda m: step_s[m]),
      ),
      strict=True,
    )
  )
  best = min(seconds, key=lambda m: seconds[m])
  return {
    'workload': name,
    'seen by the rule': name in SEEN,
    'link': link,
    'seeds': len(tuned[DENSE].runs),
    'best in hindsight': best,
    'its seconds to the target': seconds[best],
    **{f'{rule}: strategy': pick for rule, pick in picks.items()},
    **{
      f'{rule}: regret': seconds[pick] / seconds[best] - 1
      for rule, pick in picks.items()
    },
  }


def verdict(rows: claim.Rows, coverage: claim.Rows) -> claim.Verdict:
  """On which unseen workloads and links the goal is met, and on average."""
  new = [row for row in rows if row['workload'] in UNSEEN]
  cases: list[bool | None] = [row[f'{RULES[0]}: regret'] < GOAL for row in new]
  if mean := _mean(new):
    rival = min(mean[rule] for rule in RULES[1:])
    cases.append(mean[RULES[0]] <= HALF * rival)
  told = _told(mean)
  seen = _told(_mean([row for row in rows if row['workload'] in SEEN]))
  complete = all(
    trained.is_complete(coverage, name)
    for name in figures.values(coverage, 'workload')
  )
  return claim.judged(
    cases,
    f'mean regret: {told}'[:160],
    f'Regret in seconds to the target, mean over {len(new)} workloads and '
    f'links that the rule has not seen: {told}. On those that it was made on: '
    f'{seen}. An unseen workload on a link holds if the regret of `advise` is '
    f'below {100 * GOAL:.0f} %; the last case is that its mean is at most half '
    'of that of the better rule.',
    trained.doubt(coverage) or ('' if complete else 'not all is trained'),
  )


def _mean(rows: claim.Rows) -> dict[str, float]:
  return {
    rule: statistics.fmean(row[f'{rule}: regret'] for row in rows)
    for rule in (RULES if rows else ())
  }


def _told(mean: Mapping[str, float]) -> str:
  told = ', '.join(f'{rule} {100 * mean[rule]:.0f} %' for rule in mean)
  return told or 'no runs yet'


NOTES = f"""
{WORKERS} workers; {', '.join(METHODS)}. Pilots have a fifteenth, two and four
fifteenths of the steps, at three learning rates, on validation data; `advise`
recommends what has the least expected seconds: the mean over four goals, with
the risk that it never gets there. The risk is how often it did not in whole
trainings of the other workloads that the rule was made on, for the share of the
loss that pilots have not lost. All-reduce stays if that gains less than 5 %, or
if its own pilots have not lost half of their first loss.
Whole trainings: each strategy at its best rate, three seeds, test data, to 99 %
of the best score of all-reduce. Seconds: one worker's step measured on this
machine, the link modelled. A strategy that never gets there is charged its
whole training and then all-reduce's.

Four rules came before. Two failed by noise. The first asked that the worst
seed be before the best one of all-reduce: 360 % on digits and fashion-mlp.
The second had one goal, 99 % of all-reduce's best pilot, for the mean of the
seeds: 22 % on digits, fashion-mlp and text-small, then 674 % on mnist-small,
which it had not seen, where gossip missed the goal by 0.4 % and topk was
taken. The third was today's without the condition on the loss and without the
risk: 33 % on text-short and cifar-small, which it had not seen, since pilots of
cifar-small end at 23 % of accuracy with 52 % to come. The fourth had no risk:
47 % on mnist-mlp, fashion-small and cifar-mlp, which it had not seen; there two
of three seeds of local_sgd reach mnist-mlp's target and the third misses it by
0.16 %, which no pilot sees, while it missed on all workloads but one before.

It fails five times. Three quarters of the mean are cifar-adam on wan: a CNN on
CIFAR-10 where gossip missed is kept, so that gossip is passed over, but that
one was trained with SGD, and with Adam gossip gets there. text-lstm and
fashion-adam on faster links: gossip is expected to gain less than 5 % with a
risk of a half that it misses, and it does not miss. No rule without the risk,
without the condition, or with neither, does better on all twelve: 43 to 48 %
against 40 %; a risk that pilots cannot lessen does worse (77 %).
"""


def figure(rows: claim.Rows, coverage: claim.Rows) -> Figure:
  """Regret of the three rules, a group of bars for each workload and link."""
  del coverage
  found = Figure(figsize=(13, 4), layout='constrained')
  axes = found.subplots()
  for i, rule in enumerate(RULES):
    axes.bar(
      [k + 0.27 * (i - 1) for k in range(len(rows))],
      [100 * row[f'{rule}: regret'] for row in rows],
      0.25,
      label=rule,
    )
  names = [f'{row["workload"]}, {row["link"]}' for row in rows]
  axes.set_xticks(range(len(rows)), names, rotation=40, ha='right')
  axes.set(ylabel='regret, % of the best seconds', yscale='symlog')
  axes.axhline(100 * GOAL, color='0.5', lw=0.8)
  figures.legend(found, axes)
  return found


if __name__ == '__main__':
  trained.run(CLAIM, studies, find, figure)
