"""Live logs contain what records.jsonl contains."""

import json
import struct
import sys

import pytest
from tensorboardX.proto.event_pb2 import Event

from gossipjax.comparison import loggers
from gossipjax.comparison.compare import compare
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.training.record import Record
from tests.support.workdirs import record


def events(folder):
  """(tag, step, value) of all event files; their format is TFRecord."""
  for path in sorted(folder.glob('events*')):
    data = path.read_bytes()
    while data:
      (size,) = struct.unpack('<Q', data[:8])
      event, data = Event.FromString(data[12 : 12 + size]), data[16 + size :]
      for value in event.summary.value:
        yield value.tag, event.step, value.simple_value


def config(**log):
  config = defaults.get_config()
  config.update(workers=2, steps=4, log_every=2, eval_every=4, log=log)
  config.checkpoint_every = 0
  return config


@pytest.mark.exhaustive
def test_tensorboard_and_wandb_log_a_comparison(tmp_path, monkeypatch):
  import wandb

  monkeypatch.setenv('WANDB_MODE', 'offline')
  monkeypatch.setenv('WANDB_SILENT', 'true')
  compare(config(tensorboard=True, wandb=True), tmp_path / 'a')
  run = tmp_path / 'a' / 'all_reduce'
  lines = [
    json.loads(line)
    for line in (run / 'records.jsonl').read_text().splitlines()
  ]
  shown = {
    (tag, step): value for tag, step, value in events(run / 'tensorboard')
  }
  assert {step for _, step in shown} == {2, 4}
  for line in lines:
    step = line['step']
    for tag, value in (
      ('train_loss', line['train_loss']),
      ('bytes_sent', max(line['bytes_sent'])),
      ('comm_s/1gbe', line['comm_s']['1gbe']),
    ):
      assert shown[tag, step] == pytest.approx(value)
  assert ('test_accuracy', 2) not in shown and ('test_accuracy', 4) in shown
  wandb.teardown()  # Its process writes the file after run.finish() returns.
  (kept,) = (tmp_path / 'a' / 'wandb').glob('offline-run-*/run-*.wandb')
  for key in (b'train_loss', b'test_accuracy', b'comm_s/1gbe'):
    assert key in kept.read_bytes()
  # By this id a resumed run continues its own log, no other of this path.
  assert kept.stem == f'run-{(run / "wandb-id").read_text()}'
  # The report is in the same workdir.
  assert (tmp_path / 'a' / 'report.html').stat().st_size > 1e6


def test_each_run_has_its_own_log(tmp_path):
  with loggers.Live(tmp_path, {}) as live:
    for name, step in (('a', 1), ('a', 2), ('b', 1)):
      live(name, config(tensorboard=True, wandb=False), Record(**record(step)))
  steps = {
    name: {
      step for _, step, _ in events(tmp_path / name / 'tensorboard') if step
    }
    for name in 'ab'
  }
  assert steps == {'a': {1, 2}, 'b': {1}}


@pytest.mark.parametrize(
  'key, package', [('tensorboard', 'tensorboardX'), ('wandb', 'wandb')]
)
def test_a_log_without_its_package_is_refused_before_anything_is_written(
  tmp_path, monkeypatch, key, package
):
  monkeypatch.setitem(sys.modules, package, None)
  with pytest.raises(UserError, match=rf'config.log.{key} .*pip .*\[{key}\]'):
    compare(
      config(**{'tensorboard': False, 'wandb': False, key: True}),
      tmp_path / 'a',
    )
  assert not (tmp_path / 'a').exists()


def test_without_logs_no_log_is_imported_or_written(tmp_path, monkeypatch):
  for package in ('tensorboardX', 'wandb'):
    monkeypatch.setitem(sys.modules, package, None)
  off = config(tensorboard=False, wandb=False)
  with loggers.Live(tmp_path, {'a': off}) as live:
    live('a', off, Record(**record(1)))
  assert not list(tmp_path.iterdir())
