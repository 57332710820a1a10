"""Output streams that are closed, full, unread, or limited to ASCII."""

import subprocess
import sys

import pytest

from tests.support import program

PRINTING = """
import sys
from gossipjax.commands import command_line
def main(argv, signals):
  print('1 ± 2 ' * 20000)
  print('written', file=sys.stderr)
command_line.start(None, lambda: None, main, [])
"""


def run_redirected(redirection: str, **env: str) -> subprocess.CompletedProcess:
  command = [sys.executable, '-c', PRINTING]
  return subprocess.run(
    ['bash', '-c', f'"$@" {redirection}', 'bash', *command],
    cwd=program.ROOT,
    env=program.ENVIRONMENT | env,
    capture_output=True,
    timeout=120,
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'redirection, code, stderr',
  [
    ('| true; exit ${PIPESTATUS[0]}', 141, b''),  # 128 + SIGPIPE.
    ('>&-', 0, b'written\n'),
    ('2>&-', 0, b''),
  ],
)
def test_a_closed_or_unread_stream_prints_no_error(redirection, code, stderr):
  found = run_redirected(redirection)
  assert (found.returncode, found.stderr) == (code, stderr)


@pytest.mark.parametrize(
  'redirection', ['2>/dev/full', '2>&1 >/dev/null | true']
)
def test_a_failed_write_to_stderr_does_not_end_the_program(
  redirection, tmp_path
):
  code = (
    'import pathlib; from gossipjax.commands import streams\n'
    '[streams.print_line("a" * 10**5) for _ in range(3)]\n'
    f'pathlib.Path({str(tmp_path / "end")!r}).touch()'
  )
  command = [sys.executable, '-c', code]
  subprocess.run(
    ['bash', '-c', f'set -o pipefail; "$@" {redirection}', 'bash', *command],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    check=True,
    timeout=120,
  )
  assert (tmp_path / 'end').exists()


@pytest.mark.exhaustive
def test_a_character_that_cannot_be_encoded_becomes_a_question_mark():
  found = run_redirected('', PYTHONIOENCODING='ascii')
  assert found.returncode == 0
  assert found.stdout.startswith(b'1 ? 2 ')
