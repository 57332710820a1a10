"""Equal tuning: the same budget for all, the test set unseen, nothing twice."""

import csv
import importlib.util
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import Future

import pytest
from ml_collections import ConfigDict, FieldReference

from gossipjax.comparison import compare, one_training
from gossipjax.config import defaults
from gossipjax.config.variants import variants
from gossipjax.distributed.launcher import free_port
from gossipjax.errors import UserError
from gossipjax.results import workdir
from gossipjax.training.run import resolve_run
from gossipjax.tuning import best_points, config_source, grid, trials, tune
from tests.support import program

RATES = {'optimizer.learning_rate': (0.1, 1e30)}
STRATEGIES = ('local_sgd', 'all_reduce')  # Not in alphabetical order.
BEGINS = """
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


def small(*strategies: str) -> defaults.ConfigDict:
  """Two workers, six steps."""
  config = defaults.get_config()
  config.update(workers=2, steps=6, log_every=3, eval_every=0, executor='vmap')
  config.split.examples = 64
  config.variants = defaults.variants(**{name: name for name in strategies})
  return config


@pytest.fixture(scope='module')
def tuned(tmp_path_factory):
  """Where a tuning left its files, and what it returned."""
  folder = tmp_path_factory.mktemp('tune') / 'run'
  return folder, tune.best(small(*STRATEGIES), RATES, 1, folder)


def test_trials_end_with_the_process_that_began_them():
  """Only that one locks their folder."""
  parent = subprocess.Popen(
    [sys.executable, '-c', BEGINS], stdout=subprocess.PIPE, text=True
  )
  trial = int(parent.stdout.readline())
  parent.kill()
  parent.wait()
  until = time.monotonic() + 20
  while pathlib.Path(f'/proc/{trial}/cmdline').exists():
    assert time.monotonic() < until
    time.sleep(0.1)


def test_a_trial_that_takes_no_step_chooses_nothing(tmp_path):
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


def test_a_trial_that_diverges_has_lost_and_stops_nobody(tuned):
  for row in tuned[1].rows:
    lost = row['optimizer.learning_rate'] == 1e30
    assert bool(row['diverged']) == lost
    assert (row['validation_accuracy'] is None) == lost
  assert tuned[1].chosen == {
    name: {'optimizer.learning_rate': 0.1} for name in STRATEGIES
  }


ROWS = [
  {
    'variant': v,
    'a.k': k,
    'seed': s,
    'validation_accuracy': score,
    'validation_loss': loss,
    'diverged': '' if score else 'NaN',
  }
  for v, k, s, score, loss in (
    ('x', 1, 0, 0.9, 0.6),
    ('x', 1, 1, None, None),  # Once the best.
    ('x', 2, 0, 0.8, 0.5),
    ('x', 2, 1, 0.6, 0.5),
    ('x', 3, 0, 0.7, 0.1),
    ('x', 3, 1, 0.6, 0.3),
    ('y', None, 0, 0.3, 0.1),
    ('y', None, 1, 0.3, 0.1),
  )
]


@pytest.mark.parametrize(
  ('metric', 'best'), [('validation_accuracy', 2), ('validation_loss', 3)]
)
def test_the_best_mean_over_seeds_is_chosen(metric, best):
  assert best_points.choose(ROWS, {'a.k': (1, 2, 3)}, metric) == {
    'x': {'a.k': best},
    'y': {},
  }


@pytest.mark.parametrize(('none', 'best'), [(0.9, None), (0.1, 128)])
def test_none_is_a_value_of_a_grid(none, best):
  rows = [
    {
      'variant': 'x',
      'k': k,
      'seed': 0,
      'validation_accuracy': score,
      'diverged': '',
    }
    for k, score in ((None, none), (128, 0.5))
  ]
  values = {'k': (None, 128)}
  chosen = best_points.choose(rows, values, 'validation_accuracy')
  assert chosen == {'x': {'k': best}}
  assert best_points.at_an_edge(chosen, rows) == (
    ['x: k=128 is at an edge of the grid; the best may lie beyond.']
    if best
    else []
  )


def test_the_table_says_which_values_are_at_an_edge():
  values = {'a.k': (1, 2, 3)}
  text = best_points.markdown(
    ROWS,
    values,
    'validation_loss',
    best_points.choose(ROWS, values, 'validation_loss'),
  )
  assert 'x: a.k=3 is at an edge' in text
  assert '| x | 3 | 0.2 | 0.141 | 2 | 0 |' in re.sub(' +', ' ', text)
  assert 'edge' not in best_points.markdown(
    ROWS, values, 'validation_accuracy', {'x': {'a.k': 2}}
  )
  # With --budget a variant has tried a part of the grid only.
  tried = [row for row in ROWS if row['a.k'] in (1, 2)]
  assert best_points.at_an_edge({'x': {'a.k': 2}}, tried)


def test_the_table_tells_values_that_are_near_each_other_apart():
  rates = (0.03125, 0.03126, 0.5)
  rows = [
    {
      'variant': 'x',
      'rate': rate,
      'seed': 0,
      'validation_loss': 0.61234 + rate,
      'diverged': '',
    }
    for rate in rates
  ]
  values, metric = {'rate': rates}, 'validation_loss'
  chosen = best_points.choose(rows, values, metric)
  text = best_points.markdown(rows, values, metric, chosen)
  told = re.sub(' +', ' ', text)
  assert '| x | 0.03125 | 3 |' in told  # The chosen one.
  assert '| x | 0.03125 | 0.64359 |' in told
  assert '| x | 0.03126 | 0.6436 |' in told


def test_trials_see_validation_data_and_never_the_test_set(tuned):
  runs = dict(variants(small(*STRATEGIES)))
  trial = trials.plan(runs, RATES, 1, None, tuned[0])[0]
  known = resolve_run(runs[trial.variant]).task
  seen = resolve_run(trial.config).task
  pictures = lambda x: {picture.tobytes() for picture in x}
  held = pictures(seen.test[0])
  assert len(held) == 150 and not held & pictures(known.test[0])
  assert not held & pictures(seen.train[0].reshape(-1, 8, 8, 1))


def test_finished_trials_are_not_run_again(tuned, monkeypatch):
  folder, first = tuned
  monkeypatch.setattr(one_training, 'train', None)
  again = tune.best(small(*STRATEGIES), RATES, 1, folder)
  assert again.rows == first.rows


def test_trials_are_also_found_by_a_larger_grid(tuned):
  more = {'batch_size': (8, 16), 'optimizer.learning_rate': (0.5, 0.1)}
  plans = [
    trials.plan({'a': small()}, values, 2, None, tuned[0])
    for values in (RATES, {**RATES, 'optimizer.learning_rate': (3, 0.1)}, more)
  ]
  few, other, grown = ({trial.folder for trial in plan} for plan in plans)
  assert few & other == {folder for folder in few if 'rate=0.1,' in folder.name}
  assert not few & grown  # Each has a batch size in its name.


def load(path: pathlib.Path) -> defaults.ConfigDict:
  """The config of a file."""
  spec = importlib.util.spec_from_file_location('tuned', path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.get_config()


def test_the_config_that_is_left_is_the_comparison_with_the_best_values(tuned):
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


def test_the_folder_of_a_run_is_not_tuned_in_nor_the_other_way_round(
  tuned, tmp_path
):
  config, folder = small(*STRATEGIES), tmp_path / 'run'
  config.steps = config.eval_every = 3
  summary = compare.compare(config, folder)
  config.steps = 6  # More steps would go on.
  with pytest.raises(UserError, match='a folder of `run`, not of `tune`'):
    tune.best(config, RATES, 1, folder)
  assert workdir.summary(folder) == json.loads(json.dumps(summary))
  with pytest.raises(UserError, match='a folder of `tune`, not of `run`'):
    compare.compare(config, tuned[0], resume=True)


def test_a_value_of_one_strategy_only_is_pinned_there_only(tmp_path):
  config = small('topk', 'all_reduce')
  chosen = {'topk': {'strategy.density': 0.2}, 'all_reduce': {}}
  (tmp_path / 'c.py').write_text(
    config_source.source(config_source.pin(config, chosen), 'Tuned.')
  )
  runs = dict(variants(load(tmp_path / 'c.py')))
  assert runs['topk'].strategy.density == 0.2
  assert runs['all_reduce'].strategy.name == 'all_reduce'
  assert 'density' not in runs['all_reduce'].strategy


def test_trials_do_not_end_at_a_target_of_virtual_time(tmp_path):
  """One that is far past it at an early evaluation would look best."""
  config = small('topk', 'all_reduce')
  config.cluster = defaults.cluster(asynchronous=False, target_accuracy=0.1)
  config.update(steps=4, eval_every=1)
  found = tune.best(
    config, {'optimizer.learning_rate': (0.1, 0.2)}, 1, tmp_path
  )
  for path in tmp_path.glob('*/*/summary.json'):
    assert json.loads(path.read_text())['steps'] == 4
  assert found.config.cluster.target_accuracy == 0.1


def test_variants_that_share_a_dict_keep_their_own_choice():
  """A dict, or a reference to a value."""
  config = small()
  shared, size = defaults.optimizer('adam', 0.01), FieldReference(8)
  config.variants = ConfigDict(
    {
      name: {'optimizer': shared, 'batch_size': size} for name in ('two', 'one')
    },
    sort_keys=False,
  )
  chosen = {
    'two': {'optimizer.learning_rate': 0.1, 'batch_size': 4},
    'one': {'optimizer.learning_rate': 0.2, 'batch_size': 16},
  }
  pinned = config_source.pin(config, chosen).variants
  assert [*pinned] == ['two', 'one']
  for name, point in chosen.items():
    found = pinned[name].optimizer.learning_rate, pinned[name].batch_size
    assert found == (*point.values(),)


def test_values_are_pinned_for_every_seed():
  config = small('topk', 'all_reduce')
  config.seeds = (3, 4)
  point = {'optimizer.learning_rate': 0.02}
  pinned = config_source.pin(config, {'topk': point})
  rates = {n: run.optimizer.learning_rate for n, run in variants(pinned)}
  assert rates['topk-seed3'] == rates['topk-seed4'] == 0.02
  assert rates['all_reduce-seed3'] == config.optimizer.learning_rate


@pytest.mark.parametrize('strategies', [(), STRATEGIES])
def test_another_name_keeps_the_other_values_in_trials_and_after(
  strategies, tmp_path
):
  config = small(*strategies)
  config.optimizer.learning_rate = 0.03
  point = {'optimizer.name': 'adam', 'batch_size': 8}
  runs = dict(variants(config))
  chosen = {name: point for name in runs}
  (tmp_path / 'c.py').write_text(
    config_source.source(config_source.pin(config, chosen), 'Tuned.')
  )
  for name, run in variants(load(tmp_path / 'c.py')):
    expected = {**runs[name].optimizer, 'name': 'adam'}
    assert run.optimizer.to_dict() == expected
    assert run.to_dict() == grid.at(runs[name], point).to_dict()


def test_a_number_that_is_not_finite_is_left_too(tmp_path):
  config = small()
  with config.ignore_type():
    config.link = {'latency_s': 0.0, 'bytes_per_s': math.inf}
  config.cluster = {'factors': (1.0, math.inf), 'slow': (3.0,), 'failures': ()}
  (tmp_path / 'c.py').write_text(config_source.source(config, 'Tuned.'))
  assert load(tmp_path / 'c.py').to_dict() == config.to_dict()


@pytest.mark.parametrize(
  'text, values',
  [
    ('0.1,1e30', (0.1, 1e30)),
    ('cosine,constant', ('cosine', 'constant')),
    ('1,auto', (1, 'auto')),
    ('[1],[2]', ([1], [2])),
    ('(1,),(1,2)', ((1,), (1, 2))),
    ('(1,2)', ((1, 2),)),
  ],
)
def test_a_value_may_have_commas(text, values):
  assert grid.parse([f'a.k={text}']) == {'a.k': values}


def test_a_value_may_be_a_list():
  config = small()
  with config.unlocked():
    config.task.sizes = [3]
  given = {'task.sizes': ([1], [2, 3])}
  grid.check(given, [config])
  (point,) = grid.points(given, config, 1)
  assert grid.at(config, point).task.sizes in ([1], [2, 3])
  rows = [
    {**point, 'variant': 'x', 'validation_loss': k, 'diverged': ''}
    for k, point in enumerate(grid.points(given, config, None))
  ]
  chosen = best_points.choose(rows, given, 'validation_loss')
  assert chosen == {'x': {'task.sizes': [1]}}
  assert best_points.at_an_edge(chosen, rows) == []
  for wrong in (([1], [1]), ([1],)):
    with pytest.raises(UserError, match='two or more values, each once'):
      grid.check({'task.sizes': wrong}, [config])


@pytest.mark.parametrize('budget', [1, 3, 4, 6, 11])
def test_a_budget_is_drawn_evenly_and_alike_for_equal_keys(budget):
  values = {
    'optimizer.learning_rate': (0.1, 0.2, 0.3),
    'batch_size': (8, 16),
    'strategy.density': (0.01, 0.1),
  }
  topk, gtopk = (defaults.get_config(name) for name in ('topk', 'gtopk'))
  drawn = grid.points(values, topk, budget)
  assert drawn == grid.points(values, gtopk, budget)
  assert len({*map(str, drawn)}) == budget
  for key, options in values.items():
    times = [sum(p[key] == v for p in drawn) for v in options]
    assert max(times) - min(times) <= 2, key
  without = grid.points(values, defaults.get_config('all_reduce'), budget)
  assert len(without) == min(budget, 6) and 'strategy.density' not in without[0]


def test_a_loss_that_is_no_number_at_the_end_has_diverged(tmp_path):
  trial = trials.Trial('a', {}, defaults.get_config(), tmp_path)
  found = trials.row(
    trial, {'test_loss': float('nan'), 'test_accuracy': 0.1, 'train_loss': 1.0}
  )
  assert found['diverged'] and found['validation_accuracy'] is None


def test_a_variant_that_diverges_everywhere_is_a_sentence():
  rows = [
    {'variant': 'a', 'k': k, 'validation_loss': None, 'diverged': 'yes'}
    for k in (1, 2)
  ]
  with pytest.raises(UserError, match='a diverged at every point'):
    best_points.choose(rows, {'k': (1, 2)}, 'validation_loss')


MISTAKES = {
  'no grid': ('', '--grid learning_rate'),
  'a key that no config has': (
    '--grid=optimizer.learning_rat=1,2',
    'optimizer.learning_rat no variant optimizer.learning_rate',
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
  'the seed': ('--grid=seed=1,2', 'seed --seeds'),
  'no seeds': ('--grid=batch_size=8,9 --seeds=0', '--seeds least 1'),
  'no budget': ('--grid=batch_size=8,9 --budget=0', '--budget least 1'),
  'no process': ('--grid=batch_size=8,9 --processes=0', '--processes 1'),
  'another metric': ('--grid=batch_size=8,9 --metric=speed', 'metric speed'),
  'another way to use processes': (
    '--distributed --num_processes=1 --process_id=0 '
    f'--coordinator=127.0.0.1:{free_port()}',
    'run --processes=K',
  ),
  'no config file': ('--config=configs/no.py', 'configs/no.py quickstart'),
}


@pytest.mark.parametrize('what', MISTAKES)
def test_a_mistake_is_a_sentence_and_writes_nothing(what, tmp_path):
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
  assert not (tmp_path / 'run').exists()


def test_a_trial_that_timed_out_ends_the_tuning():
  asked = iter([False] * 3)  # Asking for ever ends in a StopIteration.
  failed = Future()
  failed.set_exception(TimeoutError('A socket.'))
  with pytest.raises(TimeoutError, match='A socket'):
    trials._result(failed, None, lambda: next(asked))


def test_processes_find_what_one_process_finds(tuned, tmp_path):
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


def test_a_signal_to_all_processes_stops_a_tuning_in_a_sentence(tmp_path):
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
  said = process.communicate(timeout=60)[1]
  assert process.returncode == 128 + signal.SIGTERM, said
  assert re.search('Stopped after step [0-9]+, checkpoint kept', said)
  assert [*tmp_path.rglob('checkpoints/*')]


def test_the_command_that_is_printed_may_be_pasted_whatever_the_folder(
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


def test_another_seed_draws_other_points():
  values = {'optimizer.learning_rate': (0.1, 0.2, 0.3), 'batch_size': (8, 16)}
  config = defaults.get_config('topk')
  draws = []
  for config.seed in range(5):
    draws.append(grid.points(values, config, 2))
  assert any(drawn != draws[0] for drawn in draws)


@pytest.mark.parametrize('value, edge', [(1, True), (2, False), (3, True)])
def test_both_ends_of_a_grid_are_edges(value, edge):
  found = best_points.at_an_edge({'x': {'a.k': value}}, ROWS)
  assert bool(found) is edge
