"""Which tests pytest runs if its command line names a path."""

import subprocess
import sys

import pytest

from tests.support import program

SYSTEM = 'tests/system/docs_test.py::test_a_page_is_of_its_strategy'


@pytest.mark.exhaustive
@pytest.mark.parametrize('processes', ['0', '1'])
def test_a_path_on_the_command_line_runs_tests_of_every_tier(processes):
  file, _, name = SYSTEM.partition('::')
  done = subprocess.run(
    [sys.executable, '-m', 'pytest', file, '-k', name, '-n', processes],
    cwd=program.ROOT,
    text=True,
    capture_output=True,
  )
  assert done.returncode == 0 and '1 passed' in done.stdout, done.stdout
