"""Checks whether a comparison may be resumed with more steps or more seeds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from gossipjax.config.variants import merged_by_name, variants
from gossipjax.training import loop, optimizer

OWN = 'own'  # The optimizer of `gossipjax.compare`.


def only(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
  """Whether a config differs from another only by having more steps."""
  same = {**found, 'steps': None} == {**wanted, 'steps': None}
  return same and wanted['steps'] > found['steps']


def more_seeds(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
  """Whether a config differs from another only by having further seeds. If the
  other has no `seeds`, it cannot: its run has a name without a seed."""
  same = {**found, 'seeds': None} == {**wanted, 'seeds': None}
  begun, now = ({*(config.get('seeds') or ())} for config in (found, wanted))
  return same and bool(begun) and begun < now


def obstacle(config: ConfigDict, found: dict[str, Any]) -> str:
  """Why a run of fewer steps cannot go on; '' if it can.

  Args:
    config: with the steps that are wanted.
    found: the config that the run began with.
  """
  began = merged_by_name(found)
  for name, run in variants(config):
    whose = f' of {name}' if config.get('variants') else ''
    before = began[name]['steps']
    if run.steps == before:
      continue  # The variant sets its own steps.
    if run.get('cluster'):
      return f'the virtual time{whose} is made for that number of steps'
    if run.get('engine'):
      return f'engine={run.engine}{whose} cannot extend a run'
    if not loop.due(run.eval_every, before, 0):
      return (
        f'its last evaluation{whose} is not at a multiple of eval_every='
        f'{run.eval_every}'
      )
    if not _same_rates(run, before):
      return (
        f'optimizer.schedule={_name(run.optimizer.schedule)}{whose} depends on '
        'the number of steps'
      )
  return ''


def _name(schedule: Any) -> str:
  return schedule if isinstance(schedule, str) else schedule['name']


def _same_rates(run: ConfigDict, before: int) -> bool:
  """Whether the learning rates of the first `before` steps are the same.

  An optimizer that was given as a function is not compared, as no function is.
  """
  if run.optimizer.name == OWN:
    return True
  steps = jnp.arange(before)
  then, now = (
    jax.vmap(optimizer.rate(run.optimizer, total))(steps)
    for total in (before, run.steps)
  )
  return np.array_equal(then, now)
