"""A run on the engine in a process of its own, which tests interrupt."""

import json
import pathlib
import signal
import time

from tests.support import program

CONFIG = '''
"""A run on the engine, long enough to be disturbed."""

from gossipjax.config import defaults


def get_config(strategy):
  config = defaults.get_config(strategy)
  config.update(workers=3, steps=5000, log_every=5, eval_every=20)
  config.update(checkpoint_every=20, engine='ray')
  config.cluster = defaults.cluster(step_s=0.05)
  return config
'''
WORKER, SERVER = 'ray::WorkerProcess', 'ray::ServerProcess'
LIMIT_S = 240


class Run:
  """A run of CONFIG in a process of its own."""

  def __init__(self, folder, strategy, *words):
    (folder / 'long.py').write_text(CONFIG)
    self.workdir, self._folder = folder / 'run', folder
    self._strategy = strategy
    self.process = program.start(
      folder / f'said{len(words)}',
      f'--config={folder}/long.py:{strategy}',
      f'--workdir={self.workdir}',
      *words,
      **program.QUICKLY,
    )
    self._said = folder / f'said{len(words)}/err'

  def records(self):
    path = self.workdir / self._strategy / 'records.jsonl'
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith('}')]

  def said(self):
    return self._said.read_text() if self._said.exists() else ''

  def wait(self, until):
    """Waits until `until()` is true; returns it. The run must not end first."""
    give_up = time.monotonic() + LIMIT_S
    while not (found := until()):
      assert time.monotonic() < give_up and self.process.alive(), self.said()
      time.sleep(0.2)
    return found

  def stop(self):
    self.process.send(signal.SIGTERM)
    return self.process.end(LIMIT_S)


def descendants(pid):
  """Command lines of all descendants of a process, by process id."""
  parents, lines = {}, {}
  for place in pathlib.Path('/proc').glob('[0-9]*'):
    try:
      text = (place / 'stat').read_text()
      lines[int(place.name)] = (place / 'cmdline').read_text()
    except OSError:
      continue
    state, parent = text.rpartition(')')[2].split()[:2]
    if state != 'Z':
      parents[int(place.name)] = int(parent)
  found, ages = {}, [pid]
  for one in ages:
    children = [p for p, parent in parents.items() if parent == one]
    ages += children
    found |= {p: lines[p] for p in children}
  return found


def named(pid, name):
  return [p for p, line in descendants(pid).items() if line.startswith(name)]


def alive(pid):
  try:
    return pathlib.Path(f'/proc/{pid}/stat').read_text().split()[2] != 'Z'
  except OSError:
    return False
