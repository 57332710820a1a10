"""Versions of what computes: a kept run of an older one is no answer any more.

A strategy's version is raised when its golden figures change; the test of the
golden figures demands it. Those of virtual time and of training, with
its tasks, are raised by hand when their numbers change.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

PATH = pathlib.Path(__file__).with_suffix('.json')
VIRTUAL_TIME = 1
FAILURES = 2  # Of virtual time with lost workers; 2: they are not scored.
LATE = 2  # Of rounds that do not wait for all; 2: who missed one is not scored.
TRAINING = 1


def versions(config: Mapping[str, Any]) -> dict[str, int]:
  """Of everything that a run uses; a first version is left out.

  Args:
    config: of a run.
  """
  all_of, found = known(), {'training': TRAINING}
  for name in _strategies(config['strategy']):
    found[name] = all_of[name]['version']
  if cluster := config.get('cluster'):
    found['virtual_time'] = VIRTUAL_TIME
    found['failures'] = FAILURES if cluster.get('failures') else 1
    found['late'] = LATE if cluster.get('first') else 1
  return {name: number for name, number in found.items() if number > 1}


def _strategies(strategy: Mapping[str, Any]) -> list[str]:
  """Its name, and those of the levels of `hierarchical`."""
  levels = [strategy.get(level) or {} for level in ('inner', 'outer')]
  within = [level['name'] for level in levels if level.get('name')]
  among = within if strategy['name'] == 'hierarchical' else []
  return [strategy['name'], *among]


def known() -> dict[str, dict[str, Any]]:
  """By strategy, `version` and `golden`: the digest of its golden figures."""
  return json.loads(PATH.read_text())
