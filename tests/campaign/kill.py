"""Signals at random moments: after --resume, the bits of an unsignalled run."""

import os
import pathlib
import random
import signal
import time
from typing import NamedTuple

from gossipjax.distributed import constants, lifeline
from tests.campaign import launch, outcome, verdict
from tests.support import program

COMMON = (
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
PROCESSES = 2
SIGNALS = (signal.SIGKILL,) * 3 + (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
EARLY_S = 5  # The earliest signals come within these seconds of the start.


class Kind(NamedTuple):
  """A kind of run that is signalled.

  Attributes:
    strategy: its name.
    where: on 'devices' of one process, in 'virtual' time, or in 'processes'.
  """

  strategy: str
  where: str

  def words(self, shared: pathlib.Path) -> list[str]:
    """The command-line flags of the run."""
    config = f'configs/default.py:{self.strategy}'
    if self.where == 'virtual':
      config = shared / f'virtual_{self.strategy}.py'
      config.write_text(VIRTUAL.format(strategy=self.strategy))
    workers = PROCESSES if self.where == 'processes' else 3
    return [f'--config={config}', f'--config.workers={workers}', *COMMON]

  def start(self, folder: pathlib.Path, words: list[str]) -> program.Running:
    """Starts the run; its output goes into `folder`."""
    if self.where == 'processes':
      launcher = 'launch', f'--processes={PROCESSES}', '--'
      return program.start(
        folder, *launcher, *words, module='gossipjax', **program.QUICKLY
      )
    return program.start(folder, *words, **program.QUICKLY)


# Together they have all kinds of state: residuals, centers, factors, momenta,
# queues.
KINDS = [
  Kind(name, 'devices')
  for name in ('gtopk', 'elastic', 'choco', 'power_sgd', 'diloco', 'push_sum')
]
KINDS += [Kind(name, 'virtual') for name in ('elastic', 'adaptive_gossip')]
KINDS += [Kind(name, 'processes') for name in ('gtopk', 'choco')]


def attempt(seed: int, folder: pathlib.Path, shared: pathlib.Path) -> str:
  """Signals a run at a random moment and resumes it; returns what is wrong."""
  rng = random.Random(seed)
  kind = KINDS[seed % len(KINDS)]
  uninterrupted, workdir = _uninterrupted(kind, shared), folder / 'run'
  words = [*kind.words(shared), f'--workdir={workdir}']
  number = rng.choice(SIGNALS)
  running, children = kind.start(folder / 'told', words), []
  if kind.where == 'processes':
    children = launch.children_of(running.pid, PROCESSES)
  _wait(running, workdir / kind.strategy / 'records.jsonl', rng)
  found = _signal(running, children, number, rng)
  if found:
    return verdict.told(f'{kind.where}, {number.name}: {found}', words)
  if not (workdir / 'config.json').exists():
    return ''  # Nothing was written yet, so nothing can be resumed.
  words.append('--resume')
  resumed = kind.start(folder / 'again', words).end(verdict.LIMIT_S)
  found = verdict.of(resumed, (0,)) or outcome.difference(
    workdir / kind.strategy, uninterrupted / kind.strategy
  )
  return verdict.told(found and f'{kind.where}, {number.name}: {found}', words)


def _signal(
  running: program.Running,
  children: list[int],
  number: int,
  rng: random.Random,
) -> str:
  """Signals a run or one of its processes; returns what is wrong at the end."""
  codes = [0, -number, 128 + number]
  if children:  # The launcher passes those it catches on as SIGTERM.
    codes += [128 + signal.SIGTERM, constants.PEER_LOST]
  victim = rng.choice([running.pid, *children])
  if launch.alive(victim):
    os.kill(victim, number)
  found = verdict.of(running.end(verdict.LIMIT_S), codes)
  until = time.monotonic() + lifeline.END_S + launch.SLACK_S
  while any(map(launch.alive, children)):
    if time.monotonic() > until:
      return f'{found} processes {children} go on'
    time.sleep(0.05)
  return found


def _uninterrupted(kind: Kind, shared: pathlib.Path) -> pathlib.Path:
  place = shared / f'kill_{kind.strategy}_{kind.where}'
  if not place.exists():
    words = [*kind.words(shared), f'--workdir={place}']
    ended = kind.start(shared / 'told', words).end(verdict.LIMIT_S)
    assert ended and ended.code == 0, ended
  return place


def _wait(
  running: program.Running, file: pathlib.Path, rng: random.Random
) -> None:
  """Waits for a random number of records, or a random time from the start."""
  records = rng.randint(0, 18)
  if records == 0:
    time.sleep(rng.uniform(0, EARLY_S))
  until = time.monotonic() + verdict.LIMIT_S
  while (
    records
    and running.alive()
    and not (file.exists() and file.read_bytes().count(b'\n') >= records)
  ):
    assert time.monotonic() < until, f'fewer than {records} records'
    time.sleep(0.005)
  time.sleep(rng.uniform(0, 0.1))
