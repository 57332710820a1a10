"""The range of every numeric key of a config, with its unit.

A key is looked up by its last two names, then by its last name alone, which
means the same wherever it occurs. Keys that are not listed, and those of the
user's own functions, take any finite number.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gossipjax.errors import UserError

MAX_FLOAT32 = 3.4e38  # About the largest number of 32 bits.
MAX_INT32 = 2**31 - 1  # The largest integer of 32 bits.


class Range(NamedTuple):
  """The numbers that a key may take.

  Attributes:
    least, most: both belong to the range, unless `above` or `below` is set.
    unit: of the number; '' if it has none.
    above: whether the number must be greater than `least`.
    below: whether the number must be less than `most`.
  """

  least: float
  most: float
  unit: str = ''
  above: bool = False
  below: bool = False

  def holds(self, number: float) -> bool:
    """Whether a number is in the range; NaN never is."""
    if isinstance(number, int) and abs(number) > 2**1023:
      return False  # No float is that large.
    low = number > self.least if self.above else number >= self.least
    high = number < self.most if self.below else number <= self.most
    return low and high

  def text(self, number: float) -> str:
    """Describes the range, for an error about a number outside of it."""
    low = f'{"above" if self.above else "at least"} {self.least:g}'
    high = f'{"below" if self.below else "at most"} {self.most:.10g}'
    unit = f' ({self.unit})' if self.unit else ''
    if self.least == -MAX_FLOAT32:
      return f'finite{unit}'
    if self.most >= MAX_INT32 and not number > self.most:
      return f'{low}{unit}'
    return f'{low} and {high}{unit}'


def _count(unit: str, least: int = 1, most: int = MAX_INT32) -> Range:
  return Range(least, most, unit)


ANY = Range(-MAX_FLOAT32, MAX_FLOAT32)
SHARE = Range(0, 1, 'a share', above=True)
FACTOR = Range(0, 1, 'a factor', below=True)  # Of momenta and decays.
POSITIVE = Range(0, MAX_FLOAT32, above=True)
NOT_NEGATIVE = Range(0, MAX_FLOAT32)
SECONDS = Range(0, 1e9, 'seconds')
SIZE = _count('entries', most=2**16)
PERIODS = 'period', 'first_period', 'second_period', 'local_period'

RANGES: Mapping[str, Range] = {
  # Of a run.
  'workers': _count('workers', most=2**12 - 1),  # Limit of traffic.Count.
  'devices_per_worker': _count('devices, 0 for one', least=0, most=4095),
  'steps': _count('steps'),
  'batch_size': _count('examples'),
  'seed': _count('a seed', least=0),
  'seeds': _count('a seed', least=0),
  'accumulate': _count('micro-batches, 0 for one', least=0),
  'state_period': _count('steps, 0 for never', least=0),
  'log_every': _count('steps'),
  'eval_every': _count('steps, 0 for the end only', least=0),
  'checkpoint_every': _count('steps, 0 for the end only', least=0),
  # Of tasks, models and splits.
  'width': SIZE,
  'layers': _count('layers', most=1000),
  'heads': _count('heads', most=1024),
  'sequence': _count('tokens'),
  'smoothing': Range(0, 1, 'a share', below=True),
  'alpha': NOT_NEGATIVE,  # Of a strategy or a schedule.
  'split.alpha': POSITIVE,
  'shards': _count('shards', most=2**16),
  'validation': Range(0, 1, 'a share', above=True, below=True),
  'examples': _count('examples'),
  # Of optimizers and schedules.
  'learning_rate': NOT_NEGATIVE,
  'warmup_steps': _count('steps', least=0),
  'boundaries': _count('steps', least=0),
  'weight_decay': NOT_NEGATIVE,
  **dict.fromkeys(('momentum', 'b1', 'b2', 'b3'), FACTOR),
  'eps': NOT_NEGATIVE,
  'eps_root': NOT_NEGATIVE,
  # Of links and virtual time.
  'latency_s': SECONDS,
  'bytes_per_s': Range(0, math.inf, 'bytes per second', above=True),
  'step_s': SECONDS,
  'spread': Range(0, 10, 'relative'),
  'factors': Range(0, 1e6, 'a multiple', above=True),
  'stragglers': _count('a worker', least=0),
  'sleep_s': SECONDS,
  'slow': Range(0, math.inf),  # Workers, seconds and factors, see cluster.py.
  'failures': Range(0, math.inf),
  'first': _count('workers, 0 for all', least=0),
  'timeout_s': SECONDS,
  'target_accuracy': Range(0, 1, 'a share'),
  'target': ANY,
  'target_share': SHARE,
  # Of strategies.
  **dict.fromkeys(('density', 'densities'), SHARE),
  **dict.fromkeys((*PERIODS, 'shortest', 'longest'), _count('steps')),
  'schedule': _count('draws', most=2**16),
  **dict.fromkeys(('switch', 'delay', 'grace'), _count('steps', least=0)),
  'fragments': _count('fragments', most=2**16),
  'quorum': _count('workers', most=2**16),
  'size': _count('workers', most=2**16),
  'pull': NOT_NEGATIVE,
  'kept': _count('entries'),
  'number': _count('shards', most=4095),
  'side': SIZE,
  'pulls': _count('workers', most=2**16),
  'look_ahead': FACTOR,
  'own_momentum': Range(0, 1, 'a factor'),
  'stiffness': Range(0, 1, 'a share', above=True),
  'stepsize': Range(0, 10, above=True),
  'decay': Range(0, 1, 'a factor'),
  'clip': POSITIVE,
  'weight': NOT_NEGATIVE,
  'large': POSITIVE,
  'patience': _count('steps'),
  'rank': SIZE,
  'min_size': _count('entries', least=0),
  'factor': POSITIVE,
  **dict.fromkeys(('max_rate', 'min_rate'), SHARE),
  'exponent': Range(0, 10),
  # Of compressors, selections, triggers and granularities.
  'bucket': _count('entries'),
  'chunk': SIZE,
  'bits': _count('bits', most=32),
  'block': _count('entries'),
  'levels': _count('levels', most=127),
  'threshold': NOT_NEGATIVE,
  'rate': Range(0, 1, 'a share'),
  'bytes': _count('bytes'),
  'units': _count('units', least=0),
  'squared_steps': POSITIVE,
  **dict.fromkeys(('growth', 'horizon', 'kappa', 'scale'), NOT_NEGATIVE),
  'interval': POSITIVE,
  'warmup': _count('steps', least=0),
}


def of_key(key: str) -> Range:
  """The range of a dotted key: that of its last two names, or of the last."""
  names = key.split('.')
  return RANGES.get('.'.join(names[-2:])) or RANGES.get(names[-1], ANY)


# Keys of the optimizer that mean the same for a user's own.
OF_OPTIMIZER = 'learning_rate', 'warmup_steps', 'boundaries', 'weight_decay'


def check(config: Mapping[str, Any], prefix: str = 'config.') -> None:
  """Checks every number of a config, at any depth, and in tuples.

  Args:
    config: nested mappings, such as a ConfigDict.
    prefix: path of the config's keys, for error messages; ends in a dot.

  Raises:
    UserError: a number is out of its range; names the key, range and unit.
  """
  # In a user's own function a listed name may mean something else.
  own = ':' in str(config.get('name'))
  known_keys = OF_OPTIMIZER * (prefix.split('.')[-2] == 'optimizer')
  for key, value in config.items():
    path = f'{prefix}{key}'
    if hasattr(value, 'items'):
      check(value, f'{path}.')
      continue
    for number in _numbers(value):
      allowed = ANY if own and key not in known_keys else of_key(path)
      if not allowed.holds(number):
        raise UserError(
          f'{path}={value} is out of range; must be {allowed.text(number)}.'
        )


def _numbers(value: Any) -> Iterator[float]:
  if isinstance(value, list | tuple):
    for part in value:
      yield from _numbers(part)
  elif isinstance(value, int | float) and not isinstance(value, bool):
    yield value
