"""Signals at any moment: after --resume, the same bits as without them."""

import pathlib
import random
import signal
import time

from tests.campaign import outcome, verdict
from tests.support import program

COMMON = (
  '--config.workers=3',
  '--config.steps=40',
  '--config.log_every=2',
  '--config.eval_every=20',
  '--config.checkpoint_every=4',
)
VIRTUAL = """
from gossipjax.config import defaults
def get_config():
  config = defaults.get_config('{strategy}')
  config.cluster = defaults.cluster(compute='gamma', spread=0.3)
  return config
"""
# With memory of each kind: residuals, centers, factors, momenta, queues.
STRATEGIES = ('gtopk', 'elastic', 'choco', 'power_sgd', 'diloco', 'push_sum')
IN_VIRTUAL_TIME = ('elastic', 'adaptive_gossip')
SIGNALS = (signal.SIGKILL,) * 3 + (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def attempt(seed: int, folder: pathlib.Path, shared: pathlib.Path) -> str:
  """Signals a run at a random moment, resumes it; what was different."""
  chance = random.Random(seed)
  runs = [(name, False) for name in STRATEGIES]
  runs += [(name, True) for name in IN_VIRTUAL_TIME]
  name, virtual = runs[seed % len(runs)]
  words = _words(name, virtual, shared)
  whole = _uninterrupted(name, virtual, shared)
  place = folder / 'run'
  words = [*words, f'--workdir={place}']
  number = chance.choice(SIGNALS)
  running = program.start(folder / 'told', *words)
  _wait(running, place / name / 'records.jsonl', chance)
  running.send(number)
  ended = running.end(verdict.LIMIT_S)
  codes = (0, -number, 128 + number)
  if found := verdict.of(ended, codes):
    return verdict.told(f'{number.name}: {found}', words)
  if not (place / 'config.json').exists():
    return ''  # It was too early for anything to be lost.
  words.append('--resume')
  again = program.start(folder / 'again', *words).end(verdict.LIMIT_S)
  found = verdict.of(again, (0,)) or outcome.difference(
    place / name, whole / name
  )
  return verdict.told(found and f'{number.name}: {found}', words)


def _words(name: str, virtual: bool, shared: pathlib.Path) -> list[str]:
  if not virtual:
    return [f'--config=configs/default.py:{name}', *COMMON]
  path = shared / f'virtual_{name}.py'
  path.write_text(VIRTUAL.format(strategy=name))
  return [f'--config={path}', *COMMON]


def _uninterrupted(
  name: str, virtual: bool, shared: pathlib.Path
) -> pathlib.Path:
  place = shared / f'kill_{name}_{virtual}'
  if not place.exists():
    words = _words(name, virtual, shared)
    ended = program.run(shared / 'told', *words, f'--workdir={place}')
    assert ended.code == 0, ended.err
  return place


def _wait(running, lines: pathlib.Path, chance: random.Random) -> None:
  """Until some records are written, or for a moment of the start."""
  many = chance.randint(0, 18)
  if many == 0:
    time.sleep(chance.uniform(0, 5))
  while (
    many
    and running.alive()
    and not (lines.exists() and lines.read_bytes().count(b'\n') >= many)
  ):
    time.sleep(0.005)
  time.sleep(chance.uniform(0, 0.1))
