"""Versions of the numerical code; kept runs of older versions are not used.

A strategy's version is raised when golden figures of one of its forms (see
forms.py) change, which the test of these figures requires. The versions of
virtual time and of training (with its tasks) are raised by hand when their
numbers change, which tests/system/golden_trainings_test.py notices.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

PATH = pathlib.Path(__file__).with_suffix('.json')
# Runs with a server that are older than 30 November 2026 repeat except for the
# last digits of `link_utilisation`, which no claim reads.
VIRTUAL_TIME = 1
FAILURES = 2  # Asynchronous workers, some lost; from 2 on these are not scored.
# The same in rounds of all workers; from 3 on a run that stalls also has a
# record of its last round.
STALLS = 3
LATE = 2  # Partial rounds; from 2 on workers that missed one are not scored.
TRAINING = 1


def versions(config: Mapping[str, Any]) -> dict[str, int]:
  """Returns the versions of all code that a run uses, except versions 1.

  Args:
    config: of a run.
  """
  registered, found = known(), {'training': TRAINING}
  for name in _strategies(config['strategy']):
    found[name] = registered[name]['version']
  if cluster := config.get('cluster'):
    found['virtual_time'] = VIRTUAL_TIME
    in_rounds = not cluster.get('asynchronous')
    lost = STALLS if in_rounds else FAILURES
    found['failures'] = lost if cluster.get('failures') else 1
    found['late'] = LATE if cluster.get('first') else 1
  return {name: number for name, number in found.items() if number > 1}


def _strategies(strategy: Mapping[str, Any]) -> list[str]:
  """Returns a strategy's name, and those of the levels of `hierarchical`."""
  levels = [strategy.get(level) or {} for level in ('inner', 'outer')]
  names = [level['name'] for level in levels if level.get('name')]
  extra = names if strategy['name'] == 'hierarchical' else []
  return [strategy['name'], *extra]


def known() -> dict[str, dict[str, Any]]:
  """Returns by strategy `version` and `golden`, digests of figures by form."""
  return json.loads(PATH.read_text())
