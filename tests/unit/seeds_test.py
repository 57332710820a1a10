"""Several seeds of a comparison: one table with means, bands in figures."""

import json
import math
import statistics

import numpy as np
import pytest
from ml_collections import ConfigDict

import gossipjax as gj
from gossipjax.comparison import compare, figures, over_seeds, seed_lines, table
from gossipjax.config import arguments, defaults, resolve
from gossipjax.config.variants import variants
from gossipjax.errors import UserError
from gossipjax.results import analysis, reader
from gossipjax.results.standard_error import standard_error, uncertainty
from gossipjax.training.run import Overrides, resolve_run
from tests.support import quadratics, workdirs
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')

SEEDS = (0, 1, 5)
RANDOM = {'name': 'random_k', 'density': 0.25}  # A compressor.


def config(**given):
  found = defaults.get_config()
  found.update(workers=2, steps=4, log_every=2, eval_every=2, executor='vmap')
  found.variants = defaults.variants(dense='all_reduce', few='topk')
  found.update(given)
  return found


def test_the_runs_seed_is_added_to_the_seed_of_a_part():
  def own(seed: int | None = None):
    return seed

  def needed(seed: int):
    return seed

  call = lambda function, **given: arguments.call(
    function, given, 'strategy', seed=3
  )
  assert call(own) == 3 and call(own, seed=4) == call(needed, seed=4) == 7
  with pytest.raises(UserError, match=r'strategy\.seed is missing'):
    call(needed)


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  folder = tmp_path_factory.mktemp('seeds') / 'run'
  return folder, compare.compare(config(seeds=SEEDS), folder)


@pytest.mark.exhaustive
def test_every_variant_runs_with_every_seed(done):
  folder, summary = done
  names = [run['name'] for run in summary['runs']]
  assert names == [f'{v}-seed{s}' for v in ('dense', 'few') for s in SEEDS]
  assert {run['seed'] for run in summary['runs']} == {*SEEDS}
  frame = analysis.load(folder)
  assert {*frame['variant']} == {'dense', 'few'}
  found = analysis.over_seeds(analysis.final(frame), 'test_loss')
  assert found['run'].tolist() == ['dense', 'few']
  assert found['seeds'].tolist() == [3, 3]


@pytest.mark.exhaustive
def test_a_run_of_several_seeds_equals_runs_of_single_seeds(done, tmp_path):
  alone = compare.compare(config(seed=5), tmp_path / 'run')
  for mine, theirs in zip(done[1]['runs'][2::3], alone['runs'], strict=True):
    assert mine['test_loss'] == theirs['test_loss']


@pytest.mark.parametrize(
  'strategy',
  [
    resolve.strategy_config('random_k', density=0.1),
    {'name': 'random_k', 'density': 0.1},
    exhaustive(resolve.strategy_config('pull_gossip', period=1)),
    exhaustive({'name': 'gossip', 'topology': 'random_matching'}),
    {
      'name': 'adaptive_gossip',
      'trigger': {'name': 'random', 'rate': 0.5},
    },
    {'name': 'compressed', 'compressor': RANDOM},
    exhaustive({'name': 'choco', 'compressor': RANDOM}),
    exhaustive({'name': 'double_squeeze', 'push': RANDOM, 'pull': RANDOM}),
  ],
  ids=[
    'config',
    'no_seed',
    'routes',
    'topology',
    'trigger',
    'compressed',
    'choco',
    'double_squeeze',
  ],
)
def test_a_random_strategy_depends_on_the_seed(strategy):
  def of(seed):
    found = config(seed=seed)
    found.strategy = ConfigDict(strategy)
    return quadratics.train(resolve_run(found).strategy)

  first, second, again = map(of, (0, 1, 1))
  quadratics.same(second, again)
  with pytest.raises(AssertionError):
    quadratics.same(first, second)


@pytest.mark.parametrize(
  ('make', 'same'),
  [
    (
      lambda: gj.random_k(density=0.1, seed=3),
      {'name': 'random_k', 'density': 0.1, 'seed': 3},
    ),
    exhaustive(
      lambda: gj.gossip(topology='random_matching'),
      {'name': 'gossip', 'topology': 'random_matching'},
    ),
    exhaustive(
      lambda: gj.hierarchical(period=1, outer=gj.random_k()),
      {'name': 'hierarchical', 'period': 1, 'outer': {'name': 'random_k'}},
    ),
  ],
  ids=['seed', 'topology', 'level'],
)
def test_a_strategy_from_python_is_seeded_like_one_from_a_config(make, same):
  def of(seed, strategy=None):
    found = config(workers=4, seed=seed)
    found.strategy = ConfigDict(same)
    run = resolve_run(found, given=Overrides(strategy=strategy))
    return quadratics.train(run.strategy)

  for seed in (0, 1):
    quadratics.same(of(seed, make()), of(seed))
  by_hand = make()._replace(async_exchange=None)
  quadratics.same(of(1, by_hand), of(0))


@pytest.mark.exhaustive
def test_the_table_has_means_and_standard_deviations(done):
  folder, summary = done
  losses = [run['test_loss'] for run in summary['runs'][:3]]
  row = over_seeds.summary(summary)['runs'][0]
  assert row['name'] == 'dense'
  assert row['test_loss'] == statistics.fmean(losses)
  assert row['sd']['test_loss'] == statistics.stdev(losses)
  text = (folder / 'comparison.md').read_text()
  assert 'seeds 0, 1, 5 (mean ± standard deviation)' in text
  table = text.split('## All figures\n\n')[1].split('\n\n')[0].splitlines()
  assert len(table) == 2 + 2
  assert f'{row["test_loss"]:.4f} ± {row["sd"]["test_loss"]:.2g}' in table[2]


@pytest.mark.exhaustive
def test_seeds_are_added_to_a_finished_comparison(done, tmp_path):
  """Seeds that are finished are not trained again."""
  folder, few = tmp_path / 'run', config(seeds=SEEDS[1:])
  compare.compare(few, folder)
  kept = {p: p.stat().st_mtime_ns for p in folder.glob('*/records.jsonl')}
  more = config(seeds=SEEDS)
  with pytest.raises(UserError, match=r'differ in config\.seeds'):
    compare.compare(more, folder)
  with pytest.raises(UserError, match=r'differ in config\.seeds'):
    compare.compare(config(seeds=SEEDS[:1]), folder, resume=True)
  both = config(seeds=SEEDS)
  both.steps *= 2
  with pytest.raises(UserError, match='or add steps and seeds one after the'):
    compare.compare(both, folder, resume=True)
  found = compare.compare(more, folder, resume=True)
  assert len(kept) == 2 * len(SEEDS[1:])
  assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
  ends = lambda summary: [(r['name'], r['test_loss']) for r in summary['runs']]
  assert ends(found) == ends(done[1])


@pytest.mark.exhaustive
def test_figures_and_report_have_bands(done):
  folder, summary = done
  rows = seed_lines.lines(summary, reader.read(folder))['dense']
  runs = [r.records['test_loss'] for r in reader.read(folder)[:3]]
  np.testing.assert_allclose(rows['test_loss'], np.mean(runs, axis=0))
  deviations = rows['test_loss' + seed_lines.SD]
  np.testing.assert_allclose(deviations, np.std(runs, axis=0, ddof=1))
  page = (folder / 'report.html').read_text()
  assert '"test_loss sd"' in page and '"band1"' in page
  assert 'seeds 0, 1, 5' in page
  assert (folder / 'test_loss.png').stat().st_size


def test_a_mean_curve_has_the_steps_of_all_seeds_once_each(tmp_path):
  config = workdirs.config() | {'seeds': [0, 1], 'cluster': {'engine': ''}}
  folder = workdirs.claim(tmp_path / 'a', config)
  for name, steps in (('seed0', (1, 2, 2)), ('seed1', (1,))):
    seed = int(name[-1])
    records = [workdirs.record(step) for step in steps]
    workdirs.run(folder, f'all_reduce-{name}', records, seed=seed)
  summary, runs = reader.summary(folder), reader.read(folder)
  steps = seed_lines.lines(summary, runs)['all_reduce']['step']
  assert steps.tolist() == [1]
  # The other seed diverged before its first record.
  assert not len(seed_lines.lines(summary, runs[:1])['all_reduce'])
  figures.draw(folder, summary, runs[:1])


def test_a_mean_curve_continues_until_all_seeds_reach_the_target(tmp_path):
  config = workdirs.config() | {'seeds': [0, 1], 'cluster': {'engine': ''}}
  folder = workdirs.claim(tmp_path / 'a', config)
  for seed, scores in enumerate(((0.5, None, 0.92), (0.4, None, 0.6, 0.9))):
    records = [
      workdirs.record(
        step, test_accuracy=score, test_loss=score, virtual_s=float(step)
      )
      for step, score in enumerate(scores, 1)
    ]
    workdirs.run(folder, f'all_reduce-seed{seed}', records, seed=seed)
  runs = [
    run._replace(summary={'target_s': run.records['virtual_s'][-1]})
    for run in reader.read(folder)
  ]
  found = seed_lines.lines(reader.summary(folder), runs)['all_reduce']
  assert found['step'].tolist() == [1, 2, 3, 4]
  assert found['test_accuracy'].tolist()[2:] == pytest.approx([0.76, 0.91])
  assert found['virtual_s'].tolist() == [1, 2, 3, 3.5]


def test_a_mean_curve_ends_where_a_seed_diverged(tmp_path):
  """The mean of the remaining seeds would look like that of all."""
  folder = workdirs.claim(tmp_path / 'a', workdirs.config() | {'seeds': [0, 1]})
  for seed, last in enumerate((0.9, math.nan)):
    records = [
      workdirs.record(step, test_accuracy=score, test_loss=score)
      for step, score in ((1, 0.5), (2, last))
    ]
    workdirs.run(folder, f'all_reduce-seed{seed}', records, seed=seed)
  runs = reader.read(folder)
  found = seed_lines.lines(reader.summary(folder), runs)['all_reduce']
  assert found['test_accuracy'].tolist() == pytest.approx(
    [0.5, math.nan], nan_ok=True
  )


def test_a_score_may_be_called_sd(tmp_path):
  folder = workdirs.claim(tmp_path / 'a', workdirs.config() | {'seeds': [0, 1]})
  for seed in (0, 1):
    own = {'test_f1': 0.5 + seed, 'test_f1_sd': 8.0}
    records = [workdirs.record(1, scores=own)]
    workdirs.run(folder, f'all_reduce-seed{seed}', records, seed=seed)
  runs = reader.read(folder)
  found = seed_lines.lines(reader.summary(folder), runs)['all_reduce'].iloc[0]
  assert (found['test_f1'], found['test_f1_sd']) == (1.0, 8.0)
  assert found['test_f1' + seed_lines.SD] == pytest.approx(0.5**0.5)


@pytest.mark.exhaustive
def test_a_summary_reports_that_a_seed_diverged(done):
  summary = json.loads(json.dumps(done[1]))
  summary['runs'][1]['diverged'] = 'The loss is NaN.'
  found = over_seeds.summary(summary)['runs']
  assert found[0]['diverged'] == 'diverged with 1 of 3 seeds.'
  assert not found[1].get('diverged')


@pytest.mark.parametrize('value', [math.nan, math.inf])
def test_a_non_finite_score_of_a_seed_makes_the_deviation_nan(done, value):
  summary = json.loads(json.dumps(done[1]))
  summary['runs'][1]['test_loss'] = value
  found = over_seeds.summary(summary)['runs']
  assert math.isnan(found[0]['sd']['test_loss'])
  assert found[1]['sd']['test_loss'] > 0
  assert math.isnan(standard_error([1.0, value]))


@pytest.mark.parametrize('seeds', [2, 3, 6, 12, 30])
def test_equal_variants_differ_beyond_uncertainty_in_1_of_20_cases(seeds):
  gaps = np.random.default_rng(0).standard_normal((4000, seeds))
  beyond = [abs(np.mean(g)) > uncertainty(g.tolist()) for g in gaps]
  assert np.mean(beyond) == pytest.approx(0.05, abs=0.012)


@pytest.mark.exhaustive
def test_means_of_counts_have_few_digits(done):
  summary = json.loads(json.dumps(done[1]))
  for run, exchanges in zip(
    summary['runs'], (37, 37, 38, 4, 4, 4), strict=True
  ):
    run['exchanges'] = exchanges
  cells = [row['exchanges'] for row in table.rows(summary)]
  assert cells == ['37.33 in 4 steps', '4 in 4 steps']
  summary['runs'][0].update(exchanges=54321, steps=90000)
  cell = table.rows(summary)[0]['exchanges']
  assert cell == '18132 in 30003 steps'


@pytest.mark.exhaustive
@pytest.mark.parametrize('lacking', range(3))
def test_a_number_that_a_seed_lacks_has_no_mean(done, lacking):
  summary = json.loads(json.dumps(done[1]))
  for i, run in enumerate(summary['runs']):
    run['wire_bytes'] = None if i == lacking else 4000
  incomplete, complete = over_seeds.summary(summary)['runs']
  assert incomplete['wire_bytes'] is None and complete['wire_bytes'] == 4000
  cells = [row['sent per step (wire)'] for row in table.rows(summary)]
  assert cells == ['', '1 kB']


def test_without_seeds_names_and_summary_are_unchanged():
  names = [name for name, _ in variants(config())]
  assert names == ['dense', 'few']
  summary = {'config': {'seed': 0}, 'runs': []}
  assert over_seeds.summary(summary) is summary


def test_a_repeated_seed_is_refused():
  with pytest.raises(UserError, match='twice'):
    list(variants(config(seeds=(1, 1))))


@pytest.mark.parametrize(
  'given, words',
  [
    ({'topk-seed0': {}}, "'topk-seed0' is not allowed"),
    ({'topk': {'seed': 7}}, 'topk.seed has no effect beside config.seeds'),
    ({'topk': {'target': 0.5}}, 'a comparison has one target'),
  ],
)
def test_variants_that_conflict_with_seeds_or_target_are_refused(given, words):
  found = config(seeds=(0, 1), target=0.9)
  found.variants = ConfigDict(given)
  with pytest.raises(UserError, match=words):
    [*variants(found)]


@pytest.mark.parametrize(
  'change, key',
  [
    ({'split': {'holdout': 'validation'}}, 'split.holdout'),
    ({'cluster': {'target_accuracy': 0.6}}, 'cluster.target_accuracy'),
  ],
)
def test_variants_that_score_or_stop_differently_are_refused(
  change, key, tmp_path
):
  virtual = {'cluster': defaults.cluster(asynchronous=False)}
  mixed = config(**virtual if 'cluster' in change else {})
  mixed.variants.few.update(change)
  with pytest.raises(UserError, match=rf'variants\.few\.{key}=.* and not'):
    compare.compare(mixed, tmp_path / 'run')
  assert not (tmp_path / 'run').exists()
