"""The `advise` command: mistakes, its output, the pilots that it trains."""

import re

import jax
import numpy as np
import pytest

from gossipjax.advice import halving, pilots, ranking, step_traffic
from gossipjax.config import defaults, resolve
from tests.support import program

# Mistake: its flags, and words that the error message contains.
MISTAKES = {
  'a bandwidth of 0': (
    '--latency-s=1e-4 --bytes-per-s=0',
    'bytes_per_s=0.0 above 0',
  ),
  'a negative latency': (
    '--latency-s=-1 --bytes-per-s=1e8',
    'latency_s=-1.0 at least 0',
  ),
  'half a link': ('--latency-s=1', '--latency-s --bytes-per-s'),
  'two links': ('--link=wan --latency-s=1 --bytes-per-s=1', '--link or'),
  'minutes below 0': ('--minutes=-1', '--minutes=-1 0 or more'),
  'minutes that are no number': ('--minutes=nan', '--minutes=nan 0 or more'),
  'an unknown link': ('--link=2gbe', 'link=2gbe 1gbe'),
  'no such file': ('--link=no.json', 'no.json No such file'),
  'no picture': ('--plot --out=a.xyz', '--out=a.xyz .png'),
  'no folder': ('--plot --out=none/a.png', '--out=none/a.png none.'),
  'no workers': ('--workers=0', 'workers least 1'),
}


@pytest.mark.parametrize('mistake', MISTAKES)
def test_a_mistake_ends_with_an_error_message(mistake, tmp_path):
  args, words = MISTAKES[mistake]
  ended = program.run(
    tmp_path,
    'advise',
    '--config=configs/default.py:topk',
    *args.split(),
    module='gossipjax',
  )
  assert ended.code == 2 and ended.err.count('\n') == 1, ended.err
  for word in words.split():
    assert word in ended.err


def test_without_matching_runs_it_recommends_all_reduce_and_pilots(tmp_path):
  ended = program.run(
    tmp_path,
    'advise',
    '--config=configs/default.py:topk',
    '--config.task.model=cnn',  # No experiment trains it, so no run is kept.
    '--workers=16',
    '--link=wan',
    '--minutes=0',
    '--plot',
    f'--out={tmp_path}/advice.png',
    module='gossipjax',
  )
  assert ended.code == 0, ended.err
  for word in (
    'no run of your model (cnn on digits with sgd, P = 16)',
    '| all_reduce ',
  ):
    assert word in ended.out
  assert 'No kept runs match: use all-reduce' in ended.out
  assert '--minutes=5' in ended.out and 'Use topk' not in ended.out
  assert (tmp_path / 'advice.png').stat().st_size > 10_000


def test_a_variant_of_all_reduce_may_have_any_name(tmp_path):
  (tmp_path / 'named.py').write_text(
    'from gossipjax.config import defaults\n\n'
    'def get_config():\n'
    '  config = defaults.get_config()\n'
    "  config.task.model = 'cnn'\n"  # No experiment trains it on digits.
    "  config.variants = defaults.variants(dense='all_reduce', sparse='topk')\n"
    '  return config\n'
  )
  words = f'--config={tmp_path}/named.py', '--link=wan', '--minutes=0'
  ended = program.run(tmp_path, 'advise', *words, module='gossipjax')
  assert ended.code == 0, ended.err
  assert 'No kept runs match: use all-reduce' in ended.out
  assert '| dense' in ended.out


def test_a_strategy_left_out_for_its_period_is_not_called_slow(tmp_path):
  ended = program.run(
    tmp_path,
    'advise',
    '--config=configs/default.py:diloco',
    '--config.steps=80',
    '--link=wan',
    '--minutes=1',
    '--tune',
    module='gossipjax',
  )
  assert ended.code == 0, ended.err
  assert 'diloco is left out: its period of 500 steps' in ended.err
  assert 'Nothing is tried; set a shorter period' in ended.out
  assert 'No tuned.py is written.' in ended.out
  assert 'nothing is faster' not in ended.out


def test_a_pilot_is_charged_the_mean_communication_time_per_step(tmp_path):
  """Six steps of local SGD with period 4 exchange once, but cost 6/4 exchanges:
  in the full-length training they are 6/4 of a period."""
  config = defaults.get_config()
  config.update(workers=2, steps=40, executor='vmap')
  config.strategy = resolve.strategy_config('local_sgd', period=4)
  pilot = halving.Pilot(ranking.Candidate('local_sgd', 0.1), 6, 0)

  def spent(comm_s, folder):
    given = {'local_sgd': config}, {'local_sgd': 0.0}, comm_s, config.link
    bench = pilots.Bench(*given, folder, lambda message: None, lambda: False)
    return bench(pilot).seconds[-1]

  exchange_s = spent({}, tmp_path)
  steps, traffic = step_traffic.of_cycle(
    config.strategy, {'x': jax.ShapeDtypeStruct((9,), np.float32)}, 2
  )
  assert traffic.exact and len(steps) % 4 == 0
  assert spent({'local_sgd': exchange_s / 4}, tmp_path) == exchange_s * 6 / 4


def test_a_pilot_has_the_schedule_of_its_full_length_training(tmp_path):
  """Pilots of trainings of 40 and 400 steps share a folder, but no result."""
  pilot = halving.Pilot(ranking.Candidate('all_reduce', 0.1), 4, 0)

  def scores_of(steps, folder):
    config = defaults.get_config()
    config.update(workers=2, steps=steps, executor='vmap')
    config.optimizer.warmup_steps = 40
    given = {'all_reduce': config}, {'all_reduce': 0.01}, {}, config.link
    bench = pilots.Bench(*given, folder, lambda message: None, lambda: False)
    return bench(pilot).scores

  short = scores_of(40, tmp_path / 'one')
  assert short != scores_of(400, tmp_path / 'one')
  assert scores_of(40, tmp_path / 'one') == short
  assert scores_of(400, tmp_path / 'one') == scores_of(400, tmp_path / 'two')


def test_pilots_rank_strategies_and_tune_writes_a_config(tmp_path):
  (tmp_path / 'small.py').write_text(
    'from gossipjax.config import defaults\n'
    'def get_config():\n'
    '  config = defaults.get_config()\n'
    '  config.update(workers=2, steps=80, seeds=(0, 1))\n'
    "  config.variants = defaults.variants(sparse='topk')\n"
    '  return config\n'
  )
  words = (
    'advise',
    f'--config={tmp_path}/small.py',
    '--link=wan',
    '--minutes=6',
    '--tune',
    f'--workdir={tmp_path}/advice',
  )
  ended = program.run(tmp_path / '1', *words, module='gossipjax')
  assert ended.code == 0, ended.err
  assert '| sparse ' in ended.out and '| all_reduce ' in ended.out
  assert 'validation accuracy' in ended.out
  assert re.search(r'^Use (all-reduce|sparse)', ended.out, re.M)
  again = program.run(tmp_path / '2', *words, module='gossipjax')
  assert again.code == 0, again.err
  assert 'steps: ' not in again.err  # No pilot is trained twice.
  ended = program.run(
    tmp_path / '3',
    f'--config={tmp_path}/advice/tuned.py',
    '--config.steps=4',
    f'--workdir={tmp_path}/run',
  )
  assert ended.code == 0 and '| sparse ' in ended.out, ended.err
