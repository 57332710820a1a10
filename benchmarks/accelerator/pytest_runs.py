"""Runs tests with pytest, and says what it found, also if cut off."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
TAIL_LIMITS = 10, 800  # Last lines and characters that are kept of a failure.


def command(tests: str | pathlib.Path, processes: int) -> list[str]:
  """Returns the words that run a file of tests, or one of its functions, in so
  many processes, and print a line about each test as soon as it ends."""
  return [
    *(sys.executable, '-m', 'pytest', '-n', str(processes)),
    '-vv',  # The -q of pyproject.toml takes one away.
    *('-p', 'no:cacheprovider', '-m', 'not exhaustive', str(tests)),
  ]


def outcome(
  command: Sequence[str], environment: Mapping[str, str], left: float
) -> dict[str, Any]:
  """Runs a command and returns its outcome, see `of_report`.

  Args:
    command: see `command`.
    environment: variables, besides those of this process.
    left: seconds within which this returns.

  Raises:
    RuntimeError: pytest ended without a report (with its last lines), or was
      cut off (with the number of tests passed, and those that failed).
  """
  with tempfile.TemporaryDirectory() as folder:
    report, output = pathlib.Path(folder, 'xml'), pathlib.Path(folder, 'said')
    with output.open('w') as out, explain_timeout(output):
      subprocess.run(
        [*command, f'--junitxml={report}'],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=out,
        stderr=subprocess.STDOUT,
        timeout=max(1.0, left - 5),
      )
    if not report.exists():
      raise RuntimeError(
        f'pytest made no report: {last_lines(output.read_text())}'
      )
    return of_report(report)


@contextlib.contextmanager
def explain_timeout(output: pathlib.Path) -> Iterator[None]:
  """Adds to a timeout what the tests had found, according to their output."""
  try:
    yield
  except subprocess.TimeoutExpired as error:
    lines = re.findall(r'(PASSED|FAILED|ERROR) (\S+)', output.read_text())
    # A test that passed may yet fail as its fixtures end.
    results = {test: result for result, test in lines}
    failed = [
      test.rpartition('::')[2]
      for test, result in results.items()
      if result != 'PASSED'
    ]
    raise RuntimeError(
      f'cut off after {len(results) - len(failed)} tests that passed and '
      f'{len(failed)} that failed: {", ".join(failed)}'
    ) from error


def of_report(report: pathlib.Path) -> dict[str, Any]:
  """Reads a report of pytest in JUnit's format.

  Returns:
    The numbers of tests and of skipped tests, the last lines of the reason by
    failed test, and whether there are tests and none failed.
  """
  cases = [*ElementTree.parse(report).iter('testcase')]
  failed = {
    case.get('name'): last_lines(why.text or why.get('message') or '')
    for case in cases
    for why in (*case.iter('failure'), *case.iter('error'))
  }
  skipped = sum(case.find('skipped') is not None for case in cases)
  return {
    'tests': len(cases),
    'skipped': skipped,
    'failed': failed,
    'holds': bool(cases) and not failed,
  }


def last_lines(text: str) -> str:
  """The end of a text."""
  lines, characters = TAIL_LIMITS
  return '\n'.join(text.strip().splitlines()[-lines:])[-characters:]
