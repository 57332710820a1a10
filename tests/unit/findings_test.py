"""Results are data: findings are complete, and all pages are made from them."""

import csv
import importlib
import json
import math
import pathlib

import msgspec
import numpy as np
import pytest

from experiments import adaptive_gossip
from experiments.framework import (
  claim,
  finding_files,
  known_runs_file,
  notes,
  numerics,
  results_page,
)
from experiments.framework.result_store import ResultStore
from gossipjax.config import resolve
from gossipjax.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
CLAIMS = sorted(
  path.stem
  for path in (ROOT / 'experiments').glob('*.py')
  if path.stem not in ('__init__', 'queue')  # It only trains.
)
over_claims = pytest.mark.parametrize('name', CLAIMS)


def finding(name: str) -> finding_files.FindingFile:
  """The finding of a claim; reading it checks that it is complete."""
  return finding_files.read(finding_files.RESULTS / name)


def test_every_claim_has_a_finding_and_every_finding_a_claim():
  assert [found.name for found in results_page.findings()] == CLAIMS


@over_claims
def test_a_finding_repeats_the_text_of_its_claim(name):
  found, module = finding(name), importlib.import_module(f'experiments.{name}')
  claim = module.CLAIM
  assert (found.name, found.title) == (claim.name, claim.title)
  assert (found.claim, found.published) == (claim.text, claim.published)
  assert found.notes.startswith(module.NOTES)  # Some measurements add a line.


def test_each_claim_has_one_file_of_notes():
  assert sorted(path.stem for path in notes.FOLDER.iterdir()) == CLAIMS


@over_claims
def test_the_evidence_fits_its_cell(name):  # A schema limits the others.
  assert len(str(finding(name).evidence)) <= finding_files.CELL


@over_claims
def test_a_verdict_follows_from_the_stored_rows(name):
  found, module = finding(name), importlib.import_module(f'experiments.{name}')
  verdict = module.verdict(found.rows, **found.tables)
  assert verdict.word == found.verdict
  for field in verdict._fields:
    assert getattr(verdict, field) == getattr(found, field), field


@pytest.mark.parametrize('missing', [None, float('nan')])
def test_no_trigger_is_judged_before_its_baseline_is_trained(missing):
  found = finding('adaptive_gossip')
  columns = (adaptive_gossip.TIMES, adaptive_gossip.TRAFFIC)
  rows = [row | dict.fromkeys(columns, missing) for row in found.rows]
  verdict = adaptive_gossip.verdict(rows, **found.tables)
  assert verdict.undecided and verdict.met == verdict.of == 0
  assert verdict.sentence == 'No trigger was tried to the end.'


@over_claims
def test_a_figure_is_drawn_from_the_stored_rows(name):
  found, module = finding(name), importlib.import_module(f'experiments.{name}')
  if found.rows:
    assert module.figure(found.rows, **found.tables).axes


@over_claims
def test_rows_have_equal_columns_with_unambiguous_names(name):
  found = finding(name)
  for rows in (found.rows, *found.tables.values()):
    for row in rows:
      assert list(row) == list(rows[0])
      assert not {'error', 'its error', 'sd', 'P', 'rate', 'loss'} & {*row} - (
        {'rate'} if name in ('gtopk_scaling', 'train_1gbit') else set()
      )


def test_all_generated_files_are_up_to_date():
  assert not results_page.stale()


def test_a_stale_file_is_named(monkeypatch):
  monkeypatch.setattr(results_page, 'results', lambda: 'other')
  assert results_page.stale() == ['RESULTS.md']


def test_numpy_numbers_are_stored_as_json_numbers(tmp_path):
  module = importlib.import_module('experiments.stragglers')
  row = {'a': np.int64(3), 'b': np.float64(0.5), 'c': float('nan'), 'd': 'x'}
  row |= {'e': np.bool_(True), 'f': None}
  found = claim.Finding(
    claim.Verdict(np.int64(1), 1, 'ours', 'sentence'),
    [row],
    'notes',
    'w',
    'l',
    seeds=1,
  )
  finding_files.write(tmp_path, module.CLAIM, found, 1.0, quick=True)
  (row,) = finding_files.read(tmp_path).rows
  assert row == {'a': 3, 'b': 0.5, 'c': None, 'd': 'x', 'e': True, 'f': None}


@pytest.mark.parametrize(
  'change, words',
  [
    ({'ours': 161 * 'x'}, 'ours'),
    ({'verdict': ''}, 'verdict'),
    ({'verdict': 'undecided: '}, 'verdict'),
    ({'verdict': 'perhaps'}, 'verdict'),
    ({'notes': ''}, 'notes'),
    ({'more': 1}, 'unknown field'),
    ({'rows': [{'a': [1]}]}, 'rows'),
  ],
)
def test_a_finding_that_violates_its_schema_is_refused(tmp_path, change, words):
  found = msgspec.to_builtins(finding('stragglers')) | change
  (tmp_path / 'finding.json').write_bytes(msgspec.json.encode(found))
  with pytest.raises(UserError, match=words):
    finding_files.read(tmp_path)


def test_readme_has_the_tuned_score_of_every_strategy():
  assert {*results_page.tuned_scores()} == {*resolve.STRATEGIES}


def test_no_stored_run_has_an_older_version():
  """Programs that read all of them, such as advise, would take it for new."""
  old = [
    f'{path.name}:{number}'
    for path in sorted((ROOT / 'experiments/runs').glob('*.jsonl'))
    for number, line in enumerate(path.read_text().splitlines(), 1)
    for key in [json.loads(line)['key']]
    if 'config' in key
    and numerics.versions(key['config']) != key.get('numerics', {})
  ]
  assert not old


def line(optimizer, strategy, score, digest, **key):
  """A stored run of 100 steps, as in a line of a file."""
  config = {
    'task': {'name': 'fashion_mnist', 'model': 'mlp'},
    'optimizer': {'name': optimizer, 'learning_rate': 0.1},
    'strategy': {'name': strategy},
    'workers': 4,
    'steps': 100,
    'batch_size': 32,
  }
  records = [{'step': 50, 'test_accuracy': score - 0.05}]
  records.append({'step': 100, 'test_accuracy': score})
  result = {'records': records}
  return {'digest': digest, 'key': {'config': config, **key}, 'result': result}


def only_known(folder, lines):
  """The only row for `advise` that is made from these stored runs."""
  text = ''.join(json.dumps(each) + '\n' for each in lines)
  (folder / 'some.jsonl').write_text(text)
  rows = csv.DictReader(known_runs_file.text(ResultStore(folder)).splitlines())
  (row,) = (row for row in rows if row['table'] == 'some')
  return row


def test_known_runs_are_compared_with_all_reduce_of_their_optimizer(tmp_path):
  lines = [
    line('sgd', 'all_reduce', 0.8, 'a'),
    line('muon', 'all_reduce', 0.9, 'b'),
    line('sgd', 'local_sgd', 0.8, 'c'),
    line('sgd', 'local_sgd', 0.8, 'd', probe='a:b'),  # The same run once more.
  ]
  row = only_known(tmp_path, lines)
  assert float(row['dense']) == 0.8 and float(row['missed_0.99']) == 0
  assert float(row['relative_steps_0.99']) == 1 and row['seeds'] == '1'


def test_known_runs_are_compared_with_all_reduce_of_their_seeds(tmp_path):
  """Further seeds of all-reduce, of another claim, do not change the result."""
  lines = [
    line('sgd', name, score, f'{name}{seed}')
    for name, scores in {'all_reduce': (0.8, 0.6), 'topk': (0.8,)}.items()
    for seed, score in enumerate(scores)
  ]
  lines[1]['key']['config']['seed'] = 1
  row = only_known(tmp_path, lines)
  assert float(row['dense']) == 0.8 and float(row['relative_steps_0.99']) == 1


def test_known_runs_name_the_split_of_the_examples(tmp_path):
  lines = [line('sgd', name, 0.8, name) for name in ('all_reduce', 'topk')]
  for each in lines:
    each['key']['config']['split'] = {'name': 'dirichlet', 'alpha': 0.1}
  assert only_known(tmp_path, lines)['split'] == 'dirichlet alpha=0.1'


@pytest.mark.parametrize('diverged, value', [(1, 0.8), (2, math.nan)])
def test_a_seed_that_diverged_misses_the_target_in_known_runs(
  diverged, value, tmp_path
):
  lines = [line('sgd', 'all_reduce', 0.8, 'a')]
  for seed in (0, 1):
    lines.append(line('sgd', 'topk', 0.8, f't{seed}'))
    lines[-1]['key']['config']['seed'] = seed
    lines[-1]['result']['diverged'] = 'The loss is NaN' * (seed < diverged)
  row = only_known(tmp_path, lines)
  assert (row['strategy'], row['seeds']) == ('topk', '2')
  assert float(row['missed_0.99']) == diverged / 2
  np.testing.assert_equal(float(row['value']), value)
