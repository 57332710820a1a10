"""Studies request runs, results are kept, the queue makes missing runs."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from experiments import hylo, queue, sites, speedups
from experiments.framework import (
  best_rate,
  claim,
  gates,
  intervals,
  margins,
  matched,
  numerics,
  own_process,
  result_store,
  seed_statistics,
  single_run,
  site_methods,
  step_times,
  study,
  training_claim,
  trigger_searches,
  workloads,
)
from experiments.framework.best_rate import Tuned
from experiments.framework.result_store import ResultStore
from experiments.framework.seed_statistics import ERROR
from gossipjax.advice import known_file
from gossipjax.config import defaults, given_arguments, resolve
from gossipjax.errors import UserError
from tests.support import program

DENSE = resolve.strategy_config('all_reduce')


def config(rate=0.05, seed=0):
  """All-reduce on the smallest workload."""
  found = workloads.config('fashion', 4, 'quick', DENSE)
  return best_rate.seeded(found, rate, seed)


def run(accuracy, **fields):
  """The result of a run that ends at this accuracy."""
  last = {'step': 6, 'test_accuracy': accuracy, 'test_loss': 1 - accuracy}
  last |= {'most_bytes_sent': 600} | fields
  return {
    'records': [last],
    'comm_s': {workloads.CUSTOM: 6e-3},
    'diverged': '',
    'told': [],
  }


def run_maker(folder, accuracy):
  """Returns a store, a list of made runs (rate, seed, holdout), and a function
  that makes a run; its accuracy is a function of rate and seed."""
  store, made = ResultStore(folder), []

  def make(ask):
    rate, seed = ask.config.optimizer.learning_rate, ask.config.seed
    made.append((rate, seed, ask.config.split.holdout))
    value = accuracy(rate, seed)
    result = run(value) if value is not None else {'diverged': 'NaN'}
    store.add(ask.workload, ask.key, result, 1.0, {})

  return store, made, make


def test_rates_bracket_the_best_one_and_all_seeds_are_scored_at_it(tmp_path):
  best = lambda rate, seed: 0.9 - 0.1 * abs(math.log10(rate / 0.5)) + seed / 100
  store, made, make = run_maker(tmp_path, best)
  found = study.complete(best_rate.tuned('fashion', config()), store, make)
  assert [*found.curve] == [0.0158, 0.05, 0.158, 0.5, 1.58]
  assert (found.rate, found.inside) == (0.5, True)
  assert {holdout for *_, holdout in made[:5]} == {'validation'}
  assert made[5:] == [(0.5, seed, 'test') for seed in range(3)]
  ends = seed_statistics.of_seeds(found, seed_statistics.ACCURACY)
  assert ends == pytest.approx([90, 91, 92])


def test_a_best_rate_at_the_upper_edge_is_marked_after_the_last_trial(tmp_path):
  store, _, make = run_maker(tmp_path, lambda rate, seed: rate / 10)
  found = study.complete(best_rate.tuned('fashion', config()), store, make)
  assert len(found.curve) == best_rate.TRIALS and not found.inside
  assert found.rate == max(found.curve)


def test_a_rate_that_diverges_is_never_the_best(tmp_path):
  store, _, make = run_maker(
    tmp_path, lambda rate, seed: None if rate > 0.04 else 0.5
  )
  found = study.complete(best_rate.tuned('fashion', config()), store, make)
  assert found.rate == 0.0158 and found.curve[0.05] is None
  store, _, make = run_maker(tmp_path / 'b', lambda rate, seed: None)
  found = study.complete(best_rate.tuned('fashion', config()), store, make)
  assert (found.rate, found.runs) == (None, [])


def test_rates_that_tie_with_one_seed_are_compared_with_all_seeds(tmp_path):
  """Seed 0 prefers 0.158 by less than the tie margin, the others 0.05."""
  ahead = {0.05: (0.9, 0.9, 0.9), 0.158: (0.902, 0.89, 0.89)}
  others = (0.8, 0.99, 0.99)
  score = lambda rate, seed: ahead.get(rate, others)[seed]
  for tie, best, tries in ((0.0, 0.158, 4), (0.003, 0.05, 8)):
    store, made, make = run_maker(tmp_path / str(tie), score)
    of = best_rate.tuned('fashion', config(), tie=tie)
    found = study.complete(of, store, make)
    assert (found.rate, found.inside) == (best, True)
    assert [holdout for *_, holdout in made].count('validation') == tries
  assert found.curve[0.158] == pytest.approx(2.682 / 3)


def test_a_tie_that_moves_the_best_rate_to_an_edge_adds_a_rate(tmp_path):
  ahead = {0.05: (0.9, 0.8, 0.8), 0.158: (0.899, 0.9, 0.9)}
  score = lambda rate, seed: ahead.get(rate, (0.7, 0.7, 0.7))[seed]
  store, _, make = run_maker(tmp_path, score)
  of = best_rate.tuned('fashion', config(), tie=0.003)
  found = study.complete(of, store, make)
  assert (found.rate, found.inside) == (0.158, True) and 0.5 in found.curve


def test_a_study_proceeds_as_far_as_the_kept_results_allow(tmp_path):
  store, made, make = run_maker(tmp_path, lambda rate, seed: 0.5)
  begin = lambda: best_rate.tuned('fashion', config())
  so_far = study.replay(begin(), store)
  assert (so_far.found, len(so_far.made), len(so_far.missing)) == (None, 0, 3)
  for request in so_far.missing[:2]:
    make(request)
  so_far = study.replay(begin(), store)
  assert (len(so_far.made), len(so_far.missing)) == (2, 1)
  study.complete(begin(), store, make)
  assert len(made) == len({*made})  # No run is made twice.
  assert study.replay(begin(), store).found is not None


def test_a_key_holds_what_changes_the_result_and_nothing_else(monkeypatch):
  key = single_run.key_of(config())
  assert key == json.loads(json.dumps(key))
  assert result_store.digest(key) != result_store.digest(
    single_run.key_of(config(seed=1))
  )
  assert result_store.digest(key) != result_store.digest(
    single_run.key_of(config(0.1))
  )
  assert result_store.digest(key) != result_store.digest(
    single_run.key_of(config(), 'a:b')
  )
  other = config()
  other.data.dir, other.checkpoint_every = '/elsewhere', 7
  with other.unlocked():
    other.task.something_new = None
  assert single_run.key_of(other) == key
  raised = {name: {'version': 2, 'golden': ''} for name in resolve.STRATEGIES}
  monkeypatch.setattr(numerics, 'known', lambda: raised)
  assert single_run.key_of(config())['numerics'] == {'all_reduce': 2}


@pytest.mark.parametrize(
  'gain, as_good, better',
  [(0.03, True, None), (0.2, True, True), (-0.2, True, False)],
)
def test_being_better_takes_a_gain_beyond_its_confidence_interval(
  gain, as_good, better
):
  column = 'gain over x'
  row = {'workload': 'fashion', 'seeds': 3, column: gain}
  row[f'{column}{ERROR}'] = 0.04
  assert margins.is_as_good(row, 'x') is as_good
  assert margins.is_as_good(row, 'x', lost=False) is better


@pytest.mark.parametrize(
  'gain, error, leads',
  [(0.03, 0.1, False), (0.9, 0.1, True), (0.6, 0.1, None), (None, None, None)],
)
def test_a_method_leads_if_it_gains_at_least_the_margin(gain, error, leads):
  column = 'gain over x'
  row = {'workload': 'fashion', 'seeds': 3, column: gain}
  row[f'{column}{ERROR}'] = error
  assert margins.leads(row, 'x') is leads


def diloco(**outer):
  """DiLoCo whose outer optimizer has these arguments."""
  given = resolve.strategy_config('diloco', outer={'name': 'nesterov', **outer})
  return workloads.config('fashion', 4, 'quick', given)


def virtual_time(**given):
  """A run in virtual time, on a cluster with these arguments."""
  found = config()
  with found.ignore_type(), found.unlocked():
    found.cluster = defaults.cluster(**given)
  return found


@pytest.mark.parametrize(
  'zero, default',
  [
    (diloco(momentum=0.0), diloco()),
    (virtual_time(latency_s=0.0), virtual_time()),
  ],
)
def test_an_explicit_zero_has_another_key_than_the_default(zero, default):
  assert single_run.key_of(zero) != single_run.key_of(default)


def test_kept_results_survive_a_kill_during_a_write(tmp_path):
  store = ResultStore(tmp_path)
  store.add('fashion', {'a': 1}, 'first', 1.0, {})
  file = tmp_path / 'fashion.jsonl'
  with file.open('a') as lines:
    lines.write('{"digest": "0123", "resu')
  assert ResultStore(tmp_path).find('fashion', {'a': 1})['result'] == 'first'
  store.add('fashion', {'a': 2}, 'second', 1.0, {})
  found = [json.loads(line)['result'] for line in file.open()]
  assert found == ['first', 'second']
  assert store.find('fashion', {'a': 2})['result'] == 'second'


def test_the_error_message_names_a_damaged_line(tmp_path):
  (tmp_path / 'fashion.jsonl').write_text('{"digest": "a"}\n{broken\n')
  with pytest.raises(UserError, match=r'fashion\.jsonl, line 2 is damaged'):
    ResultStore(tmp_path).find('fashion', {})


def test_a_result_is_computed_once(tmp_path):
  calls = []
  compute = lambda: calls.append(1) or {'seconds': 2.5}
  for _ in range(2):
    assert ResultStore(tmp_path).get_or_compute('x', {'n': 1}, compute) == {
      'seconds': 2.5
    }
  assert len(calls) == 1


@pytest.mark.parametrize('power, begin', [(1.0, 0.001), (-1.5, 3.0)])
def test_a_search_finds_the_value_that_sends_the_wanted_bytes(
  tmp_path, power, begin
):
  store = ResultStore(tmp_path)

  def at(value):
    found = config(value)
    return found

  def make(ask):
    sent = 1000 * ask.config.optimizer.learning_rate**power
    result = run(0.5) | {'comm_s': {workloads.CUSTOM: 6 * sent / 1e6}}
    store.add(ask.workload, ask.key, result, 1.0, {})

  search = matched.value_for('fashion', at, begin, 100.0, power / 2)
  value, share = study.complete(search, store, make)
  assert share == pytest.approx(1, abs=matched.WITHIN)
  assert 1000 * value**power == pytest.approx(100, rel=matched.WITHIN)


def test_a_search_stays_between_too_many_and_too_few_bytes():
  cliff = {0.02: 9.0, 0.08: 9.0, 0.32: 7.0, 1.28: 0.08, 0.5677: 0.08}
  found = matched._next(cliff, 0.5677, -0.5)
  assert found == pytest.approx((0.32 * 0.5677) ** 0.5)
  inside = matched._next({0.32: 7.0, 1.28: 0.08}, 1.28, -0.5)
  assert 0.32 < inside < 1.28 and inside != pytest.approx((0.32 * 1.28) ** 0.5)


def test_a_search_goes_on_after_a_run_that_diverged():
  assert matched._next({1.0: math.inf, 4.0: 2.0}, 4.0, -0.5) == 16.0
  assert matched._next({4.0: 2.0, 1.0: math.inf}, 1.0, -0.5) == 4.0


def test_a_gate_is_met_by_the_mean_of_the_seeds(tmp_path):
  for folder, level, met in (('a', 0.93, True), ('b', 0.91, False)):
    store, _, make = run_maker(tmp_path / folder, lambda *_, v=level: v)
    assert gates.gate('fashion', store, 'quick').reached is None
    study.complete(gates.of_all_reduce('fashion', 'quick'), store, make)
    found = gates.gate('fashion', store, 'quick')
    assert (found.met, found.reached) == (met, level)


def test_gates_of_losses_are_met_from_below():
  text = workloads.WORKLOADS['shakespeare']
  assert text.passes(1.70) and not text.passes(1.80)
  assert text.score(run(0.5)) == -0.5


def test_a_run_whose_final_loss_is_nan_has_no_score():
  for name in ('shakespeare', 'fashion'):
    assert workloads.WORKLOADS[name].score(run(0.5, test_loss=None)) is None


def jobs(n):
  """Studies of one run each; two at a time share their run."""
  begin = lambda i: lambda: study_of_one_run(config(seed=i // 2))
  return [queue.Job('x', ('fashion', i), begin(i)) for i in range(n)]


def study_of_one_run(found):
  yield [study.RunRequest('fashion', found)]


def test_the_queue_makes_each_run_once_and_stops_in_time(
  tmp_path, monkeypatch, capsys
):
  seeds = []

  def in_a_process(found, probe):
    seeds.append(found.seed)
    if found.seed == 1:
      raise RuntimeError('the run ended with exit code -6')
    return run(0.5), 2.0, {}

  monkeypatch.setattr(queue.own_process, 'in_a_process', in_a_process)
  assert queue.work(iter(jobs(5)), ResultStore(tmp_path), 1.0) == (2, 2)
  assert seeds == [0, 1, 1, 2]
  stderr = capsys.readouterr().err
  assert '2 studies were given up, see above' in stderr
  assert '2 runs made' in stderr
  assert queue.work(iter(jobs(9)), ResultStore(tmp_path), -1.0) == (0, 0)
  assert 'Time is up' in capsys.readouterr().err


HOLD = """
import json, pathlib, sys
from experiments.framework import result_store
key, folder = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2])
with result_store.locked(key, folder) as mine:
  print(mine, flush=True)
  sys.stdin.read()
"""


def test_a_run_that_another_queue_is_making_is_left_to_it(
  tmp_path, monkeypatch
):
  """They share a folder of runs, wherever they were started."""
  store, seeds = ResultStore(tmp_path / 'shared'), []
  locks = store.folder / queue.LOCK
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(queue, 'WAIT_S', 0.01)
  theirs = study.RunRequest('fashion', config(seed=0))
  with subprocess.Popen(
    [sys.executable, '-c', HOLD, json.dumps(theirs.key), str(locks)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    cwd=program.ROOT,
  ) as other:
    assert other.stdout.readline() == b'True\n'
    with result_store.locked(theirs.key, locks) as mine:
      assert not mine

    def in_a_process(found, probe):
      seeds.append(found.seed)
      if found.seed == 2:  # The last run that no other queue makes.
        other.kill()
      return run(0.5), 2.0, {}

    monkeypatch.setattr(queue.own_process, 'in_a_process', in_a_process)
    assert queue.work(iter(jobs(6)), store, 1.0) == (3, 0)
  assert seeds == [1, 2, 0]
  assert store.find('fashion', theirs.key)


def test_all_gates_come_before_the_first_study():
  found = [*queue.jobs(['hylo', 'gtopk_mass'], 'cpu')]
  claims = [job.claim for job in found]
  gated = claims.count('gate')
  assert {job.cell[0] for job in found[:gated]} == {j.cell[0] for j in found}
  assert claims[gated : gated + 3] == ['hylo', 'gtopk_mass', 'hylo']


def test_trainings_with_sparse_messages_take_three_over_density_steps(tmp_path):
  """At least 3 / density steps: else residuals have hardly arrived. Pilots of
  advice are short by their nature."""
  kept, claims = ResultStore(tmp_path), {*queue.CLAIMS} - {'advice_quality'}
  densities = set()
  for job in queue.jobs(sorted(claims), 'cpu'):
    for request in study.replay(job.begin(), kept).missing:
      density = request.config.strategy.get('density', 1.0)
      assert request.config.steps * density >= 3, (job.claim, job.cell)
      densities.add(density)
  assert {0.001, 0.01} < densities


def test_the_queue_can_be_limited_to_some_workloads():
  found = [*queue.jobs(['adaptive_gossip', 'gtopk_mass'], 'cpu', ['cifar'])]
  assert {job.cell[0] for job in found} == {'cifar'}
  assert {job.claim for job in found} == {
    'gate',
    'adaptive_gossip',
    'gtopk_mass',
  }


def test_studies_without_a_size_for_a_gpu_are_left_out():
  found = [*queue.jobs(['gtopk_mass'], 'gpu')]
  assert {job.cell[0] for job in found} == {'fashion', 'cifar'}


@pytest.mark.parametrize('name', queue.CLAIMS)
def test_status_counts_finished_studies_and_made_runs(name, tmp_path):
  *_, line = queue.status([name], ResultStore(tmp_path), 'cpu')
  assert line.startswith(f'{name}: 0 of ') and '0 runs made' in line


@pytest.mark.parametrize('workload', sites.SPLITS)
def test_methods_between_sites_make_the_required_exchanges(workload):
  for method in sites.BASELINES:
    found = site_methods.config_of(workload, 4, 'iid', method, 'cpu')
    assert found.steps // found.strategy.period >= training_claim.EXCHANGES


@pytest.mark.parametrize(
  'workload, method, gain, error, good',
  [
    ('fashion-dense', 'diloco', -0.2, 0.1, True),
    ('fashion-dense', 'diloco', -0.8, 0.1, False),
    ('fashion-dense', 'diloco', -0.6, 0.1, None),
    ('fashion-dense', 'muloco', -0.3, 0.1, False),
    ('fashion-dense', 'muloco', 0.1, 0.1, None),
    ('fashion-dense', 'muloco', 0.3, 0.1, True),
    ('shakespeare', 'diloco', -0.01, 0.003, True),
    ('shakespeare', 'diloco', -0.03, 0.003, False),
    ('shakespeare', 'diloco', -0.03, 0.1, None),
  ],
)
def test_sites_are_judged_in_points_and_for_text_in_nats(
  workload, method, gain, error, good
):
  row = {'workload': workload, 'method': method, 'seeds': 3, sites.GAIN: gain}
  row[f'{sites.GAIN}{seed_statistics.ERROR}'] = error
  over_local_sgd = f'gain over {sites.LOCAL_SGD}'
  row |= {over_local_sgd: 0.1, f'{over_local_sgd}{seed_statistics.ERROR}': 0.01}
  assert sites.holds(row) is good
  # DiLoCo that loses to local SGD, its special case, may be tuned too little.
  worse = row | {over_local_sgd: -0.1}
  assert sites.holds(worse) is (None if method == 'diloco' else good)
  untrained = row | {over_local_sgd: None}  # Local SGD is not trained yet.
  lost = method == 'diloco' and good is False
  assert sites.holds(untrained) is (None if lost else good)


@pytest.mark.parametrize(
  'speed, error, inside, faster',
  [
    (1.2, 0.01, True, True),
    (1.2, 0.01, False, True),  # A better rate would be faster yet.
    (1.2, 0.2, True, None),
    (1.2, None, True, None),  # One seed.
    (0.9, 0.01, True, False),
    (0.9, 0.01, False, None),
    (None, None, True, False),  # It misses the target.
  ],
)
def test_faster_is_undecided_where_seeds_or_rates_leave_it_open(
  speed, error, inside, faster
):
  row = {
    'x': speed,
    f'x{ERROR}': error,
    'seeds': 3,
    seed_statistics.INSIDE: inside,
  }
  assert seed_statistics.is_faster(row, 'x') is faster


def test_without_a_certain_baseline_a_speed_up_is_undecided():
  """The best rate of all-reduce is unknown, or a seed misses its own target."""
  for dense in ([10.0, 11.0], [10.0, None]):
    row = speedups._speed(dense, [5.0, 5.2], sure=False)
    row |= {seed_statistics.INSIDE: False}
    assert seed_statistics.is_faster(row, speedups.SPEED) is None


def test_the_time_left_is_estimated_from_runs_of_the_same_size(tmp_path):
  kept = ResultStore(tmp_path)

  def ask(workers, steps):
    found = config()
    found.update(workers=workers, steps=steps)
    return study.RunRequest('fashion', found)

  assert study.seconds_of([], kept) == 0
  assert study.seconds_of([ask(8, 900)], kept) == study.UNKNOWN_S
  for seconds, *size in ((90, 32, 900), (20, 8, 900), (7, 8, 40)):
    kept.add('fashion', ask(*size).key, {}, seconds, {})
  assert study.seconds_of([ask(32, 900)], kept) == 90
  assert study.seconds_of([ask(8, 900), ask(8, 900)], kept) == 20
  assert study.seconds_of([ask(4, 900)], kept) == 20  # The median of all.


def test_the_command_line_names_claims(tmp_path):
  words = 'hylo', 'stragglers', '--status', f'--runs={tmp_path}'
  done = program.run(tmp_path, *words, module='experiments.queue')
  assert done.code == 0, done.err
  claims = [line for line in done.out.splitlines() if 'studies' in line]
  assert [c.partition(':')[0] for c in claims] == ['hylo', 'stragglers']
  words = '--status', '--workload=fashoin'
  done = program.run(tmp_path, *words, module='experiments.queue')
  assert done.code and "no workload; did you mean 'fashion'?" in done.err


def test_a_gain_is_judged_only_if_the_bound_is_outside_its_interval():
  judge = intervals.at_least
  assert judge(-0.5, -0.2, 0.1, 3) is True
  assert judge(-0.5, -0.8, 0.1, 3) is False
  assert judge(-0.5, -0.3, 0.1, 3) is None
  assert judge(-0.5, -0.3, 0.1, 12) is True  # 12 seeds: a surer error.
  assert judge(-0.5, -2.9, 0.3, 3) is False  # Despite a large error.
  assert judge(0.5, 0.0, 0.0, 3) is False
  assert judge(-0.5, -0.2, 0.1, 1) is None
  assert judge(-0.5, math.nan, 0.1, 3) is None
  assert judge(-0.5, 0.1, None, 3) is None


def test_a_true_value_at_the_bound_is_misjudged_in_5_percent_per_side():
  draws = np.random.default_rng(0).normal(size=(20_000, 3))
  cases = [
    intervals.at_least(0.0, x.mean(), x.std(ddof=1) / 3**0.5, 3) for x in draws
  ]
  for side in (True, False):
    assert cases.count(side) / len(cases) == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize(
  'value, error, below',
  [
    (0.5, 0.1, True),
    (1.5, 0.1, False),
    (0.75, 0.1, None),
    (math.nan, 0.1, None),
    (0.5, math.nan, None),
    (0.5, None, None),
  ],
)
def test_a_value_is_below_a_bound_only_if_its_seeds_show_it(
  value, error, below
):
  assert intervals.is_below(1.0, value, error, 3) is below


@pytest.mark.parametrize(
  'cases, doubt, word',
  [
    ([True, True], '', 'holds'),
    ([False], '', 'does not hold'),
    ([True, False, None], '', 'holds in 1 of 2; 1 undecided'),
    ([True, claim.UNTRAINED], '', 'holds in 1 of 1; 1 not trained'),
    (
      [None, claim.UNTRAINED],
      '',
      'undecided: runs are missing or too short, or bounds within errors',
    ),
    ([True, None], '', 'holds in 1 of 1; 1 undecided'),
    ([False, None], '', 'holds in 0 of 1; 1 undecided'),
    ([True], 'no gate', 'undecided: no gate'),
    ([], '', 'undecided: no case was measured'),
  ],
)
def test_a_verdict_has_three_values(cases, doubt, word):
  assert claim.make_verdict(cases, 'x', 'x', doubt).word == word


@pytest.mark.parametrize(
  'points, speed, error, word',
  [
    (-0.2, 1.26, 0.02, 'holds'),
    (-0.2, 1.01, 0.01, 'does not hold'),  # The claim needs 1.05.
    (-0.2, 1.1, 0.02, 'undecided'),
    (-0.2, 0.9, 0.02, 'does not hold'),
    (-2.0, 1.01, 0.02, 'does not hold'),
    (-0.7, 1.26, 0.02, 'undecided'),
    (-0.2, None, None, 'undecided'),
  ],
)
def test_hylo_is_faster_only_if_its_measured_seconds_show_it(
  points, speed, error, word
):
  row = {'workload': 'fashion', 'method': 'hylo', 'seeds': 3, hylo.EVEN: 1e7}
  row |= {'points over dense': points, f'points over dense{ERROR}': 0.1}
  row |= {step_times.SPEED: speed, step_times.SPEED + ERROR: error}
  row |= {step_times.GRADIENT: 0.004}
  coverage = {'workload': 'fashion', 'studies': 2, 'studies finished': 2}
  found = hylo.verdict([row], [], [], [coverage | {'gate met': True}])
  assert found.word.startswith(word)
  assert ('gradient 4.0 ms' in found.sentence) == (speed is not None)


def test_a_verdict_of_undecided_cases_is_undecided():
  found = claim.make_verdict([None, None], 'x', 'x')
  assert found.word.startswith('undecided: runs are missing or too short, or')


def test_differences_are_paired_by_seed():
  tuned = lambda *ends: best_rate.Tuned({}, 0.1, [run(e) for e in ends], True)
  found = seed_statistics.difference(tuned(0.5, 0.9), tuned(0.4, 0.7))
  assert found == pytest.approx((15, 5))
  gain, error = seed_statistics.difference(tuned(0.5), tuned(0.4))
  assert gain == pytest.approx(10) and math.isnan(error)


def test_a_seed_that_diverged_has_no_score():
  bad = {'diverged': 'the loss became NaN', 'records': [], 'told': []}
  tuned = best_rate.Tuned({0.1: 0.5}, 0.1, [run(0.5), bad], True)
  row = seed_statistics.row({'method': 'x'}, tuned)
  assert row['seeds that diverged'] == 1
  assert math.isnan(row[seed_statistics.ACCURACY])
  assert row[seed_statistics.BYTES] == 100


def test_a_row_has_means_and_the_sample_deviation_over_seeds():
  two = [
    run(accuracy, test_loss=loss, most_bytes_sent=sent)
    | {'comm_s': {workloads.CUSTOM: busiest / workloads.RATE}}
    for accuracy, loss, sent, busiest in (
      (0.5, 1.0, 600, 6000),
      (0.9, 3.0, 1200, 24_000),
    )
  ]
  row = seed_statistics.row({}, Tuned({}, 0.1, two, True))
  assert row[seed_statistics.ACCURACY] == pytest.approx(70)
  assert row[seed_statistics.DEVIATION] == pytest.approx(20 * 2**0.5)
  assert row[seed_statistics.LOSS] == 2.0
  # Each run has six steps.
  assert row[seed_statistics.BYTES] == 150
  assert row[seed_statistics.PATH] == pytest.approx(2500)


def test_every_kept_run_is_found_by_its_key():
  files = [*result_store.RUNS.glob('*.jsonl')]
  assert files
  for file in files:
    for digest, line in ResultStore().lines(file.stem).items():
      assert result_store.digest(line['key']) == digest


def test_runs_of_a_gpu_are_kept_apart_and_have_a_gate_of_their_own(tmp_path):
  on_gpu, on_cpu = (
    ResultStore(result_store.folder_of('gpu', tmp_path)),
    ResultStore(tmp_path),
  )
  assert result_store.folder_of('cpu', tmp_path) == tmp_path

  def make(ask):
    on_gpu.add(ask.workload, ask.key, run(0.925), 1.0, {})

  study.complete(gates.of_all_reduce('cifar', 'gpu'), on_gpu, make)
  found = gates.gate('cifar', on_gpu, 'gpu')
  assert not found.met and str(found).endswith('(NOT met: >= 0.93)')
  assert gates.gate('cifar', on_cpu, 'cpu').reached is None
  assert workloads.WORKLOADS['cifar'].passes(0.925)


@pytest.mark.parametrize('name', workloads.WORKLOADS)
def test_no_run_of_one_scale_has_the_key_of_another(name):
  keys = [
    result_store.digest(
      single_run.key_of(workloads.config(name, 8, scale, DENSE))
    )
    for scale in workloads.WORKLOADS[name].sizes  # Not all have one for a GPU.
  ]
  assert len({*keys}) == len(keys) >= 2


def test_the_queue_has_work_for_a_gpu(tmp_path):
  lines = queue.status(['fronts'], ResultStore(tmp_path), 'gpu')
  assert lines[:2] == [
    'gate cifar: not known yet',
    'gate shakespeare: not known yet',
  ]
  assert ' 0 runs made' in lines[2]


def test_seeds_of_a_randomised_strategy_are_one_known_run():
  """power_sgd draws numbers; fashion-dense has several seeds of it."""
  rows = [r for r in known_file.kept() if r.table == 'fashion-dense']
  (found,) = [r for r in rows if r.strategy == 'power_sgd']
  assert found.seeds >= 3


@pytest.mark.parametrize(
  'cores, model, strategy, workers, executor',
  [
    (2, 'mlp', 'demo', 8, 'vmap'),
    (2, 'cnn', 'gtopk', 8, 'auto'),
    (1, 'cnn', 'gtopk', 8, 'vmap'),
    (1, 'cnn', 'hylo', 8, 'auto'),
    (1, 'shallow', 'gtopk', 8, 'auto'),
    (2, 'transformer', 'diloco', 8, 'auto'),
    (1, 'transformer', 'diloco', 8, 'vmap'),
    (1, 'cnn', 'gtopk', 32, 'vmap'),
    (1, 'cnn', 'gtopk', 64, 'auto'),
  ],
)
def test_workers_share_one_device_where_that_is_faster(
  cores, model, strategy, workers, executor, monkeypatch
):
  monkeypatch.setattr(own_process, 'usable_cores', lambda: cores)
  config = defaults.get_config(strategy)
  config.workers, config.task = workers, defaults.task('digits', model='mlp')
  with config.unlocked():
    config.task.model = model
  assert own_process.executor_of(config) == executor


@pytest.mark.parametrize(
  'backend, scale, precision',
  [('cpu', 'cpu', None), ('gpu', 'cpu', 'highest'), ('gpu', 'gpu', None)],
)
def test_a_gpu_trains_cpu_workloads_with_full_float32_precision(
  backend, scale, precision, monkeypatch
):
  monkeypatch.setattr(own_process.jax, 'default_backend', lambda: backend)
  config = workloads.config('fashion', 8, scale)
  assert own_process.precision_of(config) == precision


def test_coding_is_not_timed_if_the_gradient_was_timed_elsewhere(
  tmp_path, monkeypatch
):
  store, strategy = ResultStore(tmp_path), resolve.strategy_config('topk')
  found = workloads.config('fashion', 8, 'cpu', strategy)
  gradient, coding = step_times.keys(single_run.key_of(found)['config'])
  kind, elsewhere = step_times.KIND, {'processor': 'another'}
  store.add(kind, gradient, {'seconds': [0.2, 0.1, 0.3]}, 1.0, elsewhere)
  monkeypatch.setattr(step_times, '_coding', lambda config: pytest.fail())
  of = lambda: step_times.of('fashion', 8, strategy, store)
  assert of() == {
    'gradient seconds': 0.2,
    'coding seconds': None,
    'coding seconds, standard error': None,
    'timed on': 'another',
  }
  with pytest.raises(UserError, match='topk on fashion is not timed yet'):
    step_times.own_s('fashion', 8, strategy, store)
  store.add(kind, coding, {'seconds': [0.1, 0.1, 0.1]}, 1.0, elsewhere)
  assert step_times.own_s('fashion', 8, strategy, store) == 0.2 + 0.1


def test_seconds_measured_on_two_processors_are_not_added(tmp_path):
  store, strategy = ResultStore(tmp_path), resolve.strategy_config('topk')
  found = workloads.config('fashion', 8, 'cpu', strategy)
  for key, processor in zip(
    step_times.keys(single_run.key_of(found)['config']), 'ab', strict=True
  ):
    result = {'seconds': [0.1, 0.1, 0.1]}
    store.add(step_times.KIND, key, result, 1.0, {'processor': processor})
  assert step_times.of('fashion', 8, strategy, store)[step_times.CODING] is None


def test_seconds_are_those_of_the_model_at_that_scale(tmp_path):
  store, strategy = ResultStore(tmp_path), resolve.strategy_config('topk')
  for scale, seconds in (('cpu', 0.1), ('gpu', 0.4)):
    found = workloads.config('cifar', 8, scale, strategy)
    for key in step_times.keys(single_run.key_of(found)['config']):
      where = {'processor': scale}
      store.add(step_times.KIND, key, {'seconds': [seconds] * 3}, 1.0, where)
  own_s = lambda *scale: step_times.own_s('cifar', 8, strategy, store, *scale)
  assert (own_s(), own_s('gpu')) == (0.2, 0.8)


def test_a_probed_run_serves_as_the_run_without_a_probe(tmp_path):
  store, made, make = run_maker(tmp_path, lambda rate, seed: 0.5)
  probed = study.RunRequest('fashion', config(), 'module:probe')
  assert study.line_of(probed, store) is None
  result = run(0.5) | {'told': ['a line']}
  store.add('fashion', probed.key, result, 1.0, {})
  plain, other = probed._replace(probe=''), probed._replace(config=config(0.1))
  seen, found = study.line_of(probed, store), study.line_of(plain, store)
  assert seen['result']['told'] == ['a line']
  assert found == seen | {'result': seen['result'] | {'told': []}}
  assert study.line_of(other._replace(probe=''), store) is None
  # A run without a probe lacks the numbers of the probe.
  make(other._replace(probe=''))
  assert study.line_of(other, store) is None
  begin = lambda: best_rate.tuned('fashion', config(), trials=1, seeds=1)
  study.complete(begin(), store, make)
  assert len(made) == 2  # Only the rate on validation data is new.


@pytest.mark.parametrize('scope', ['local', 'all'])
def test_triggers_match_bytes_of_all_workers_or_the_busiest_link(
  scope, tmp_path
):
  """Eight workers that send in turn load a link like one that sends 8 times."""
  store, tried = ResultStore(tmp_path), []

  def make(ask):
    trigger = ask.config.strategy.get('trigger') or {'rate': 1.0}
    tried.append(trigger['rate'])
    link = min(1.0, trigger['rate'] * (8 if scope == 'local' else 1))
    result = run(0.5, bytes_sent=trigger['rate'] * 1e6)
    result |= {'comm_s': {workloads.CUSTOM: link}}
    store.add(ask.workload, ask.key, result, 1.0, {})

  cell = 'fashion', 4, scope, 'random', 'quick'
  found = study.complete(trigger_searches.tuned(*cell), store, make)
  assert len(found.runs) == 1
  assert set(tried) == {1.0, 1 / trigger_searches.PERIOD}


@pytest.mark.parametrize('sent, seeds', [(0.12, 0), (0.8, 1)])
def test_a_trigger_far_from_the_wanted_bytes_gets_no_seeds(
  sent, seeds, tmp_path
):
  store = ResultStore(tmp_path)

  def make(ask):
    always = ask.config.strategy.name == 'gossip'
    share = 1.0 if always else sent / trigger_searches.PERIOD
    result = run(0.5, bytes_sent=share * 1e6)
    store.add(ask.workload, ask.key, result, 1.0, {})

  cell = 'fashion', 4, 'local', 'norm_slope', 'quick'
  found = study.complete(trigger_searches.tuned(*cell), store, make)
  assert len(found.runs) == seeds
  row = seed_statistics.row({}, found)
  assert row['seeds'] == seeds


def test_a_trigger_sends_the_wanted_bytes_at_its_best_rate(tmp_path):
  store, scored = ResultStore(tmp_path), []

  def make(ask):
    rate, strategy = ask.config.optimizer.learning_rate, ask.config.strategy
    share = 1.0
    if strategy.name != 'gossip':  # Ten times the rate sends twice the bytes.
      share = strategy.trigger.rate * 2 ** math.log10(rate / 0.05)
    if ask.config.split.holdout == 'test':
      scored.append((round(rate, 3), share))
    best = 0.9 - abs(math.log10(rate / 0.5)) / 10
    result = run(best, bytes_sent=share * 1e6)
    store.add(ask.workload, ask.key, result, 1.0, {})

  cell = 'fashion-dense', 8, 'local', 'random', 'cpu'
  found = study.complete(trigger_searches.tuned(*cell), store, make)
  assert len(found.runs) == best_rate.SEEDS and found.inside
  wanted = 1 / trigger_searches.PERIOD
  assert [rate for rate, _ in scored] == [0.5] * 3
  assert [share for _, share in scored] == pytest.approx([wanted] * 3, rel=0.05)
  assert found.arguments.startswith('trigger=random(rate=0.04')


def test_a_span_ignores_unknown_values():
  rows = [{'a': x} for x in (math.nan, 2.0, None, 1.0)]
  for some in (rows, rows[::-1]):
    assert claim.span(some, 'a', '.0f') == '1 to 2'
  assert claim.span(rows[:1], 'a') == 'unknown'


@pytest.mark.parametrize(
  ('name', 'given', 'cell'),
  [
    ('all_reduce', {}, ''),
    ('gtopk', {'density': 0.0012345, 'conserve': True},
     'conserve=True, density=0.001234'),
    ('adaptive_gossip', {'trigger': {'name': 'relative_drift', 'scale': 6.9},
                         'scope': 'all'},
     'scope=all, trigger=relative_drift(scale=6.9)'),
    ('double_squeeze', {'push': {'name': 'two_bit', 'threshold': 0.1},
                        'pull': {'name': 'none'}},
     'pull=none, push=two_bit(threshold=0.1)'),
  ],
)  # fmt: skip
def test_a_cell_shows_arguments_that_are_not_defaults(name, given, cell):
  assert given_arguments.as_text(resolve.strategy_config(name, **given)) == cell


def test_a_row_shows_the_arguments_of_its_strategy(tmp_path):
  store, _, make = run_maker(tmp_path, lambda rate, seed: 0.5)
  strategy = resolve.strategy_config('gtopk', density=0.02)
  one = workloads.config('fashion', 4, 'quick', strategy)
  tuned = study.complete(
    best_rate.tuned('fashion', one, seeds=1, trials=1), store, make
  )
  assert seed_statistics.row({}, tuned)['arguments'] == 'density=0.02'


@pytest.mark.parametrize(
  'mine, base, found',
  [
    ([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], (2.0, 0.0)),  # Twice, in each seed.
    ([3.0, 5.0], [2.0, 2.0], (2.0, 0.5)),  # -1 and 1 from twice the base.
    ([3.0], [2.0], (1.5, None)),
    ([1.0, None], [1.0, 1.0], (None, None)),
    ([1.0, 2.0], [1.0], (None, None)),
  ],
)
def test_a_ratio_of_means_has_the_error_of_paired_seeds(mine, base, found):
  assert seed_statistics.ratio(mine, base) == pytest.approx(found)


def test_numbers_of_a_probe_are_averaged_over_the_second_half():
  lines = [{'step': s, 'x': x} for s, x in enumerate((9.0, 9.0, 1.0, 3.0))]
  tuned = Tuned({}, 0.1, [run(0.5) | {'told': lines}], True)
  assert seed_statistics.row({}, tuned)['x'] == 2.0


def test_each_of_several_tests_needs_a_larger_gain():
  # The gain is 3.3 errors. With three seeds 5 % of Student's t lie beyond 2.9,
  # 1 % beyond 7.
  assert intervals.at_least(0.0, 1.0, 0.3, 3) is True
  assert intervals.at_least(0.0, 1.0, 0.3, 3, tests=5) is None
  assert intervals.at_least(0.0, 1.0, 0.1, 3, tests=5) is True
  assert intervals.at_least(0.0, -1.0, 0.3, 3, tests=5) is None


def test_a_best_rate_at_the_lower_edge_is_marked_too(tmp_path):
  store, _, make = run_maker(tmp_path, lambda rate, seed: 0.9 - rate)
  found = study.complete(best_rate.tuned('fashion', config()), store, make)
  assert len(found.curve) == best_rate.TRIALS and not found.inside
  assert found.rate == min(found.curve)


@pytest.mark.parametrize('are_inside', [(True, False), (False, True)])
def test_a_difference_from_a_rate_at_an_edge_has_no_error(are_inside):
  mine, theirs = (
    Tuned({}, 0.1, [run(0.5), run(score)], inside)
    for score, inside in zip((0.9, 0.7), are_inside, strict=True)
  )
  gain, error = seed_statistics.difference(mine, theirs)
  assert gain == pytest.approx(10) and math.isnan(error)


@pytest.mark.parametrize(
  'workload, gain, unit',
  [('fashion', 15.0, 'points'), ('shakespeare', 0.15, 'nats')],
)
def test_more_accuracy_and_less_loss_are_a_gain(workload, gain, unit):
  mine, theirs = (
    Tuned({}, 0.1, [run(end) for end in ends], True)
    for ends in ((0.5, 0.9), (0.4, 0.7))
  )
  found = margins.gain(mine, theirs, workload, 'x')
  assert found['gain over x'] == pytest.approx(gain)
  assert found[f'gain over x{ERROR}'] == pytest.approx(gain / 3)
  assert found[margins.UNIT] == unit


def test_the_nearest_bytes_are_the_nearest_by_ratio(tmp_path):
  """A tenth of the wanted bytes is farther from them than twice as many."""
  store = ResultStore(tmp_path)

  def make(ask):
    sent = 195 if ask.config.optimizer.learning_rate > 0.8 else 10
    result = run(0.5) | {'comm_s': {workloads.CUSTOM: 6 * sent / 1e6}}
    store.add(ask.workload, ask.key, result, 1.0, {})

  search = matched.value_for('fashion', config, 1.0, 100.0, 1.0)
  value, share = study.complete(search, store, make)
  assert value > 0.8 and share == pytest.approx(1.95)


def test_one_seed_above_a_gate_does_not_meet_it(tmp_path):
  """The gate of fashion is 92 %; two seeds and the mean are below it."""
  level = lambda rate, seed: (0.94, 0.90, 0.89)[seed]
  store, _, make = run_maker(tmp_path, level)
  study.complete(gates.of_all_reduce('fashion', 'cpu'), store, make)
  found = gates.gate('fashion', store, 'cpu')
  assert found.reached == pytest.approx(0.91) and not found.met
