"""The table of a comparison: what its columns say of a run."""

import pytest

from gossipjax.comparison import table

RUN = {
  'name': 'diloco',
  'test_accuracy': 0.9,
  'test_loss': 0.3,
  'train_loss': 0.2,
  'consensus_distance': 0.0,
  'bytes_sent': 4000,
  'steps': 400,
  'comm_s': {'1gbe': 1.0},
  'examples_per_s': None,
}
CONFIG = {'link': '1gbe', 'strategy': {'name': 'diloco'}, 'steps': 400}


def rows(*runs):
  return table.rows({'config': CONFIG, 'runs': list(runs)})


def test_a_run_shorter_than_its_period_exchanges_nothing():
  silent = RUN | {'bytes_sent': 0, 'exchanges': 0}
  first, second = rows(silent, RUN | {'exchanges': 8})
  assert first['exchanges'] == '0 in 400 steps'
  assert second['exchanges'] == '8 in 400 steps'


def test_bytes_of_a_run_that_ended_early_are_not_compared():
  column = 'bytes over those of the first'
  config = CONFIG | {'variants': {'a': {}, 'b': {}}}
  lengths = {'a': 400, 'b': 5}
  runs = [RUN | {'name': name, 'steps': n} for name, n in lengths.items()]
  found = table.rows({'config': config, 'runs': runs})
  assert [row[column] for row in found] == ['1 x', '']
  config['variants'] = {'a': {}, 'b': {'steps': 5}}
  found = table.rows({'config': config, 'runs': runs})
  assert [row[column] for row in found] == ['1 x', '1 x']


def test_runs_that_did_not_count_exchanges_have_no_such_column():
  (row,) = rows(RUN)
  assert 'exchanges' not in row


def test_bytes_within_groups_have_a_column_if_there_are_groups():
  first, second = rows(RUN | {'bytes_local': 2000}, RUN)
  assert first['sent within groups per step'] == '5 B'
  assert second['sent within groups per step'] == ''
  (row,) = rows(RUN)
  assert 'sent within groups per step' not in row


def test_bytes_for_scores_have_a_column_if_models_keep_a_state():
  first, second = rows(RUN | {'bytes_evaluation': 2000}, RUN)
  assert first['sent in all to evaluate'] == '2 kB'
  assert second['sent in all to evaluate'] == ''
  (row,) = rows(RUN)
  assert 'sent in all to evaluate' not in row


@pytest.mark.parametrize('within', [True, False])
def test_an_audit_says_where_bytes_are_sent_if_any_worker_is_devices(within):
  audited = {'step': 0, 'ledger': 8, 'compiled': 8, 'kinds': {}, 'reason': ''}
  summary = {
    'config': {'link': '1gbe'},
    'runs': [
      {'name': 'one', 'audit': [audited]},
      {'name': 'two', 'audit': [audited, audited | {'within': within}]},
    ],
  }
  found = [row.get('where bytes are sent') for row in table.audit_rows(summary)]
  expected = ['between workers', 'between workers', 'within a worker']
  assert found == (expected if within else [None] * 3)


def test_a_link_of_groups_is_in_the_heading_of_its_seconds():
  config = CONFIG | {'group_link': '10gbe'}
  (row,) = table.rows({'config': config, 'runs': [RUN]})
  assert 'communication on 1gbe, 10gbe within groups (model)' in row


OWN = "communication on the cluster's link (model)"


@pytest.mark.parametrize(
  'machines, heading',
  [
    ({'latency_s': None, 'full_duplex': True}, 'communication on 1gbe (model)'),
    ({'latency_s': 0.0}, OWN),
    ({'full_duplex': False}, OWN),
  ],
)
def test_a_link_of_the_cluster_is_called_so(machines, heading):
  config = CONFIG | {'cluster': machines}
  (row,) = table.rows({'config': config, 'runs': [RUN]})
  assert heading in row


def test_seconds_of_several_links_are_not_called_after_one():
  slow = {'cluster': {'bytes_per_s': 1e5}}
  config = CONFIG | {'cluster': {}, 'variants': {'diloco': {}, 'slow': slow}}
  runs = [RUN, RUN | {'name': 'slow'}]
  (row, _) = table.rows({'config': config, 'runs': runs})
  assert 'communication (model)' in row


def test_a_run_that_diverged_is_in_the_column_of_the_score_of_the_others():
  other = {k: v for k, v in RUN.items() if not k.startswith('test_')}
  runs = [{'name': 'wild', 'diverged': 'NaN'}, other | {'test_f1': 0.5}]
  runs[0] |= {'bytes_sent': 0}
  summary = {
    'config': CONFIG,
    'runs': runs,
    'higher_is_better': ['f1'],
  }
  for order in (1, -1):
    found = table.rows(summary | {'runs': runs[::order]})[::order]
    column = 'held-out f1 (higher is better)'
    assert [row[column] for row in found] == ['diverged', '0.5']
    assert all(len(row) == len(found[0]) for row in found)
