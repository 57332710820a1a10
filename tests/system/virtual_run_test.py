"""run.py in virtual time: the files it writes, how it ends, how it resumes."""

import json

import msgspec
import numpy as np
import pytest

from gossipjax.comparison import compare
from gossipjax.config import defaults
from gossipjax.simulation import simulate
from gossipjax.training.checkpoint import Store
from gossipjax.training.loop import Interrupted
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train
from tests.support import program

CONFIG = '''
"""A small comparison in virtual time."""

from ml_collections import ConfigDict

from gossipjax.config import defaults, resolve


def get_config():
  config = defaults.get_config()
  config.update(workers=3, steps=6, log_every=1, eval_every=3)
  config.cluster = defaults.cluster(
      compute='gamma', spread=0.3, timeout_s=5.0, target_accuracy=0.99)
  waits = {'asynchronous': False}
  config.variants = ConfigDict({
      'elastic': {'strategy': resolve.strategy_config('elastic')},
      'stopped': {'strategy': resolve.strategy_config('all_reduce'),
                  'cluster': {**waits, 'failures': ((1, 0.35),)}},
      'never_began': {'strategy': resolve.strategy_config('all_reduce'),
                      'cluster': {**waits, 'failures': ((2, 0.0),)}}})
  return config
'''


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  folder = tmp_path_factory.mktemp('virtual')
  (folder / 'small.py').write_text(CONFIG)
  ended = program.run(
    folder, f'--config={folder}/small.py', f'--workdir={folder}/run'
  )
  assert ended.code == 0, ended.err
  return folder / 'run', ended


def test_virtual_time_adds_a_timeline_to_the_files_of_a_comparison(done):
  folder, _ = done
  assert {'timeline.png', 'report.html', 'comparison.md', 'summary.json'} <= {
    p.name for p in folder.iterdir()
  }
  page = (folder / 'report.html').read_text()
  assert 'Staleness: versions of the model' in page
  assert 'stopped after ' in page  # How runs ended.
  spans = json.loads((folder / 'elastic/timeline.json').read_text())
  assert {kind for _, kind, *_ in spans} == {'compute', 'wait', 'transfer'}
  assert all(until > since >= 0 for *_, since, until in spans)


def test_records_contain_virtual_times_and_staleness(done):
  lines = (done[0] / 'elastic/records.jsonl').read_text().splitlines()
  records = [json.loads(line) for line in lines]
  assert [r['step'] for r in records] == [1, 2, 3, 4, 5, 6]
  times = [r['virtual_s'] for r in records]
  assert times == sorted(times) and times[0] > 0
  last = records[-1]
  for key in ('compute_s', 'waiting_s', 'transfer_s'):
    assert len(last[key]) == 3 and min(last[key]) > 0
  assert 0 < last['link_utilisation'] < 1 and last['staleness'] > 0


def test_the_table_shows_virtual_time_and_which_runs_ended_early(done):
  folder, ended = done
  text = (folder / 'comparison.md').read_text()
  for word in ('virtual time', 'staleness', 'longest wait', 'busiest link'):
    assert word in text
  assert 'elastic never reached 0.99 in 6 steps.' in text
  assert 'stopped waited for worker 1 until the time-out.' in text
  never = 'worker 2 until the time-out, before its first step was done.'
  assert f'never_began waited for {never}' in text
  assert text in ended.out
  assert 'virtual seconds' in (folder / 'report.html').read_text()


def small(name, **cluster):
  config = defaults.get_config(name)
  config.update(
    workers=3,
    steps=6,
    log_every=1,
    eval_every=3,
    checkpoint_every=2,
    executor='vmap',
  )
  config.cluster = defaults.cluster(**cluster)
  return config


def test_a_stopped_simulation_resumes_bit_for_bit(tmp_path):
  config = small('elastic', compute='gamma', spread=0.3, server='fair')
  whole = Store(tmp_path / 'whole')
  expected = list(simulate.simulate(resolve_run(config), whole))
  store, interrupts = Store(tmp_path / 'parts'), iter([False, False, True])
  records = []
  with pytest.raises(Interrupted):
    for record in simulate.simulate(
      resolve_run(config), store, lambda: next(interrupts)
    ):
      records.append(record)
  records += simulate.simulate(resolve_run(config), store)
  without_times = {'wall_s': 0, 'train_s': 0, 'examples_per_s': 0}
  assert [msgspec.structs.replace(r, **without_times) for r in records] == [
    msgspec.structs.replace(r, **without_times) for r in expected
  ]
  a, b = (program.arrays(tmp_path / name) for name in ('whole', 'parts'))
  assert a.keys() == b.keys()
  for place in a:
    np.testing.assert_array_equal(a[place], b[place], err_msg=place)


def test_synchronous_virtual_time_trains_as_lock_step_does():
  config = small('all_reduce', asynchronous=False)
  lock_step = small('all_reduce')
  lock_step.cluster = {}
  for ours, theirs in zip(
    simulate.simulate(resolve_run(config)),
    train(resolve_run(lock_step)),
    strict=True,
  ):
    assert ours.train_loss == pytest.approx(theirs.train_loss, rel=1e-5)
    assert ours.bytes_sent == theirs.bytes_sent
    assert ours.virtual_s == pytest.approx(
      0.1 * ours.step + theirs.comm_s['1gbe']
    )


def test_a_target_that_is_reached_ends_the_run():
  config = small('all_reduce', asynchronous=False, target_accuracy=0.1)
  records = list(simulate.simulate(resolve_run(config)))
  assert records[-1].step == 3 and records[-1].test_accuracy >= 0.1


@pytest.mark.parametrize(
  ('name', 'given'),
  [
    ('elastic', {}),
    ('decoupled_diloco', {'quorum': 3, 'fragments': 2, 'delay': 1}),
  ],
)
def test_the_model_of_a_server_scores_above_50_percent(name, given):
  config = defaults.get_config(name)
  config.update(workers=3, steps=40, log_every=40, eval_every=40)
  config.strategy.update(period=4, **given)
  config.cluster = defaults.cluster()
  (record,) = simulate.simulate(resolve_run(config))
  assert record.test_accuracy > 0.5


def test_an_audit_in_virtual_time_is_refused(tmp_path):
  with pytest.raises(ValueError, match='lock-step programs'):
    compare.compare(small('elastic'), tmp_path / 'run', audited=True)
