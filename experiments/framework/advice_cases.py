"""Advice in hindsight: the strategy that each rule picks, and what it costs.

The rules are that of `advise` and simpler ones, for a workload and a link.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from experiments.framework import regret, workloads
from experiments.framework.advice_trainings import (
  METHODS,
  config,
  curve,
  own_seconds,
  rounds,
  to_target,
)
from experiments.framework.regret import AdviceCase
from experiments.framework.result_store import ResultStore
from experiments.framework.single_run import Result
from gossipjax.advice import choice, known_file, known_runs, risk
from gossipjax.advice.halving import Pilot, halving
from gossipjax.advice.ranking import DENSE, Rank
from gossipjax.advice.risk import Risk
from gossipjax.comparison.targets import SHARE

RULES = ('advise', 'always all-reduce', 'always gossip', 'fastest step')
UNTOLD = f'advise, as if the target were {SHARE:g}'
TARGET = "target, of all-reduce's best score"
PILOTS = 'pilots'  # In place of a strategy's name in a cell.


def cases(
  name: str,
  tuned: Mapping[str, Any],
  kept: ResultStore,
  links: Sequence[str],
  seen: Collection[str],
  share: float = SHARE,
) -> list[AdviceCase]:
  """Returns a case of a workload for each link.

  Args:
    name: of the workload.
    tuned: its `Tuned` trainings by strategy, and its pilots under PILOTS.
    kept: runs, for the seconds of a step.
    links: names of link presets.
    seen: workloads whose whole trainings `advise` knows; those of this workload
      are left out.
    share: the target, as a share of all-reduce's best score.
  """
  higher = not workloads.WORKLOADS[name].is_loss
  names = [method for method in tuned if method != PILOTS]
  own_s = {m: own_seconds(name, m, kept) for m in names}
  full = max(r['step'] for r in tuned[DENSE].runs[0]['records'])
  risks = {target: _risks(name, seen, target) for target in (share, SHARE)}
  found = []
  for link in links:
    curve_of = lambda m, run: curve(name, run, own_s[m], link)
    curves = {m: [curve_of(m, run) for run in tuned[m].runs] for m in names}
    step_s = {
      m: curves[m][0].seconds[-1] for m in names if curves[m][0].seconds
    }
    advice = {
      target: advised(name, link, tuned[PILOTS], own_s, full, risk_of, target)
      for target, risk_of in risks.items()
    }
    fastest = min(step_s, key=lambda m: step_s[m])
    picks = dict(
      zip(RULES, (advice[share], DENSE, 'gossip', fastest), strict=True)
    )
    found.append(
      AdviceCase(
        {'workload': name, 'link': link},
        to_target(curves, higher, share),
        {**picks, UNTOLD: advice[SHARE]},
        [method for method in names if not tuned[method].inside],
      )
    )
  return found


def advised(
  name: str,
  link: str,
  made: Mapping[Pilot, Result],
  own_s: Mapping[str, float],
  full: int,
  risks: Mapping[str, Risk],
  share: float,
) -> str:
  """Returns the strategy that halving over the pilots recommends on a link.

  Args:
    name: of the workload.
    link: name of the preset.
    made: results of the pilots.
    own_s: seconds of a step without communication, by strategy.
    full: steps of a whole training.
    risks: of each strategy except all-reduce.
    share: the target, as a share of all-reduce's best score.
  """
  higher = not workloads.WORKLOADS[name].is_loss
  first = [p.candidate for p in made if p.steps == rounds(full)[0].steps]
  search = halving(
    list(dict.fromkeys(first)),
    rounds(full),
    full,
    higher,
    risks=risks,
    share=share,
  )
  pilots = next(search)
  while True:
    curves = [
      curve(name, made[p], own_s[p.candidate.name], link) for p in pilots
    ]
    try:
      pilots = search.send(curves)
    except StopIteration as end:
      ranks: list[Rank] = end.value
      return choice.chosen(ranks)


def _risks(name: str, tables: Collection[str], share: float) -> dict[str, Risk]:
  """Returns the risk of each strategy except all-reduce, estimated from whole
  trainings of other workloads."""
  tasks = {*tables} - {name}
  kept = [r for r in known_file.kept(share=share) if r.table in tasks]
  return {
    method: risk.of(
      known_runs.of_strategy(kept, config(name, method, 'cpu').strategy),
      config(name, DENSE, 'cpu'),
    )
    for method in METHODS
    if method != DENSE
  }


def by_share(
  judged: Mapping[float, Sequence[AdviceCase]], seen: Collection[str]
) -> list[dict[str, Any]]:
  """Returns each rule's mean regret for each target, in separate rows for the
  workloads on which the rule of `advise` was developed and for the others.

  Args:
    judged: cases by target, which is a share of all-reduce's best score.
    seen: names of the workloads on which the rule was developed.
  """
  return [
    {
      TARGET: share,
      'seen by the rule': is_seen,
      'pairs of workload and link': len(group),
      **{f'{rule}: regret': r for rule, r in regret.mean(group).items()},
    }
    for is_seen in (False, True)
    for share, found in judged.items()
    if (group := [c for c in found if (c.cell['workload'] in seen) == is_seen])
  ]
