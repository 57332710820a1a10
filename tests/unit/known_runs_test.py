"""Which runs count as evidence, and what advice concludes from them."""

import math

import pytest

from gossipjax.advice import (
  known_file,
  known_runs,
  known_table,
  known_workdirs,
  recommendation,
  risk,
)
from gossipjax.commands import advise_pilots
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from tests.support import workdirs
from tests.support.advice import (
  DENSE,
  LINK,
  chance,
  forecast,
  known,
  workdir_with,
)


def test_known_runs_are_ranked_by_distance_to_the_config():
  config = defaults.get_config()
  same, other = known('a', 0.9), known('b', 0.9, model='linear')
  apart = known('c', 0.9, task='cifar10', model='vgg8', workers=4)
  assert known_runs.distance(same, config) == (0, 0)
  assert known_runs.is_near(same, config)
  adam = known('a', 0.9, optimizer='adam')
  assert known_runs.distance(adam, config) == (1, 0)
  split = known('a', 0.9, split='dirichlet alpha=0.1')
  assert known_runs.distance(split, config) == (2, 0)
  assert known_runs.distance(other, config) == (3, 0)
  assert known_runs.distance(apart, config) == (5, 1)
  assert known_runs.nearest([apart, other], config) == [other]
  head, rows = known_table.nearest_runs([apart, other], config)
  assert 'no run of your model (mlp on digits with sgd, P = 8)' in head
  assert head.endswith('nearest: linear on digits with sgd, P = 8')
  assert rows[0]['steps to the target over those of all-reduce'] == 'not kept'
  head, rows = known_table.nearest_runs([apart, apart], config)
  assert head.endswith('nor of one like it.')
  assert rows == []


def test_trainings_with_another_split_are_different_trainings():
  config = defaults.get_config()
  apart = 'dirichlet alpha=0.5'
  kept = [known('a', 0.9, 1.2), known('a', 0.5, math.inf, split=apart)]
  for split, missed in ((defaults.split('dirichlet'), 1), ({}, 0)):
    config.split = split
    of_all, _, same = risk.of(kept, config).groups
    assert (same.missed, same.of) == (missed, 1)
    assert (of_all.missed, of_all.of) == (1, 2)  # Both splits, each once.
  config.split = defaults.split('label', shards=3)
  assert known_runs.identity(config).split == 'label shards=3'
  assert not risk.of(kept, config).of_the_same
  head, rows = known_table.nearest_runs(kept, config)
  assert 'no run of your model (mlp on digits with sgd, label shards=3' in head
  assert [row['split'] for row in rows] == ['iid', apart]


def test_without_evidence_all_reduce_is_recommended():
  for kept in ((), (known('small', 0.9),)):
    found = [DENSE, forecast('small', 10, chance=chance(*kept))]
    assert recommendation.by_known(found, LINK) == ''
    message = advise_pilots.untried(found, LINK, 'advise --minutes 0 --tune', 5)
    assert message.startswith(
      'No kept runs match: use all-reduce, or first run:\n\n'
    )
    assert message.endswith('    advise --tune --minutes=5\n')


@pytest.mark.parametrize(
  'steps, words',
  [
    (0.9, 'Use small. Expected time to the target: 0.'),
    (
      9.0,
      'Use all-reduce. Of the strategies with a known training of this kind',
    ),
    (
      math.inf,
      'Use all-reduce. Of the strategies with a known training of this kind',
    ),
  ],
)
def test_known_trainings_decide_whether_a_strategy_is_used(steps, words):
  kept = chance(*[known('small', 0.9, steps)] * 3)
  found = [forecast('all_reduce', 20_000), forecast('small', 10, chance=kept)]
  message = recommendation.by_known(found, LINK)
  assert message.startswith(words)
  assert 'of mlp on digits with sgd.' in message
  message = advise_pilots.untried(found, LINK, 'advise --minutes=0', 5)
  assert 'To try it on your config:\n\n    advise --minutes=5\n' in message


def test_kept_runs_are_read_from_a_csv_file(tmp_path):
  path = tmp_path / 'known_runs.csv'
  path.write_text(
    ','.join(known_file.columns())
    + '\n'
    + f'a,digits,mlp,sgd,8,iid,topk,test_accuracy,0.88,0.9,{"nan," * 8}1,\n'
    'c,text,transformer,adam,4,iid,gtopk,test_loss,2.8,1.7,'
    '1.0,0.5,0.0,0.0,inf,nan,2.0,1.5,3,"conserve=True, density=0.01"\n'
  )
  one, two = known_file.kept(path)
  assert one[:6] == ('a', 'digits', 'mlp', 'sgd', 8, 'iid')
  assert math.isnan(one.missed) and two[-4:-1] == (1.0, math.inf, 3)
  assert (one.arguments, two.arguments) == ('', 'conserve=True, density=0.01')
  _, easy = known_file.kept(path, share=0.9)
  assert easy == two._replace(missed=0.0, relative_steps=1.5)
  with pytest.raises(UserError, match=r'target_share=0\.5.* 0\.99, 0\.97'):
    known_file.kept(path, share=0.5)


def test_the_kept_runs_of_the_package_can_be_read():
  found = known_file.kept()
  assert {k.strategy for k in found} >= {'gossip', 'gtopk', 'elastic'}
  for run in found:
    most = 1 if run.score == 'test_accuracy' else 10  # Nats.
    assert 0.1 < run.value < most and 0.1 < run.dense < most


def test_runs_are_read_from_a_workdir(tmp_path):
  (found,) = known_workdirs.of_workdirs(
    [workdir_with(tmp_path / 'a', (0.5, 1.0))]
  )
  assert (found.strategy, found.workers, found.task) == ('topk', 2, 'digits')
  assert found.relative_steps == pytest.approx(2) and found.missed == 0
  (found,) = known_workdirs.of_workdirs(
    [workdir_with(tmp_path / 'b', (0.5, 0.6))]
  )
  assert found.missed == 0.5 and math.isnan(found.relative_steps)


def test_runs_with_other_arguments_are_no_evidence():
  config = defaults.get_config()
  config.strategy = resolve.strategy_config('local_sgd')
  known_of = lambda arguments: known('local_sgd', 0.9)._replace(
    arguments=arguments
  )
  each = [known_of(''), known_of('period=400')]
  assert known_runs.of_strategy(each, config.strategy) == each[:1]
  config.strategy.period = 400
  assert known_runs.of_strategy(each, config.strategy) == each[1:]
  config.strategy.period = 40
  assert known_runs.of_strategy(each, config.strategy) == []


def test_a_workdir_that_is_named_twice_counts_once(tmp_path):
  folder = workdir_with(tmp_path / 'a', (0.5, 1.0))
  twice = [folder, f'{tmp_path}/b/../a']
  (tmp_path / 'b').mkdir()
  assert len([*known_workdirs.of_workdirs(twice)]) == 1


@pytest.mark.parametrize(
  'cluster, waits',
  [
    ({}, True),
    (defaults.cluster(asynchronous=False).to_dict(), True),
    (defaults.cluster(asynchronous=True).to_dict(), False),
    (defaults.cluster(asynchronous=False, first=1).to_dict(), False),
  ],
)
def test_runs_whose_workers_do_not_wait_are_not_evidence(
  tmp_path, cluster, waits
):
  folder = workdir_with(tmp_path / 'a', (0.5, 1.0), cluster=cluster)
  assert len([*known_workdirs.of_workdirs([folder])]) == waits


def test_advice_names_the_workdirs_without_a_shown_run(tmp_path):
  good = str(workdir_with(tmp_path / 'a', (0.5, 1.0)))
  no_reference = str(workdir_with(tmp_path / 'b', (0.5, 1.0), first='gossip'))
  mine = [*known_workdirs.of_workdirs([good, no_reference])]
  config = defaults.get_config()  # mlp on digits, P = 8.
  head, rows = known_table.nearest_runs(
    mine, config, [good + '/', no_reference]
  )
  assert rows[0]['from'] == good
  assert head.count('--known=') == 1
  assert head.startswith(f'--known={no_reference}: nothing is known from it')
  head, _ = known_table.nearest_runs([known('a', 0.9), *mine], config, [good])
  assert head.startswith(f'--known={good}: not shown')
  assert 'digits' in head.splitlines()[0] and 'P = 2' in head.splitlines()[0]


def test_a_score_is_in_the_column_of_its_name():
  loss = known('b', 0.4)._replace(score='test_loss', dense=0.38)
  _, rows = known_table.nearest_runs(
    [known('a', 0.9), loss], defaults.get_config()
  )
  cells = [(r['held-out accuracy'], r['held-out loss']) for r in rows]
  assert cells == [('90.00 %', ''), ('', '0.4000')]
  assert [*rows[0]] == [*rows[1]]


def test_a_run_that_diverged_before_a_record_misses_the_target(tmp_path):
  changes = {'dense': 'all_reduce', 'wild': 'topk'}
  config = workdirs.config(
    **{name: {'strategy': {'name': s}} for name, s in changes.items()}
  )
  folder = workdirs.claim(tmp_path / 'a', config)
  workdirs.run(folder, 'dense', [workdirs.record(1), workdirs.record(2)])
  workdirs.run(folder, 'wild', [], diverged='The loss is NaN.')
  (found,) = known_workdirs.of_workdirs([folder])
  assert (found.strategy, found.missed, found.seeds) == ('topk', 1, 1)
  assert math.isnan(found.value)


def test_runs_that_sent_nothing_or_have_no_known_strategy_are_no_evidence(
  tmp_path,
):
  """The first sent nothing; of the second only a label is known."""
  silent = {'strategy': {'name': 'diloco', 'period': 500}}
  own = {'optimizer': {'name': 'own'}}
  label = {'strategy': {'name': 'gossip'}} | own
  full = {'strategy': {'name': 'topk'}} | own
  full['strategy'] |= resolve.strategy_config('topk').to_dict()
  config = workdirs.config(dense={}, silent=silent, label=label, full=full)
  folder = workdirs.claim(tmp_path / 'a', config)
  for name in config['variants']:
    nothing = {'bytes_sent': [0, 0]} if name == 'silent' else {}
    records = [workdirs.record(s, **nothing) for s in (1, 2, 4)]
    workdirs.run(folder, name, records)
  assert [k.strategy for k in known_workdirs.of_workdirs([folder])] == ['topk']


def test_upper_bounds_of_steps_have_no_ratio(tmp_path):
  """Both reach half of all-reduce's best at the first evaluation or before."""
  folder = workdir_with(tmp_path / 'a', (0.5, 1.0))
  (found,) = known_workdirs.of_workdirs([folder], 0.5)
  assert found.missed == 0 and math.isnan(found.relative_steps)


def test_a_strategy_counts_at_the_best_of_its_learning_rates(tmp_path):
  variant = lambda name, rate, **more: {
    'strategy': {'name': name, **more},
    'optimizer': {'learning_rate': rate},
  }
  scores = {  # Scores after one and two steps; the target is 0.99.
    'dense': (variant('all_reduce', 0.1), (0.5, 1.0)),
    'dense_fast': (variant('all_reduce', 1.0), (0.5, 0.6)),
    'low': (variant('topk', 0.01), (0.2, 0.3)),
    'good': (variant('topk', 0.1), (0.3, 1.0)),
    'high': (variant('topk', 1.0), (0.1, 0.1)),
    'sparser': (variant('topk', 0.1, density=0.001), (0.3, 0.4)),
    'poor': (variant('gossip', 0.1), (0.2, 0.3)),
    'poorer': (variant('gossip', 1.0), (0.1, 0.2)),
  }
  config = workdirs.config(**{name: of for name, (of, _) in scores.items()})
  folder = workdirs.claim(tmp_path / 'a', config)
  for name, (_, each) in scores.items():
    records = [
      workdirs.record(s, test_accuracy=score)
      for s, score in zip((1, 2), each, strict=True)
    ]
    workdirs.run(folder, name, records)
  found = known_workdirs.of_workdirs([folder])
  assert [(k.strategy, k.arguments, k.value, k.missed) for k in found] == [
    ('topk', '', 1.0, 0),
    ('topk', 'density=0.001', 0.4, 1),
    ('gossip', '', 0.3, 1),
  ]


def test_the_target_of_the_call_replaces_that_of_a_workdir(tmp_path):
  """Its own is 0.3, the call's is 0.6 of all-reduce's best score, which is 1.

  The seeds of all-reduce need 1.2 steps, those of topk 2.4 and 4.
  """
  folder = workdir_with(tmp_path / 'a', (0.5, 0.6), target=0.3)
  (found,) = known_workdirs.of_workdirs([folder])
  assert found.missed == 0.5
  (found,) = known_workdirs.of_workdirs([folder], 0.6)
  assert found.missed == 0
  assert found.relative_steps == pytest.approx((2.4 + 4) / 2 / 1.2)


def test_runs_that_end_early_or_lack_all_reduce_are_no_evidence(
  tmp_path,
):
  ends = defaults.cluster(asynchronous=False, target_accuracy=0.3).to_dict()
  ended = workdir_with(tmp_path / 'a', (0.5, 1.0), cluster=ends)
  (found,) = known_workdirs.of_workdirs([ended])
  assert math.isnan(found.missed) and math.isnan(found.relative_steps)
  none = workdir_with(tmp_path / 'b', (0.5, 1.0), first='gossip')
  assert list(known_workdirs.of_workdirs([none])) == []
