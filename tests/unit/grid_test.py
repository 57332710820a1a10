"""Points of a grid, and which of them is the best."""

import re
from concurrent.futures import Future

import pytest

from gossipjax.comparison import unlearned
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.tuning import best_points, doubts, grid, trials
from tests.support import workdirs
from tests.support.tuning import small

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
    ('x', 1, 1, None, None),  # Diverged; seed 0 has the best accuracy.
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
  assert doubts.at_an_edge(chosen, rows) == (
    ['x: k=128 is at an edge of the grid; the best may lie beyond.']
    if best
    else []
  )


def test_the_table_lists_doubts_about_chosen_values():
  values, metric = {'a.k': (1, 2, 3)}, 'validation_loss'
  chosen = best_points.choose(ROWS, values, metric)
  edges = doubts.at_an_edge(chosen, ROWS)
  text = best_points.markdown(ROWS, values, metric, chosen, edges)
  assert '- x: a.k=3 is at an edge' in text
  assert '| x | 3 | 0.2 | 0.141 | 2 | 0 |' in re.sub(' +', ' ', text)
  assert doubts.at_an_edge({'x': {'a.k': 2}}, ROWS) == []
  # With --budget a variant has tried a part of the grid only.
  tried = [row for row in ROWS if row['a.k'] in (1, 2)]
  assert doubts.at_an_edge({'x': {'a.k': 2}}, tried)


def test_the_table_distinguishes_nearly_equal_values():
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
  table = re.sub(' +', ' ', text)
  assert '| x | 0.03125 | 3 |' in table  # The chosen one.
  assert '| x | 0.03125 | 0.64359 |' in table
  assert '| x | 0.03126 | 0.6436 |' in table


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
  assert doubts.at_an_edge(chosen, rows) == []
  for wrong in (([1], [1]), ([1],)):
    with pytest.raises(UserError, match='two or more values, each once'):
      grid.check({'task.sizes': wrong}, [config])


@pytest.mark.parametrize('budget', [1, 3, 4, 6, 11])
def test_a_budget_draws_values_evenly_and_equal_keys_alike(budget):
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


def test_a_trial_whose_final_loss_is_nan_has_diverged(tmp_path):
  trial = trials.Trial('a', {}, defaults.get_config(), tmp_path)
  found = trials.row(
    trial, {'test_loss': float('nan'), 'test_accuracy': 0.1, 'train_loss': 1.0}
  )
  assert found['diverged'] and found['validation_accuracy'] is None


def test_a_variant_that_diverges_everywhere_ends_with_an_error_message():
  rows = [
    {'variant': 'a', 'k': k, 'validation_loss': None, 'diverged': 'yes'}
    for k in (1, 2)
  ]
  with pytest.raises(UserError, match='a diverged at every point'):
    best_points.choose(rows, {'k': (1, 2)}, 'validation_loss')


def test_a_trial_that_timed_out_ends_the_tuning():
  interrupted = iter([False] * 3)  # Further calls raise StopIteration.
  failed = Future()
  failed.set_exception(TimeoutError('A socket.'))
  with pytest.raises(TimeoutError, match='A socket'):
    trials._result(failed, None, lambda: next(interrupted))


def test_another_seed_draws_other_points():
  values = {'optimizer.learning_rate': (0.1, 0.2, 0.3), 'batch_size': (8, 16)}
  config = defaults.get_config('topk')
  draws = []
  for config.seed in range(5):
    draws.append(grid.points(values, config, 2))
  assert any(drawn != draws[0] for drawn in draws)


@pytest.mark.parametrize('value, edge', [(1, True), (2, False), (3, True)])
def test_both_ends_of_a_grid_are_edges(value, edge):
  found = doubts.at_an_edge({'x': {'a.k': value}}, ROWS)
  assert bool(found) is edge


@pytest.mark.parametrize(
  'best, named',
  [((0.1, 0.119), True), ((0.1, 0.13), False), ((0.1, None), False)],
)
def test_a_variant_that_learned_nothing_at_its_best_point_is_named(
  best, named, tmp_path
):
  """Its other points do not count, nor do seeds of which one learned."""
  tried = []
  for k, accuracies in ((1, (0.9, 0.9)), (2, best)):
    for seed, accuracy in enumerate(accuracies):
      records = [workdirs.record(1, test_accuracy=accuracy or 0.0)]
      name = f'k={k},seed={seed}'
      workdirs.run(tmp_path, name, records, **{unlearned.KEY: 0.11})
      if accuracy is None:  # It diverged before its first record.
        (tmp_path / name / 'records.jsonl').unlink()
      tried.append(trials.Trial('x', {'k': k}, small(), tmp_path / name))
  found = doubts.learned_nothing(
    {'x': {'k': 2}}, tried, 'test_accuracy', higher=True
  )
  assert bool(found) is named
  if named:
    assert 'x learned little or nothing at its best point' in found[0]
    assert '11.00 %; widen the grid' in found[0]


def test_points_of_many_keys_have_separate_folders(tmp_path):
  point = {f'strategy.a_long_name_{i}': 0.1 for i in range(12)}
  names = {grid.folder_name({**point, 'seed': seed}) for seed in range(3)}
  for name in names:
    (tmp_path / name).mkdir()
  assert len(names) == 3
  short = {'optimizer.learning_rate': 0.1, 'seed': 0}
  assert grid.folder_name(short) == 'optimizer.learning_rate=0.1,seed=0'
