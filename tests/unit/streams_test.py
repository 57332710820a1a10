"""Output that is closed or full, has no reader, or knows few characters."""

import subprocess
import sys

import pytest

from tests.support import program

PRINTS = """
import sys
from gossipjax.commands import command_line
def main(argv, signals):
  print('1 ± 2 ' * 20000)
  print('written', file=sys.stderr)
command_line.start(None, lambda: None, main, [])
"""


def ended(redirection: str, **env: str) -> subprocess.CompletedProcess:
  words = [sys.executable, '-c', PRINTS]
  return subprocess.run(
    ['bash', '-c', f'"$@" {redirection}', 'bash', *words],
    cwd=program.ROOT,
    env=program.ENVIRONMENT | env,
    capture_output=True,
    timeout=120,
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'redirection, code, told',
  [
    ('| true; exit ${PIPESTATUS[0]}', 141, b''),  # 128 + SIGPIPE.
    ('>&-', 0, b'written\n'),
    ('2>&-', 0, b''),
  ],
)
def test_output_that_nobody_reads_is_no_error(redirection, code, told):
  found = ended(redirection)
  assert (found.returncode, found.stderr) == (code, told)


@pytest.mark.parametrize('bad', ['2>/dev/full', '2>&1 >/dev/null | true'])
def test_lines_on_stderr_that_are_lost_end_nothing(bad, tmp_path):
  code = (
    'import pathlib; from gossipjax.commands import streams\n'
    '[streams.print_line("a" * 10**5) for _ in range(3)]\n'
    f'pathlib.Path({str(tmp_path / "end")!r}).touch()'
  )
  words = [sys.executable, '-c', code]
  subprocess.run(
    ['bash', '-c', f'set -o pipefail; "$@" {bad}', 'bash', *words],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    check=True,
    timeout=120,
  )
  assert (tmp_path / 'end').exists()


@pytest.mark.exhaustive
def test_what_has_no_character_is_a_question_mark():
  found = ended('', PYTHONIOENCODING='ascii')
  assert found.returncode == 0
  assert found.stdout.startswith(b'1 ? 2 ')
