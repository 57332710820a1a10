"""The table of a comparison: its columns, headings and cells."""

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


def test_the_table_shows_the_exchanges_of_a_run_and_its_steps():
  silent = RUN | {'bytes_sent': 0, 'exchanges': 0}
  first, second = rows(silent, RUN | {'exchanges': 8})
  assert first['exchanges'] == '0 in 400 steps'
  assert second['exchanges'] == '8 in 400 steps'


def test_the_speed_of_a_run_of_one_step_is_not_known():
  found = rows(RUN, RUN | {'examples_per_s': 1234.5})
  assert [row['examples/s here'] for row in found] == ['', '1,234']


def test_bytes_of_a_run_that_ended_early_are_not_compared():
  column = 'bytes over those of the first'
  config = CONFIG | {'variants': {'a': {}, 'b': {}}}
  lengths = {'a': 400, 'b': 5}
  runs = [RUN | {'name': name, 'steps': n} for name, n in lengths.items()]
  found = table.rows({'config': config, 'runs': runs})
  assert [row[column] for row in found] == ['1 x', '']
  seeds = [
    run | {'name': f'{run["name"]}-seed{s}', 'seed': s}
    for run in runs
    for s in (0, 1)
  ]
  found = table.rows({'config': config | {'seeds': [0, 1]}, 'runs': seeds})
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


def test_bytes_for_evaluation_have_a_column_if_a_run_sent_any():
  first, second = rows(RUN | {'bytes_evaluation': 2000}, RUN)
  assert first['sent in all to evaluate'] == '2 kB'
  assert second['sent in all to evaluate'] == ''
  (row,) = rows(RUN)
  assert 'sent in all to evaluate' not in row


@pytest.mark.parametrize('within', [True, False])
def test_an_audit_shows_where_bytes_are_sent_if_any_stay_in_a_worker(within):
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


def test_the_heading_of_seconds_names_the_link_within_groups_too():
  config = CONFIG | {'group_link': '10gbe'}
  (row,) = table.rows({'config': config, 'runs': [RUN]})
  assert 'communication on 1gbe, 10gbe within groups (model)' in row


CLUSTER_HEADING = "communication on the cluster's link (model)"


@pytest.mark.parametrize(
  'cluster, heading',
  [
    ({'latency_s': None, 'full_duplex': True}, 'communication on 1gbe (model)'),
    ({'latency_s': 0.0}, CLUSTER_HEADING),
    ({'full_duplex': False}, CLUSTER_HEADING),
  ],
)
def test_the_heading_of_seconds_names_the_link_of_the_cluster(cluster, heading):
  config = CONFIG | {'cluster': cluster}
  (row,) = table.rows({'config': config, 'runs': [RUN]})
  assert heading in row


def test_the_heading_of_seconds_on_several_links_names_none():
  slow = {'cluster': {'bytes_per_s': 1e5}}
  config = CONFIG | {'cluster': {}, 'variants': {'diloco': {}, 'slow': slow}}
  runs = [RUN, RUN | {'name': 'slow'}]
  (row, _) = table.rows({'config': config, 'runs': runs})
  assert 'communication (model)' in row


def test_a_diverged_run_is_marked_in_the_score_column_of_the_others():
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
