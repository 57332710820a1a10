"""Injects faults, one of each kind per seed, and prints the findings."""

import argparse
import collections
import contextlib
import importlib
import itertools
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

KINDS = ('config', 'data', 'workdir', 'kill', 'launch')


def campaign(
  kinds: list[str], seed: int, count: int | None, minutes: float
) -> dict[str, list[int]]:
  """Injects faults of each kind in turn, until the time or the count is up.

  Returns:
    [number of faults, number of findings] by kind.
  """
  until = time.monotonic() + 60 * minutes
  modules = {k: importlib.import_module(f'tests.campaign.{k}') for k in kinds}
  tally = collections.defaultdict(lambda: [0, 0])
  with _hangups_end_children(), tempfile.TemporaryDirectory() as shared:
    for one in itertools.count(seed):
      if one - seed == count or time.monotonic() > until:
        return dict(tally)
      for kind, module in modules.items():
        with tempfile.TemporaryDirectory() as folder:
          found = module.attempt(
            one, pathlib.Path(folder), pathlib.Path(shared)
          )
        tally[kind][0] += 1
        if found:
          tally[kind][1] += 1
          command = f'python -m tests.campaign {kind} --seed={one} --count=1'
          print(f'{found}\n  {command}', flush=True)
  raise AssertionError


@contextlib.contextmanager
def _hangups_end_children() -> Iterator[None]:
  """Lets child processes get SIGHUP, which some faults send, as they usually
  do: nohup ignores it, and children inherit ignored signals, not handlers."""
  ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
  if ignored:
    signal.signal(signal.SIGHUP, lambda *_: None)
  try:
    yield
  finally:
    if ignored:
      signal.signal(signal.SIGHUP, signal.SIG_IGN)


def main() -> None:
  parser = argparse.ArgumentParser(prog='python -m tests.campaign')
  parser.add_argument('kinds', nargs='*', choices=[*KINDS, []], default=KINDS)
  parser.add_argument('--minutes', type=float, default=10.0)
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--count', type=int, default=None, help='of each kind')
  given = parser.parse_args()
  tally = campaign(
    list(given.kinds) or list(KINDS), given.seed, given.count, given.minutes
  )
  for kind, (faults, findings) in tally.items():
    print(f'{kind}: {faults} faults, {findings} findings')
  sys.exit(any(findings for _, findings in tally.values()))


if __name__ == '__main__':
  main()
