"""Errors of a full disk name the file, which those of an open file do not."""

import errno
import pathlib
import subprocess
import sys

import pytest

from gossipjax.comparison import event_log
from gossipjax.results import record_file, workdir
from gossipjax.training import durable_files
from gossipjax.training.record import Record
from tests.support.workdirs import record

FULL = pathlib.Path('/dev/full')  # Every write to it fails.


def test_the_error_of_a_full_disk_names_the_file(tmp_path):
  path = tmp_path / 'name'
  durable_files.partial(path).symlink_to(FULL)
  with pytest.raises(OSError, match='name') as raised:
    durable_files.write(path, 'contents')
  assert (raised.value.errno, raised.value.filename) == (
    errno.ENOSPC,
    str(path),
  )


def test_the_error_of_appending_a_record_names_the_file():
  with pytest.raises(OSError, match='full') as raised:
    record_file.append(FULL, Record(**record(1)))
  assert raised.value.filename == str(FULL)


def test_a_full_disk_does_not_hide_the_error_to_be_logged(tmp_path):
  (tmp_path / event_log.NAME).symlink_to(FULL)
  with (
    pytest.raises(ZeroDivisionError),
    event_log.EventLog(tmp_path),
  ):
    raise ZeroDivisionError
  with pytest.raises(OSError, match=event_log.NAME):
    event_log.EventLog(tmp_path)('A sentence.')


def test_a_failed_write_names_the_file_and_leaves_no_partial_file(tmp_path):
  (tmp_path / 'page').mkdir()
  for path in (tmp_path / 'page', tmp_path / 'no' / 'page'):
    with pytest.raises(OSError) as caught:
      durable_files.write(path, 'text')
    assert caught.value.filename == str(path)
  assert [path.name for path in tmp_path.iterdir()] == ['page']


WRITER = """
import pathlib, sys
from gossipjax.training import durable_files
path = pathlib.Path(sys.argv[1])
for _ in range(50):
  durable_files.write(path, sys.argv[2] * 10_000)
"""


def test_two_processes_that_write_one_file_leave_a_whole_version(tmp_path):
  path = tmp_path / 'page'
  writers = [
    subprocess.Popen([sys.executable, '-c', WRITER, str(path), letter])
    for letter in 'ab'
  ]
  assert [writer.wait() for writer in writers] == [0, 0]
  assert path.read_text() in ('a' * 10_000, 'b' * 10_000)
  assert [*tmp_path.iterdir()] == [path]


def test_making_folders_syncs_the_parent_of_each_new_one(tmp_path, monkeypatch):
  synced = []
  monkeypatch.setattr(durable_files, 'sync', synced.append)
  durable_files.make(tmp_path / 'a/b')
  assert synced == [tmp_path, tmp_path / 'a'] and (tmp_path / 'a/b').is_dir()
  durable_files.make(tmp_path / 'a/b')
  assert len(synced) == 2


def test_resuming_a_run_removes_half_written_files(tmp_path):
  half = durable_files.partial(tmp_path / durable_files.MODEL)
  half.write_bytes(b'half')
  (tmp_path / '.4.half').mkdir()  # A checkpoint: left to its store.
  (tmp_path / 'records.jsonl').write_text('')
  workdir.reopen(tmp_path)
  left = {path.name for path in tmp_path.iterdir()}
  assert left == {'.4.half', 'records.jsonl'}
