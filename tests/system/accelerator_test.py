"""Every part of what is measured on a GPU, rehearsed at a small size."""

import json
import subprocess
import sys

import pytest

from benchmarks.accelerator.__main__ import PARTS


def call(folder, *words):
  """The output of a call."""
  return subprocess.run(
    [sys.executable, '-m', 'benchmarks.accelerator', f'--out={folder}', *words],
    check=True,
    capture_output=True,
    text=True,
    timeout=600,
  ).stdout


@pytest.mark.parametrize('part', PARTS)
def test_a_part_is_made_once_and_summarised(tmp_path, part):
  told = call(tmp_path, part, '--rehearse')
  failed = tmp_path / 'failed.jsonl'
  assert not failed.exists(), failed.read_text()
  assert told
  again = call(tmp_path, part, '--rehearse')
  assert again == ('training: 0 runs made\n' if part == 'training' else '')
  table = call(tmp_path, '--summary')
  assert f'## {part}' in table
  assert (tmp_path / 'summary.md').read_text() in table
  if part in ('laws', 'compiled'):
    lines = (tmp_path / f'{part}.jsonl').read_text().splitlines()
    results = [json.loads(line)['result'] for line in lines]
    assert all(one.get('holds', True) for one in results), results
