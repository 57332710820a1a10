"""The part of `advise` that trains pilots, short trials, and prints results."""

import hashlib
import math
import pathlib
import shlex
import time
from collections.abc import Callable, Mapping, Sequence

from absl import flags
from ml_collections import ConfigDict

from gossipjax import network
from gossipjax.advice import (
  advise,
  periods,
  pilot_plan,
  pilots,
  recommendation,
  tuned,
)
from gossipjax.advice.choice import dense_of
from gossipjax.advice.forecast import Forecast
from gossipjax.advice.halving import Pilot
from gossipjax.advice.ranking import DENSE, Candidate, Rank
from gossipjax.commands import console
from gossipjax.comparison import markup
from gossipjax.comparison.certainty import NOISE
from gossipjax.comparison.targets import share_of
from gossipjax.results import reservation, total_time

_TOO_MANY = (
  f'Not tried, since {pilot_plan.MAX_STRATEGIES} others are more promising'
)
_LEARNED_NOTHING = (
  'all-reduce learned little or nothing in its pilots of {} steps: {}. Seconds '
  'to its best score mean little; try another optimizer.learning_rate, or more '
  'config.steps.\n'
)
_NO_FASTER = f'Not tried, since a step saves less than {100 * NOISE:.0f} % here'


def show(head: str, rows: list[dict]) -> None:
  print(f'{head}{":" if rows else ""}\n')
  if rows:
    print(markup.of_rows(rows) + '\n')


def attempt(
  config: ConfigDict,
  name: str,
  found: list[Forecast],
  link: network.Link,
  interrupted: Callable[[], bool],
  again: str,
) -> None:
  """Trains pilots, and prints their table and the recommendation."""
  given = flags.FLAGS
  digest = hashlib.sha1(config.to_json().encode()).hexdigest()[:6]
  place = given.workdir or f'runs/advise-{name}-{digest}'
  folder = pathlib.Path(place).expanduser()
  configs = advise.runs(config)
  configs[DENSE] = configs.pop(found[0].name)  # A variant may have any name.
  own_s = {f.name: f.compute_s + f.select_s for f in found}
  comm_s = {f.name: f.comm_s(link) for f in found if f.traffic.exact}
  for seconds in (own_s, comm_s):
    seconds[DENSE] = seconds[found[0].name]
  with reservation.reserved(
    folder, config, resume=True, kind='advise'
  ) as warnings:
    for sentence in warnings:
      console.say(sentence)
    bench = pilots.Bench(
      configs,
      own_s,
      comm_s,
      total_time.link_name(config),
      folder / 'pilots',
      console.say,
      interrupted,
    )
    rounds, rest = _rounds(configs, found, link, bench, again)
    if not rounds:
      return
    ranks = rounds[-1]
    show('Tried', recommendation.rows(ranks, bench.metric))
    if why := bench.learned_nothing(dense_of(ranks)):
      print(_LEARNED_NOTHING.format(ranks[0].steps, why))
    more = '' if given.tune else f'{again} --tune'
    share = share_of(config)
    print(recommendation.tried(ranks, config.steps, more, share))
    if rest:
      print(f'\n{rest}')
    if given.tune:
      tuned.write(folder / 'tuned.py', config, configs, ranks)
      again = shlex.join([f'--config={folder}/tuned.py'])
      print(
        f'\npython -m gossipjax run {again} compares them at full length on '
        'the test set.'
      )


def _rounds(
  configs: dict[str, ConfigDict],
  forecasts: list[Forecast],
  link: network.Link,
  bench: pilots.Bench,
  again: str,
) -> tuple[list[list[Rank]], str]:
  """Trains pilots; returns the ranks of each round that the time allowed, and a
  text on the strategies without a pilot in the last round.

  If no round was possible, it prints the reason and returns ([], '').
  """
  minutes, full = flags.FLAGS.minutes, configs[DENSE].steps
  until = time.monotonic() + 60 * minutes
  better = advise.faster(forecasts, link)
  names = _tried(configs, better)
  if len(names) == 1:
    print(
      'Nothing is tried; set a shorter period, or more config.steps.\n\n'
      f'{recommendation.by_known(forecasts, link)}'.strip()
    )
    return [], ''
  step_s, begin_s = bench.timed(_first(configs[DENSE]))
  plan = bench.plan(names, full, minutes, step_s, begin_s)
  if plan is None:
    needed = 1.5 * pilot_plan.needed_s(full, step_s, begin_s) / 60
    print(untried(forecasts, link, again, max(1, round(needed))))
    return [], ''
  risks = {f.name: f.risk for f in forecasts[1:]}
  rounds = pilots.run(plan, configs, bench, bench.higher, until, risks)
  if not rounds:
    print('Time ran out before the first round, or all-reduce diverged.\n')
    print(untried(forecasts, link, again, 3 * minutes))
    return [], ''
  all_s = pilot_plan.needed_s(full, step_s, begin_s, len(names))
  reason = _TOO_MANY
  if len(plan.names) < pilot_plan.MAX_STRATEGIES:
    reason = f'Not tried; that takes --minutes={math.ceil(1.5 * all_s / 60)}'
  reasons = {
    reason: [name for name in names if name not in plan.names],
    _NO_FASTER: [
      f.name
      for f in forecasts[1:]
      if f not in better and f.name not in plan.names
    ],
  }
  return rounds, recommendation.left_out(rounds, plan.names, reasons)


def _tried(
  configs: Mapping[str, ConfigDict], better: Sequence[Forecast]
) -> list[str]:
  """All-reduce, and the strategies whose period fits in the shortest pilot."""
  least = pilot_plan.least_steps(configs[DENSE].steps)
  names = [DENSE]
  for f in better:
    if (period := periods.longest(configs[f.name].strategy)) > least:
      console.say(
        f'{f.name} is not tried: its period is {period} steps, a pilot has '
        f'{least}.'
      )
    else:
      names.append(f.name)
  return names


def _first(dense: ConfigDict) -> Pilot:
  """The all-reduce pilot that is timed to plan the others."""
  rate = float(f'{dense.optimizer.learning_rate:.3g}')
  steps = pilot_plan.least_steps(dense.steps)
  return Pilot(Candidate(DENSE, rate), steps, dense.seed)


def untried(
  found: list[Forecast], link: network.Link, again: str, minutes: float
) -> str:
  """What to use without pilots, and the command that trains them."""
  known = recommendation.by_known(found, link)
  text = (
    f'{known} To try it on your config:'
    if known
    else 'No kept runs match: use all-reduce, or first run:'
  )
  return f'{text}\n\n    {_with_minutes(again, minutes)}\n'


def _with_minutes(again: str, minutes: float) -> str:
  """Returns the command with another value of --minutes."""
  words = iter(shlex.split(again))
  kept = []
  for word in words:
    name, is_given, _ = word.lstrip('-').partition('=')
    if name != 'minutes' or not word.startswith('-'):
      kept.append(word)
    elif not is_given:
      next(words, '')
  return f'{shlex.join(kept)} --minutes={minutes:g}'
