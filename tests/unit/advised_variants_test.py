"""Which strategies and variants `advise` compares, and over which link."""

import json
import runpy

import pytest

from gossipjax import network
from gossipjax.advice import (
  advise,
  halving,
  known_workdirs,
  pilot_config,
  ranking,
  risk,
  step_cost,
  tuned,
)
from gossipjax.comparison.variant import check
from gossipjax.config import defaults, resolve
from gossipjax.config.variants import variants
from gossipjax.errors import UserError
from gossipjax.training import gradient, momentum, optimizer
from gossipjax.training.loop import Interrupted
from tests.support.advice import DENSE, workdir_with


def test_known_runs_are_matched_by_strategy_and_not_by_variant_name(
  tmp_path, monkeypatch
):
  known = [
    *known_workdirs.of_workdirs([workdir_with(tmp_path / 'a', (0.5, 1.0))])
  ]
  cost = step_cost.Cost(0.0, DENSE.traffic)
  monkeypatch.setattr(step_cost, 'of', lambda *_: (0.0, cost))
  monkeypatch.setattr(step_cost, 'gradient_s', lambda *_: 1.0)
  config = defaults.get_config()
  config.variants = defaults.variants(sparse='qsgd', other='topk')
  found = {f.name: f.risk for f in advise.forecasts(config, known)}
  assert found['sparse'] == risk.of([], config)
  assert found['other'] == risk.of(known, config) != found['sparse']


def test_a_strategy_that_would_never_exchange_is_left_out(monkeypatch):
  cost = step_cost.Cost(0.0, DENSE.traffic)
  monkeypatch.setattr(step_cost, 'of', lambda *_: (0.0, cost))
  monkeypatch.setattr(step_cost, 'gradient_s', lambda *_: 1.0)
  config, messages = defaults.get_config(), []
  config.steps = 400
  config.variants = defaults.variants(
    'all_reduce', 'diloco', local=resolve.strategy_config('local_sgd', period=8)
  )
  found = advise.forecasts(config, say=messages.append)
  assert [f.name for f in found] == ['all_reduce', 'local']
  (message,) = messages
  assert message.startswith('diloco is left out: its period of 500 steps')


def test_the_number_of_strategies_to_be_timed_is_announced(monkeypatch):
  cost = step_cost.Cost(0.0, DENSE.traffic)
  monkeypatch.setattr(step_cost, 'of', lambda *_: (0.0, cost))
  monkeypatch.setattr(step_cost, 'gradient_s', lambda *_: 1.0)
  messages = []
  found = advise.forecasts(defaults.get_config(), say=messages.append)
  assert messages[-1].startswith(f'Measures a step of {len(found)} strategies')


def test_all_reduce_is_always_compared_and_by_default_every_strategy():
  assert next(iter(advise.runs(defaults.get_config()))) == 'all_reduce'
  assert {*advise.runs(defaults.get_config())} == {*resolve.STRATEGIES}
  assert list(advise.runs(defaults.get_config('topk'))) == [
    'all_reduce',
    'topk',
  ]
  several = defaults.get_config()
  several.seeds, several.variants = (0, 1), defaults.variants(sparse='topk')
  assert list(advise.runs(several)) == ['all_reduce', 'sparse']


def test_a_variant_named_all_reduce_with_another_strategy_is_refused():
  config = defaults.get_config()
  config.variants = defaults.variants(all_reduce='topk', mine='gossip')
  with pytest.raises(UserError, match=r'variants.all_reduce has strategy topk'):
    advise.check(config)


def test_pilots_run_without_overlap_and_the_tuned_config_keeps_it(tmp_path):
  config = defaults.get_config('delayed_gossip')
  config.update(overlap=True, executor='vmap', workers=2)
  runs = advise.runs(config)
  assert {n: run.overlap for n, run in runs.items()} == {
    'all_reduce': False,  # Added by advise, always without overlap.
    'delayed_gossip': True,
  }
  candidates = [ranking.Candidate(name, 0.2) for name in runs]
  for candidate in candidates:
    pilot = halving.Pilot(candidate, 20, 0)
    pilot_run = pilot_config.config_of(runs[candidate.name], pilot)
    assert not pilot_run.overlap
    check(candidate.name, pilot_run)
  ranks = [
    ranking.Rank(candidate, *[1.0] * 7, 20, 1) for candidate in candidates
  ]
  tuned.write(tmp_path / 'tuned.py', config, runs, ranks)
  tuned_module = runpy.run_path(str(tmp_path / 'tuned.py'))
  tuned_runs = dict(variants(tuned_module['get_config']()))
  assert {n: run.overlap for n, run in tuned_runs.items()} == {
    n: run.overlap for n, run in runs.items()
  }


def test_a_variant_that_cannot_overlap_is_refused_before_anything_is_timed(
  monkeypatch,
):
  config = defaults.get_config()
  config.update(overlap=True, executor='vmap', workers=2)
  config.variants = defaults.variants('delayed_gossip', 'gossip')
  monkeypatch.setattr(step_cost, 'of', None)
  with pytest.raises(UserError, match='overlap: strategy gossip waits for'):
    advise.forecasts(config)


@pytest.mark.parametrize(
  'options',
  [
    {'name': 'sgd', 'momentum': 0.9, 'nesterov': True},
    {'name': 'sgd', 'momentum': 0.9, 'nesterov': False},
    {'name': 'adam'},
    {'name': 'adam', 'nesterov': True},
  ],
  ids=str,
)
def test_every_added_strategy_agrees_with_its_optimizer_on_momentum(options):
  config = defaults.get_config()
  config.optimizer = defaults.optimizer(learning_rate=0.1, **options)
  before = config.to_dict()
  for run in advise.runs(config).values():
    momentum.check(run.strategy, run.optimizer)
    optimizer.make(run.optimizer, 10)
  assert config.to_dict() == before


def test_an_inapplicable_strategy_is_left_out_but_refused_if_configured(
  monkeypatch,
):
  monkeypatch.setattr(resolve, 'STRATEGIES', ('all_reduce', 'hierarchical'))
  config, messages = defaults.get_config(), []
  config.update(workers=7, executor='vmap')  # No groups of two.
  found = advise.forecasts(config, say=messages.append)
  assert [f.name for f in found] == ['all_reduce']
  assert messages[0].startswith('hierarchical is left out: Group size 2 does')
  config.variants = defaults.variants('hierarchical')
  with pytest.raises(UserError, match='Group size 2'):
    advise.forecasts(config)


@pytest.mark.exhaustive
def test_a_step_is_timed_with_the_batch_size_and_dtype_of_its_config(
  monkeypatch,
):
  config, calls = defaults.get_config(), []
  config.update(executor='vmap', workers=2, compute_dtype='bfloat16')
  config.variants = {
    'small': {'batch_size': 8},
    'large': {'batch_size': 512, 'accumulate': 2},
    'topk': {'batch_size': 8, 'strategy': resolve.strategy_config('topk')},
  }
  monkeypatch.setattr(
    step_cost,
    'of_batch',
    lambda *args, **given: calls.append(given) or gradient.of_batch(*args),
  )
  examples, sizes = step_cost.examples, []
  monkeypatch.setattr(
    step_cost,
    'examples',
    lambda task, size: sizes.append(size) or examples(task, size),
  )
  found = {f.name: f.compute_s for f in advise.forecasts(config)}
  assert sizes == [512, 8]
  assert found['large'] != found['small'] == found['topk']
  assert calls == [
    {'compute_dtype': 'bfloat16', 'accumulate': parts} for parts in (2, 0)
  ]


@pytest.mark.parametrize(
  'change, words',
  [
    ({'workers': 2}, r'variants\.other\.workers: advise compares'),
    ({'task': {'name': 'digits', 'model': 'cnn'}}, r'other\.task: advise'),
    ({'cluster': {'compute_s': 1.0}}, 'cluster'),
    ({'devices_per_worker': 2}, 'workers of one device'),
  ],
)
def test_variants_with_other_workers_tasks_or_clusters_are_refused(
  change, words
):
  config = defaults.get_config()
  config.variants = {'all_reduce': {}, 'other': change}
  with pytest.raises(UserError, match=words):
    advise.check(config)


def test_a_calibrated_link_is_read_from_its_file(tmp_path):
  file, calibrated = tmp_path / 'link.json', network.link(1e-4, 2e8)
  file.write_text(json.dumps(network.facts(calibrated)))  # As `calibrate` does.
  config = defaults.get_config()
  assert advise.chosen_link(str(file), None, None, config) == calibrated
  config.group_link = '10gbe'
  with_group_link = advise.chosen_link(None, 1e-4, 2e8, config)
  assert with_group_link == calibrated._replace(group=network.PRESETS['10gbe'])
  assert next(iter(resolve.links(str(file)).items())) == (str(file), calibrated)


@pytest.mark.parametrize(
  'text, words',
  [
    (
      '{"latency_s": 1e-4}',
      r'link\.json: bytes_per_s is None; a link needs the numbers',
    ),
    ('[1, 2]', 'link.json is not a link'),
    ('{', r'link\.json is no JSON file'),
    (
      '{"latency_s": -1, "bytes_per_s": 1}',
      r'link\.latency_s=-1 is out of range; must be at least 0',
    ),
    (None, r'link.json: No such file'),
  ],
)
def test_an_invalid_or_missing_link_file_is_refused(tmp_path, text, words):
  file = tmp_path / 'link.json'
  if text is not None:
    file.write_text(text)
  with pytest.raises(UserError, match=words):
    resolve.links(str(file))


def test_an_interrupt_stops_the_timing_between_two_strategies():
  config, answers = defaults.get_config('topk'), iter([False, True])
  with pytest.raises(Interrupted):
    advise.forecasts(config, interrupted=lambda: next(answers))
  assert next(answers, None) is None
