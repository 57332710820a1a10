"""Predicts seconds per step of every strategy and recommends one.

What a step costs one worker is measured on this machine, what it would send is
counted, and the seconds of a link are modelled from both.
"""

from typing import Any

import jax
from ml_collections import ConfigDict

from gossipjax import network
from gossipjax.advice import measured_accuracies, step_cost
from gossipjax.advice.forecast import Forecast
from gossipjax.comparison import table
from gossipjax.comparison.variant import check
from gossipjax.config import resolve
from gossipjax.config.variants import variants
from gossipjax.errors import UserError

_NOISE = 0.05  # Medians of a few turns on a shared machine repeat to that.


def chosen_link(
  link: str | None,
  latency_s: float | None,
  bytes_per_s: float | None,
  default: Any,
) -> network.Link:
  """From a preset's name, a JSON file or two numbers, else from the config."""
  numbers = {'latency_s': latency_s, 'bytes_per_s': bytes_per_s}
  given = {k: v for k, v in numbers.items() if v is not None}
  if given:
    if link or len(given) < 2:
      raise UserError('Give --link, or both --latency-s and --bytes-per-s.')
    return network.link(**given)
  return next(iter(resolve.links(link or default).values()))


def runs(config: ConfigDict) -> dict[str, ConfigDict]:
  """The variants, all-reduce first; of a plain all-reduce, all strategies."""
  found = dict(variants(config))
  names = [measured_accuracies.DENSE]
  if (
    not config.get('variants')
    and config.strategy.name == measured_accuracies.DENSE
  ):
    names += [s for s in resolve.STRATEGIES if s != measured_accuracies.DENSE]
  known = {run.strategy.name for run in found.values()}
  for name in names:
    if name not in known:
      found[name] = ConfigDict(
        {**config, 'strategy': resolve.strategy_config(name), 'variants': {}}
      )
  dense = next(
    n
    for n, run in found.items()
    if run.strategy.name == measured_accuracies.DENSE
  )
  return {dense: found.pop(dense), **found}


def forecasts(config: ConfigDict) -> list[Forecast]:
  """Measures all of a config's runs; the first is all-reduce."""
  config = ConfigDict({**config, 'seeds': ()})  # They cost the same.
  name, first = next(variants(config))
  task = check(name, first).run.task
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  gradient_s = step_cost.gradient_s(task, config.batch_size)
  known = measured_accuracies.accuracies()
  result = []
  for name, run in runs(config).items():
    optimizer_s, found = step_cost.of(run, params, config.workers)
    if not result:
      compute_s = gradient_s + optimizer_s  # The same for all.
    result.append(
      Forecast(
        name,
        compute_s,
        found.select_s,
        found.traffic,
        [a for a in known if a.strategy in (name, run.strategy.name)],
      )
    )
  return result


def verdict(found: list[Forecast], link: network.Link) -> str:
  """What to use, in a sentence or two."""
  dense, *others = found
  faster = [
    f for f in others if f.step_s(link) < (1 - _NOISE) * dense.step_s(link)
  ]
  good = [f for f in faster if not any(a.suffers for a in f.accuracies)]
  if not faster:
    return (
      f'Use all-reduce: on this link nothing is faster than its '
      f'{table.duration(dense.step_s(link))} a step by more than '
      f'{100 * _NOISE:.0f} %.'
    )
  best = min(good or faster, key=lambda f: f.step_s(link))
  gain = (
    f'{best.name}: {table.duration(best.step_s(link))} a step, '
    f'all-reduce takes {table.duration(dense.step_s(link))}'
  )
  if not good:
    return (
      f'Use all-reduce: what is faster ({gain}) was measured to learn '
      'worse; see the warnings.'
    )
  untried = (
    ''
    if best.accuracies
    else (
      ' Its convergence is in no table of experiments/results: compare first.'
    )
  )
  return f'Use {gain}.{untried}'


def warnings(found: list[Forecast]) -> list[str]:
  """Where a result is to be doubted."""
  worse = [
    f'Warning: {f.name} was measured to learn worse ({a}).'
    for f in found
    for a in f.accuracies
    if a.suffers
  ]
  drawn = [f.name for f in found if not f.traffic.exact]
  return worse + (
    [
      f'The bytes of {", ".join(drawn)} depend on the gradients; here '
      'they were measured under random gradients.'
    ]
    if drawn
    else []
  )
