"""Tuning: equal budgets, no use of the test set, and no trial trained twice."""

import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from gossipjax.comparison import compare, one_training
from gossipjax.config import defaults
from gossipjax.config.variants import variants
from gossipjax.distributed import ports
from gossipjax.errors import UserError
from gossipjax.results import workdir
from gossipjax.training.run import resolve_run
from gossipjax.tuning import config_source, grid, trials, tune
from tests.support import program
from tests.support.tuning import STRATEGIES, load, small

RATES = {'optimizer.learning_rate': (0.1, 1e30)}

PARENT = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from gossipjax.tuning import trials
if __name__ == '__main__':
  context = multiprocessing.get_context('spawn')
  of = (1, context, trials._begin, (context.Event(), 1))
  with ProcessPoolExecutor(*of) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 60).result()
"""


@pytest.fixture(scope='module')
def tuned(tmp_path_factory):
  """The folder with the files of a tuning, and its result."""
  folder = tmp_path_factory.mktemp('tune') / 'run'
  return folder, tune.best(small(*STRATEGIES), RATES, 1, folder)


def test_trials_end_with_their_parent_process():
  """Only the parent locks their folder."""
  parent = subprocess.Popen(
    [sys.executable, '-c', PARENT], stdout=subprocess.PIPE, text=True
  )
  trial = int(parent.stdout.readline())
  parent.kill()
  parent.wait()
  until = time.monotonic() + 20
  while pathlib.Path(f'/proc/{trial}/cmdline').exists():
    assert time.monotonic() < until
    time.sleep(0.1)


def test_a_trial_that_takes_no_step_ends_with_an_error(tmp_path):
  """Its only score is that of the initial model."""
  config = small('all_reduce')
  config.cluster = defaults.cluster(
    asynchronous=False, failures=((0, 0.0),), timeout_s=1.0
  )
  with pytest.raises(UserError, match='all_reduce took no step'):
    tune.best(config, RATES, 1, tmp_path / 'run')


def test_every_variant_has_the_same_trials(tuned):
  assert [
    (r['variant'], r['optimizer.learning_rate'], r['seed'])
    for r in tuned[1].rows
  ] == [(name, rate, 0) for name in STRATEGIES for rate in (0.1, 1e30)]


def test_a_diverged_trial_has_no_score_and_stops_no_other_trial(tuned):
  for row in tuned[1].rows:
    too_fast = row['optimizer.learning_rate'] == 1e30
    assert bool(row['diverged']) == too_fast
    assert (row['validation_accuracy'] is None) == too_fast
  assert tuned[1].chosen == {
    name: {'optimizer.learning_rate': 0.1} for name in STRATEGIES
  }


def test_trials_are_scored_on_validation_data_not_the_test_set(tuned):
  runs = dict(variants(small(*STRATEGIES)))
  trial = trials.plan(runs, RATES, 1, None, tuned[0])[0]
  of_run = resolve_run(runs[trial.variant]).task
  of_trial = resolve_run(trial.config).task
  images = lambda x: {image.tobytes() for image in x}
  held = images(of_trial.test[0])
  assert len(held) == 150 and not held & images(of_run.test[0])
  assert not held & images(of_trial.train[0].reshape(-1, 8, 8, 1))


def test_finished_trials_are_not_run_again(tuned, monkeypatch):
  folder, first = tuned
  monkeypatch.setattr(one_training, 'train', None)
  again = tune.best(small(*STRATEGIES), RATES, 1, folder)
  assert again.rows == first.rows


def test_a_grid_with_other_values_reuses_trials_at_common_points(tuned):
  more = {'batch_size': (8, 16), 'optimizer.learning_rate': (0.5, 0.1)}
  plans = [
    trials.plan({'a': small()}, values, 2, None, tuned[0])
    for values in (RATES, {**RATES, 'optimizer.learning_rate': (3, 0.1)}, more)
  ]
  few, other, grown = ({trial.folder for trial in plan} for plan in plans)
  assert few & other == {folder for folder in few if 'rate=0.1,' in folder.name}
  assert not few & grown  # Their names include a batch size.


def test_the_written_config_is_the_comparison_with_the_best_values(tuned):
  folder, found = tuned
  config = load(folder / 'tuned.py')
  assert config.to_dict() == found.config.to_dict()
  assert config.task.get_type('width') is int
  runs = dict(variants(config))
  assert list(runs) == list(STRATEGIES)
  for name, run in variants(small(*STRATEGIES)):
    assert runs[name].to_dict() == grid.at(run, found.chosen[name]).to_dict()
    assert run.split.holdout == 'test'


def test_the_tables_have_every_trial_and_every_point(tuned):
  folder, found = tuned
  lines = list(csv.DictReader((folder / 'trials.csv').open()))
  assert len(lines) == len(found.rows) == 4
  text = (folder / 'trials.md').read_text()
  assert len(re.findall(r'\n\| local_sgd +\|', text)) == 1 + 2


def test_tune_refuses_a_folder_of_run_and_run_a_folder_of_tune(tuned, tmp_path):
  config, folder = small(*STRATEGIES), tmp_path / 'run'
  config.steps = config.eval_every = 3
  summary = compare.compare(config, folder)
  config.steps = 6  # `run` would extend it to more steps.
  with pytest.raises(UserError, match='a folder of `run`, not of `tune`'):
    tune.best(config, RATES, 1, folder)
  assert workdir.summary(folder) == json.loads(json.dumps(summary))
  with pytest.raises(UserError, match='a folder of `tune`, not of `run`'):
    compare.compare(config, tuned[0], resume=True)


def test_trials_do_not_end_at_the_target_accuracy_of_virtual_time(tmp_path):
  """Otherwise one that is far past it at an early evaluation would win."""
  config = small('topk', 'all_reduce')
  config.cluster = defaults.cluster(asynchronous=False, target_accuracy=0.1)
  config.update(steps=4, eval_every=1)
  found = tune.best(
    config, {'optimizer.learning_rate': (0.1, 0.2)}, 1, tmp_path
  )
  for path in tmp_path.glob('*/*/summary.json'):
    assert json.loads(path.read_text())['steps'] == 4
  assert found.config.cluster.target_accuracy == 0.1


MISTAKES = {
  'no grid': ('', '--grid learning_rate'),
  'a key that no config has': (
    '--grid=optimizer.learning_rat=1,2',
    'optimizer.learning_rat no variant optimizer.learning_rate',
  ),
  'an argument that optax has by default': (
    '--grid=optimizer.accumulator_dtype=1,2',
    'set first: --config.optimizer.accumulator_dtype=VALUE.',
  ),
  'a key that no config has, with one value': (
    '--grid=optimizer.learning_rat=1',
    'optimizer.learning_rat no variant optimizer.learning_rate',
  ),
  'no values': ('--grid=batch_size', 'batch_size no values'),
  'one value': ('--grid=batch_size=8', 'batch_size two or more'),
  'a value twice': ('--grid=batch_size=8,8', 'batch_size each once'),
  'a key twice': (
    '--grid=batch_size=8,9 --grid=batch_size=3,4',
    'batch_size twice',
  ),
  'a value of another type': (
    '--grid=optimizer.learning_rate=0.1,fast',
    "learning_rate='fast' float",
  ),
  'a value out of range': ('--grid=batch_size=8,188', 'batch_size 188'),
  'strategies': (
    '--grid=strategy.name=gossip,topk',
    'strategy.name variants of these strategies',
  ),
  'the seed': ('--grid=seed=1,2', 'seed --seeds'),
  'no seeds': ('--grid=batch_size=8,9 --seeds=0', '--seeds least 1'),
  'no budget': ('--grid=batch_size=8,9 --budget=0', '--budget least 1'),
  'no process': ('--grid=batch_size=8,9 --processes=0', '--processes 1'),
  'another metric': ('--grid=batch_size=8,9 --metric=speed', 'metric speed'),
  'another way to use processes': (
    '--distributed --num_processes=1 --process_id=0 '
    f'--coordinator=127.0.0.1:{ports.free()}',
    'run --processes=K',
  ),
  'no config file': ('--config=configs/no.py', 'configs/no.py quickstart'),
}


@pytest.mark.parametrize('what', MISTAKES)
def test_a_mistake_ends_with_a_one_line_error_and_writes_nothing(
  what, tmp_path
):
  args, words = MISTAKES[what]
  ended = program.run(
    tmp_path,
    'tune',
    '--config=configs/default.py',
    *args.split(),
    f'--workdir={tmp_path}/run',
    module='gossipjax',
  )
  assert ended.code == 2 and ended.err.count('\n') == 1, ended.err
  for word in words.split():
    assert word in ended.err
  assert what == 'an argument that optax has by default' or (
    'set first' not in ended.err
  )
  assert not (tmp_path / 'run').exists()


def test_two_processes_give_the_results_of_one_process(tuned, tmp_path):
  (tmp_path / 'c.py').write_text(
    config_source.source(small('all_reduce'), 'Small.')
  )
  ended = program.run(
    tmp_path,
    'tune',
    f'--config={tmp_path}/c.py',
    '--processes=2',
    '--seeds=1',
    '--grid=optimizer.learning_rate=0.1,1e30',
    f'--workdir={tmp_path}/run',
    module='gossipjax',
  )
  assert ended.code == 0, ended.err
  one, two = (
    [
      line
      for line in csv.DictReader((folder / 'trials.csv').open())
      if line['variant'] == 'all_reduce'
    ]
    for folder in (tuned[0], tmp_path / 'run')
  )
  assert one[0].pop('train_s') and two[0].pop('train_s')
  assert one[0] == two[0] and one[1]['diverged'] == two[1]['diverged']


def test_a_signal_to_all_processes_stops_tuning_with_a_checkpoint(tmp_path):
  config = small('all_reduce')
  config.steps = config.log_every = config.eval_every = 10**6
  (tmp_path / 'c.py').write_text(config_source.source(config, 'Long.'))
  words = ['gossipjax', 'tune', f'--config={tmp_path}/c.py', '--processes=2']
  words += ['--grid=optimizer.learning_rate=0.1,0.2', '--seeds=1']
  words += [f'--workdir={tmp_path}/run']
  process = subprocess.Popen(
    [sys.executable, '-m', *words],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,
  )
  until = time.monotonic() + 120
  while len([*tmp_path.glob('run/*/*/records.jsonl')]) < 2:
    assert process.poll() is None and time.monotonic() < until
    time.sleep(0.2)
  os.killpg(process.pid, signal.SIGTERM)
  stderr = process.communicate(timeout=60)[1]
  assert process.returncode == 128 + signal.SIGTERM, stderr
  assert re.search('Stopped after step [0-9]+, checkpoint kept', stderr)
  assert [*tmp_path.rglob('checkpoints/*')]


def test_the_printed_command_quotes_a_folder_with_a_space(
  tmp_path,
):
  ended = program.run(
    tmp_path,
    'tune',
    '--config=configs/default.py',
    '--config.steps=2',
    '--config.executor=vmap',
    '--seeds=1',
    '--grid=batch_size=4,8',
    f'--workdir={tmp_path}/my runs',
    module='gossipjax',
  )
  assert ended.code == 0, ended.err
  assert f"run '--config={tmp_path}/my runs/tuned.py'" in ended.out


def test_tuning_in_which_nothing_was_learned_says_so(tmp_path):
  rates = {'optimizer.learning_rate': (1e-9, 2e-9)}
  table = tune.best(small('all_reduce'), rates, 1, tmp_path / 'run').table
  assert re.search(
    r'- all_reduce learned little or nothing at its best point: always naming '
    r'the most frequent label has an accuracy of \d+\.\d\d %',
    table,
  )
