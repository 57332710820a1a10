"""All measurements that are meant for a GPU, rehearsed at a small size."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.accelerator.__main__ import PARTS


def call(folder, *words):
  """Calls the benchmark; returns its stdout.

  The code that it compiles is not optimised: figures of a rehearsal mean
  nothing, and what is compiled has the same collectives.
  """
  return subprocess.run(
    [sys.executable, '-m', 'benchmarks.accelerator', f'--out={folder}', *words],
    env=os.environ | {'JAX_DISABLE_MOST_OPTIMIZATIONS': '1'},
    check=True,
    capture_output=True,
    text=True,
    timeout=1_800,
  ).stdout


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """A folder with the measurements of every part, and their summary."""
  out = tmp_path_factory.mktemp('accelerator')
  assert call(out, '--rehearse', '--minutes=30')
  failed = out / 'failed.jsonl'
  assert not failed.exists(), failed.read_text()
  call(out, '--summary')
  return out


@pytest.mark.parametrize('part', PARTS)
def test_each_part_is_measured_and_summarised(folder, part):
  assert f'## {part}, rehearsed' in (folder / 'summary.md').read_text()
  if part in ('laws', 'compiled'):
    lines = (folder / f'{part}.jsonl').read_text().splitlines()
    results = [json.loads(line)['result'] for line in lines]
    judged = [one['holds'] for one in results if 'holds' in one]
    assert judged and all(judged), results


def test_existing_measures_are_not_made_again(folder):
  files = sorted(folder.glob('*.jsonl'))
  before = [file.read_bytes() for file in files]
  nothing = 'training: 0 runs made, 0 studies given up\n'
  assert call(folder, '--rehearse') == nothing
  assert [file.read_bytes() for file in files] == before
