"""The part of `advise` that tries: trains pilots and prints what they say."""

import hashlib
import pathlib
import shlex
import time
from collections.abc import Callable

from absl import flags
from ml_collections import ConfigDict

from gossipjax.advice import (
  advise,
  pilot_plan,
  pilots,
  recommendation,
  tuned,
)
from gossipjax.advice.forecast import Forecast
from gossipjax.advice.halving import Pilot
from gossipjax.advice.ranking import DENSE, Candidate, Rank
from gossipjax.commands import console
from gossipjax.comparison import markup, scores
from gossipjax.results import claims, total_time


def show(head: str, rows: list[dict]) -> None:
  print(f'{head}{":" if rows else ""}\n')
  if rows:
    print(markup.of_rows(rows) + '\n')


def attempt(
  config: ConfigDict,
  name: str,
  found: list[Forecast],
  better: list[Forecast],
  interrupted: Callable[[], bool],
  again: str,
) -> None:
  """Trains pilots, prints their table and what to use."""
  given = flags.FLAGS
  digest = hashlib.sha1(config.to_json().encode()).hexdigest()[:6]
  folder = pathlib.Path(given.workdir or f'runs/advise-{name}-{digest}')
  configs = advise.runs(config)
  configs[DENSE] = configs.pop(found[0].name)  # A variant may have any name.
  own_s = {f.name: f.compute_s + f.select_s for f in found}
  own_s[DENSE] = own_s[found[0].name]
  with claims.claim(folder, config, resume=True) as told:
    for sentence in told:
      console.say(sentence)
    bench = pilots.Bench(
      configs,
      own_s,
      total_time.link_name(config),
      folder / 'pilots',
      console.say,
      interrupted,
    )
    risks = {f.name: f.risk for f in better}
    ranks = _ranks(configs, better, bench, again)
    if not ranks:
      return
    metric = bench.metric
    show('Tried', recommendation.rows(ranks, metric, risks))
    whole = again if given.tune else f'{again} --tune'
    print(recommendation.tried(ranks, config.steps, whole, risks))
    if given.tune:
      tuned.write(folder / 'tuned.py', config, configs, ranks)
      print(
        f'\npython -m gossipjax run --config={folder}/tuned.py compares '
        'them at full length on the test set.'
      )


def _ranks(
  configs: dict[str, ConfigDict],
  better: list[Forecast],
  bench: pilots.Bench,
  again: str,
) -> list[Rank]:
  """Of the pilots that the time allows; [] after a sentence if none."""
  began, minutes = time.monotonic(), flags.FLAGS.minutes
  dense = configs[DENSE]
  full, rate = dense.steps, dense.optimizer.learning_rate
  first = Pilot(
    Candidate(DENSE, float(f'{rate:.3g}')),
    pilot_plan.least_steps(full),
    dense.seed,
  )
  step_s, begin_s = bench.timed(first)
  least, names = pilot_plan.least_steps(full), [DENSE]
  for f in better:
    if (period := pilot_plan.longest_period(configs[f.name].strategy)) > least:
      console.say(
        f'{f.name} is not tried: it exchanges every {period} steps, a pilot '
        f'has {least}.'
      )
    else:
      names.append(f.name)
  plan = bench.plan(names, full, minutes, step_s, begin_s)
  if plan is None:
    needed = pilot_plan.needed_s(full, step_s, begin_s) / 60
    print(
      f'No evidence: {minutes:g} minutes are too few for pilots of {least} '
      f'steps here. All-reduce until you have run\n\n    '
      f'{_longer(again, max(1, round(1.5 * needed)))}\n'
    )
    return []
  higher = scores.is_higher(bench.metric, bench.higher())
  risks = {f.name: f.risk for f in better}
  until = began + 60 * minutes
  ranks = pilots.run(plan, configs, bench, higher, until, risks)
  if not ranks:
    print(
      'No evidence: the time was over before the first round, or all-reduce '
      f'diverged. All-reduce until you have run again\n\n    {again}\n'
    )
  return ranks


def _longer(again: str, minutes: float | None = None) -> str:
  """The command with more minutes."""
  minutes = minutes or 3 * flags.FLAGS.minutes
  words = [w for w in shlex.split(again) if not w.startswith('--minutes')]
  return f'{shlex.join(words)} --minutes={minutes:g}'
