"""Faults of a launcher or its processes: all end in time, without orphans."""

import os
import pathlib
import random
import signal
import subprocess
import time

from gossipjax.comparison import one_training
from gossipjax.distributed import launcher, lifeline
from gossipjax.results import record_file, workdir
from gossipjax.training import checkpoint
from tests.campaign import verdict
from tests.support import program

HEARTBEAT_S = 5
SLACK_S = 10  # For a busy machine.
# Seconds within which all processes must have ended, without SLACK_S.
ENDS_S = {
  'kill': launcher.GRACE_S,
  'freeze': HEARTBEAT_S + launcher.START_S,
  'orphan': lifeline.END_S + 2,
  'hang up': launcher.GRACE_S + 10,
  'stop': launcher.GRACE_S + 10,
}
PROCESSES = 2


def attempt(seed: int, folder: pathlib.Path, shared: pathlib.Path) -> str:
  """Injects a fault while processes join or train; returns what went wrong."""
  del shared
  rng = random.Random(seed)
  fault = list(ENDS_S)[seed % len(ENDS_S)]
  log = folder / 'log'
  with log.open('w') as output:
    parent = program.module(output, *_words(folder), **program.QUICKLY)
  children = children_of(parent.pid, PROCESSES)
  _wait(folder / 'run/gossip/records.jsonl', parent, rng)
  began, victim = time.monotonic(), rng.randrange(PROCESSES)
  if parent.poll() is not None or not all(map(alive, children)):
    parent.wait()
    return f'{fault}: a process ended before the fault\n{log.read_text()}'
  _inject(fault, parent, children[victim])
  until = began + ENDS_S[fault] + SLACK_S
  while time.monotonic() < until and (
    parent.poll() is None or any(map(alive, children))
  ):
    time.sleep(0.05)
  left = [child for child in children if alive(child)]
  hung = parent.poll() is None
  for process in (parent.pid, *left) if hung else left:
    os.kill(process, signal.SIGKILL)
  parent.wait()
  text = log.read_text()
  if hung or left:
    return (
      f'{fault}: {left} or the launcher go on after {ENDS_S[fault]} s\n{text}'
    )
  if 'Traceback' in text:
    return f'{fault}: a traceback\n{text}'
  messages = {'kill': f'Process {victim} died of SIGKILL;'}
  messages['freeze'] = f'Process {victim} did not answer any more;'
  if messages.get(fault, '') not in text:
    return f'{fault}: the message does not name process {victim}\n{text}'
  lost = fault not in messages and _lost_steps(folder / 'run/gossip')
  return f'{fault}: {lost}\n{text}' if lost else ''


def _lost_steps(folder: pathlib.Path) -> str:
  """How many recorded steps no checkpoint has; '' if all are in one."""
  path = folder / workdir.RECORDS
  records = record_file.read(path) if path.exists() else []
  recorded = records[-1].step if records else 0
  place = checkpoint.newest(folder / one_training.CHECKPOINTS)
  kept = int(place.name) if place else 0
  return f'a record of step {recorded}, a checkpoint of {kept}' * (
    kept < recorded
  )


def _words(folder: pathlib.Path) -> list[str]:
  return [
    'gossipjax',
    'launch',
    f'--processes={PROCESSES}',
    '--',
    '--config=configs/default.py:gossip',
    f'--config.workers={PROCESSES}',
    '--config.steps=100000',
    '--config.log_every=4',
    '--config.eval_every=0',
    '--config.checkpoint_every=20',
    f'--workdir={folder / "run"}',
    f'--heartbeat_s={HEARTBEAT_S}',
  ]


def children_of(process: int, count: int) -> list[int]:
  """Waits for `count` processes of a launcher; returns their ids in order."""
  listing = pathlib.Path(f'/proc/{process}/task/{process}/children')
  until = time.monotonic() + verdict.LIMIT_S
  # The launcher also starts a child that looks up where libraries are.
  while len(found := [*filter(_trains, listing.read_text().split())]) < count:
    assert time.monotonic() < until, f'{len(found)} of {count} processes'
    time.sleep(0.02)
  return sorted(map(int, found))


def _trains(process: str) -> bool:
  try:
    words = pathlib.Path(f'/proc/{process}/cmdline').read_text()
  except OSError:
    return False
  return '--process_id=' in words


def _wait(
  file: pathlib.Path, parent: subprocess.Popen, rng: random.Random
) -> None:
  """Waits for a random moment while the processes join, or after they did."""
  if rng.random() < 0.4:
    time.sleep(rng.uniform(0, 8))
    return
  until = time.monotonic() + 200
  while not file.exists() and parent.poll() is None:
    assert time.monotonic() < until
    time.sleep(0.05)
  time.sleep(rng.uniform(0, 2))


def _inject(fault: str, parent: subprocess.Popen, victim: int) -> None:
  if fault == 'kill':
    os.kill(victim, signal.SIGKILL)
  elif fault == 'freeze':
    os.kill(victim, signal.SIGSTOP)
  else:
    numbers = {'orphan': signal.SIGKILL, 'hang up': signal.SIGHUP}
    parent.send_signal(numbers.get(fault, signal.SIGTERM))


def alive(process: int) -> bool:
  """Whether a process runs or is stopped; a zombie does not count."""
  try:
    state = pathlib.Path(f'/proc/{process}/stat').read_text()
  except OSError:
    return False
  return state.rpartition(')')[2].split()[0] not in 'ZX'
