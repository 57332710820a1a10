"""Command lines with mistakes: each ends with an error message, or trains."""

import pathlib
import random
from collections.abc import Callable

from ml_collections import ConfigDict

from gossipjax.config import defaults, resolve
from tests.campaign import verdict
from tests.support import program

NUMBERS = [
  '0',
  '-1',
  '1',
  '2',
  '3',
  '7',
  '0.5',
  '1e-9',
  '1e30',
  '1e308',
  '-1e308',
  'nan',
  'inf',
  '-inf',
  '2.5',
  '2147483647',
  '99999999999999999999',
  '0x10',
  '1_0',
]
WORDS = ['', ' ', 'x', 'None', 'True', 'false', '{}', '()', '[]', "{'a':1}"]
WORDS += ['a\nb', 'é', '\\', "'", '"', 'sgd', 'ring', 'x' * 300, '1,2', '(1,)']
WORDS += ['{"a":1}', '../x', '/no/where', 'os:system', 'a:b', '<img src=x>']
# This folder cannot be created; it is checked last, so nothing is trained.
UNUSABLE_WORKDIR = '--workdir=/proc/no/run'
FLAGS = [
  '--resume',
  '--noresume',
  '--audit',
  '--debug=maybe',
  '--flagfile=/no/where',
  '--config=',
  '--interface=eth9',
  '--heartbeat_s=0',
  '--step_timeout_s=0',
  '--process_id=-1',
  '--num_processes=0',
  '--coordinator=x',
  '--workdir=',
  '--undefok=x',
  '--config.variants={}',
  '--config.task={}',
  '--config.strategy={}',
  '--config.optimizer={}',
  '--config=.',
  '--config.link={}',
  '--config.link=.',
  '--config.link=/dev/null',
  '--config.steps',
  '--config.cluster.asynchronous=1',
  '--no-config',
  'resume',
  '--',
  '--config=/dev/null',
]
FILES = (
  'raise ValueError("no")',
  'import nothing_of_that_name',
  'def get_config(',
  'x = 1',
  'def get_config(): return 3',
  'def get_config(): return None',
  'def get_config(): raise KeyError("a")',
  'from gossipjax.config import defaults\n'
  'def get_config():\n  c = defaults.get_config()\n  del c.KEY\n  return c',
  'from ml_collections import ConfigDict\n'
  'def get_config(): return ConfigDict({"workers": 2})',
  'from gossipjax.config import defaults\n'
  'def get_config():\n  c = defaults.get_config()\n  c.variants = VARIANTS\n'
  '  return c',
)
VARIANTS = ('{"a": 1}', '{"a": {}}', '{"a/b": {}}', '{1: {}}', '[1]', '7')
VARIANTS += ('{"a": {"task": 3}}', '{"a": {"strategy": {"name": []}}}')
LINKS = (
  '{"latency_s": 1e-3}',
  '{"latency_s": NaN, "bytes_per_s": 1e9}',
  '{"latency_s": 0, "bytes_per_s": 1e9, "full_duplex": "false"}',
  '[' * 10**5,
  '{"latency_s": {}, "bytes_per_s": []}',
  '"' + 'x' * 10**6,
  '{"latency_s": 1e-3, "bytes_per_s": 1e9}',
)
TRACES = (
  '',
  'nan\n',
  '1e308\n' * 400,
  'x y',
  '1 2\n3\n',
  '-1\n' * 300,
  '0.1\n',
)


def attempt(seed: int, folder: pathlib.Path, shared: pathlib.Path) -> str:
  """Runs a command line with one to three mistakes; returns what went wrong."""
  del shared
  rng = random.Random(seed)
  words = [f'--config={_config(rng, folder)}']
  for _ in range(rng.randint(1, 3)):
    words.append(rng.choice(MAKERS)(rng, folder))
  if rng.random() < 0.9 or any(w.startswith('--config.steps') for w in words):
    words.append(UNUSABLE_WORKDIR)
  else:
    words += ['--config.steps=2', f'--workdir={folder / "run"}']
  running = program.start(folder / 'told', *words, **program.QUICKLY)
  return verdict.told(verdict.of(running.end(verdict.LIMIT_S)), words)


def _config(rng: random.Random, folder: pathlib.Path) -> str:
  if rng.random() < 0.1:
    text = rng.choice(FILES).replace('KEY', rng.choice(_KEYS))
    (folder / 'own.py').write_text(
      text.replace('VARIANTS', rng.choice(VARIANTS))
    )
    return f'{folder}/own.py'
  if rng.random() < 0.1:
    return 'configs/quickstart.py'
  return f'configs/default.py:{rng.choice(resolve.STRATEGIES)}'


def _value(rng: random.Random) -> str:
  return rng.choice(NUMBERS if rng.random() < 0.6 else WORDS)


def _top(rng: random.Random, folder: pathlib.Path) -> str:
  return f'--config.{rng.choice(_KEYS)}={_value(rng)}'


def _strategy(rng: random.Random, folder: pathlib.Path) -> str:
  keys = _dotted(resolve.strategy_config(rng.choice(resolve.STRATEGIES)))
  return f'--config.strategy.{rng.choice(keys)}={_value(rng)}'


def _cluster(rng: random.Random, folder: pathlib.Path) -> str:
  cluster = defaults.cluster().to_dict()
  cluster[rng.choice(list(cluster))] = rng.choice(
    [float('nan'), float('inf'), -1, 0, 1e308, 'x', True, (1,), ((0, 1),), None]
  )
  (folder / 'cluster.py').write_text(
    'from gossipjax.config import defaults\nfrom math import inf, nan\n'
    'def get_config():\n  c = defaults.get_config("pull_gossip")\n'
    f'  c.cluster = {cluster!r}\n  return c\n'
  )
  return f'--config={folder}/cluster.py'


def _trace(rng: random.Random, folder: pathlib.Path) -> str:
  (folder / 'trace.txt').write_text(rng.choice(TRACES))
  (folder / 'traced.py').write_text(
    'from gossipjax.config import defaults\n'
    'def get_config():\n  c = defaults.get_config("pull_gossip")\n'
    '  c.cluster = defaults.cluster(compute="trace")\n'
    f'  c.cluster.trace = "{folder}/trace.txt"\n  return c\n'
  )
  return f'--config={folder}/traced.py'


def _link(rng: random.Random, folder: pathlib.Path) -> str:
  name = rng.choice(['link', '<img src=x onerror=alert(1)>', 'a|b', 'é`'])
  (folder / f'{name}.json').write_text(rng.choice(LINKS))
  return f'--config.link={folder}/{name}.json'


def _flag(rng: random.Random, folder: pathlib.Path) -> str:
  return rng.choice(FLAGS)


def _dotted(config: ConfigDict, prefix: str = '') -> list[str]:
  found = []
  for key in config:
    value = config[key]
    found.append(f'{prefix}{key}')
    if isinstance(value, ConfigDict):
      found += _dotted(value, f'{prefix}{key}.')
  return found


_KEYS = _dotted(defaults.get_config())
Maker = Callable[[random.Random, pathlib.Path], str]
MAKERS: list[Maker] = [_top] * 4 + [_strategy] * 3
MAKERS += [_cluster, _trace, _link, _flag]
