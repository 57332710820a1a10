"""Predicts the seconds per step of every strategy.

The computing time of one worker is measured on this machine. Its traffic is
counted, and the communication time on a link is modelled from that traffic.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from ml_collections import ConfigDict

from gossipjax import network
from gossipjax.advice import known_runs, periods, risk, step_cost
from gossipjax.advice.forecast import Forecast
from gossipjax.comparison import variant
from gossipjax.comparison.certainty import NOISE
from gossipjax.config import resolve
from gossipjax.config.variants import variants
from gossipjax.errors import UserError
from gossipjax.training import momentum
from gossipjax.training.loop import Interrupted
from gossipjax.training.run import precision

MANY = 10  # Strategies; measuring more than these takes minutes.


def chosen_link(
  link: str | None,
  latency_s: float | None,
  bytes_per_s: float | None,
  config: ConfigDict,
) -> network.Link:
  """Resolves the link from a preset, a JSON file or numbers, else the config.

  Raises:
    UserError: there is no such link, or one of the two numbers is missing.
  """
  choice = link or config.link
  if latency_s is not None or bytes_per_s is not None:
    if link or latency_s is None or bytes_per_s is None:
      raise UserError('Give --link, or both --latency-s and --bytes-per-s.')
    choice = {'latency_s': latency_s, 'bytes_per_s': bytes_per_s}
  links = resolve.links(choice, group=config.get('group_link', ''))
  return next(iter(links.values()))


def runs(config: ConfigDict) -> dict[str, ConfigDict]:
  """Returns the config of each strategy to compare, by name, all-reduce first.

  These are the variants, and all-reduce if no variant has it. A config of
  all-reduce without variants gets all other strategies, too. In an added config
  the optimizer and the strategy agree on the momentum, see `momentum.agree`,
  and communication does not overlap with computing.
  `config.seeds` is dropped: step costs and pilots use seeds of their own.
  """
  config = ConfigDict({**config, 'seeds': ()})
  configs = dict(variants(config))
  names = [known_runs.DENSE]
  if not config.get('variants') and config.strategy.name == known_runs.DENSE:
    names += [s for s in resolve.STRATEGIES if s != known_runs.DENSE]
  strategies = {run.strategy.name for run in configs.values()}
  for name in names:
    if name not in strategies:
      if name in configs:
        raise UserError(
          f'config.variants.{name} has strategy {configs[name].strategy.name}, '
          f'but advise adds strategy {name} under its own name; rename yours.'
        )
      changes = {'strategy': resolve.strategy_config(name), 'variants': {}}
      run = ConfigDict({**config, **changes}).copy_and_resolve_references()
      momentum.agree(run)
      if run.get('overlap'):
        run.overlap = False  # Not every strategy can.
      configs[name] = run
  dense = next(
    n for n, run in configs.items() if run.strategy.name == known_runs.DENSE
  )
  return {dense: configs.pop(dense), **configs}


def check(config: ConfigDict) -> None:
  """Rejects a config that cannot be trained or measured.

  Raises:
    UserError: a variant has another task, split, or number of workers or steps,
      or it uses a cluster, an engine or several devices per worker, whose
      seconds `advise` does not measure.
  """
  for name, run in variants(config):
    if run.get('devices_per_worker', 0) > 1:
      raise UserError(
        'advise measures workers of one device; set '
        'config.devices_per_worker=0.'
      )
    for key in ('task', 'split', 'workers', 'steps'):
      if run[key] != config[key]:
        raise UserError(
          f'config.variants.{name}.{key}: advise compares strategies for one '
          f'config.{key}; compare these variants with `run`.'
        )
    if run.get('cluster') or run.get('engine'):
      raise UserError(
        'advise measures steps in which all workers wait for each other; leave '
        'out config.cluster and config.engine, or compare them with `run`.'
      )
  runs(config)


def forecasts(
  config: ConfigDict,
  known: Sequence[known_runs.Known] = (),
  say: Callable[[str], None] = lambda sentence: None,
  interrupted: Callable[[], bool] = lambda: False,
) -> list[Forecast]:
  """Forecasts a step of each strategy in `runs`; the first is all-reduce.

  Args:
    config: of a comparison or of one strategy.
    known: runs of any config, to estimate the risk of missing the target.
    say: called with the number of strategies, if there are many, and with the
      reason why one is left out: its period is longer than the training, or,
      unless the config names it, it does not fit the config.
    interrupted: asked before each strategy.

  Raises:
    UserError: a strategy that the config names does not fit it.
    Interrupted: `interrupted` returned True.
  """
  config = ConfigDict({**config, 'seeds': ()})  # They cost the same.
  named, tasks = dict(variants(config)), {}
  checked = [variant.check(name, run, tasks) for name, run in named.items()]
  task = checked[0].run.task
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  computing: dict[tuple[Any, ...], float] = {}  # Seconds, equal for equal work
  result = []
  measured = _that_exchange(runs(config), say)
  if len(measured) > MANY:
    say(f'Measures a step of {len(measured)} strategies, seconds for each.')
  for name, run in measured.items():
    if interrupted():
      raise Interrupted(0)
    try:
      optimizer_s, cost = step_cost.of(run, params, config.workers)
    except UserError as error:
      if name in named or not result:
        raise
      say(f'{name} is left out: {error}')
      continue
    work = run.optimizer.name, run.batch_size, *precision(run).values()
    if work not in computing:
      computing[work] = step_cost.gradient_s(task, run) + optimizer_s
    trainings = known_runs.of_strategy(known, run.strategy)
    chance = risk.of(trainings, run)
    result.append(
      Forecast(name, computing[work], cost.select_s, cost.traffic, chance)
    )
  return result


def _that_exchange(
  configs: Mapping[str, ConfigDict], say: Callable[[str], None]
) -> dict[str, ConfigDict]:
  """Drops runs shorter than the period of their strategy; `say` names them."""
  kept = {}
  for name, run in configs.items():
    if (period := periods.longest(run.strategy)) <= run.steps:
      kept[name] = run
      continue
    say(
      f'{name} is left out: its period of {period} steps is longer than the '
      f'training, config.steps={run.steps}.'
    )
  return kept


def faster(found: list[Forecast], link: network.Link) -> list[Forecast]:
  """Returns the strategies whose step is faster than all-reduce's.

  They save more than NOISE, and are sorted by expected time to the target.
  """
  dense, *others = found
  limit = (1 - NOISE) * dense.step_s(link)
  return sorted(
    (f for f in others if f.step_s(link) < limit),
    key=lambda f: f.expected(dense, link),
  )


def warnings(found: list[Forecast]) -> list[str]:
  """Warns of forecasts whose traffic depends on the gradients."""
  names = [f.name for f in found if not f.traffic.exact]
  if not names:
    return []
  return [
    f'The bytes of {", ".join(names)} depend on the gradients; here they were '
    'measured under random gradients.'
  ]
