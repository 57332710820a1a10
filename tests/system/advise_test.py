"""Advice by its command: mistakes, what it says, pilots that it trains."""

import re

import jax
import numpy as np
import pytest

from gossipjax.advice import halving, pilots, ranking, step_traffic
from gossipjax.config import defaults, resolve
from tests.support import program

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


@pytest.mark.parametrize('what', MISTAKES)
def test_a_mistake_is_a_sentence(what, tmp_path):
  args, words = MISTAKES[what]
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


def test_the_command_says_what_is_known_and_that_it_is_no_evidence(tmp_path):
  ended = program.run(
    tmp_path,
    'advise',
    '--config=configs/default.py:topk',
    '--config.task.model=cnn',  # No claim trains it, so none is kept.
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
    "  config.task.model = 'cnn'\n"  # No claim trains it on digits.
    "  config.variants = defaults.variants(dense='all_reduce', sparse='topk')\n"
    '  return config\n'
  )
  words = f'--config={tmp_path}/named.py', '--link=wan', '--minutes=0'
  ended = program.run(tmp_path, 'advise', *words, module='gossipjax')
  assert ended.code == 0, ended.err
  assert 'No kept runs match: use all-reduce' in ended.out
  assert '| dense' in ended.out


def test_a_pilot_that_ends_within_a_period_costs_its_share(tmp_path):
  """Of six steps of local SGD, four lie in a period that is over."""
  config = defaults.get_config()
  config.update(workers=2, steps=40, executor='vmap')
  config.strategy = resolve.strategy_config('local_sgd', period=4)
  pilot = halving.Pilot(ranking.Candidate('local_sgd', 0.1), 6, 0)

  def spent(comm_s, folder):
    given = {'local_sgd': config}, {'local_sgd': 0.0}, comm_s, config.link
    bench = pilots.Bench(*given, folder, lambda told: None, lambda: False)
    return bench(pilot).seconds[-1]

  counted = spent({}, tmp_path)
  steps, traffic = step_traffic.of_cycle(
    config.strategy, {'x': jax.ShapeDtypeStruct((9,), np.float32)}, 2
  )
  assert traffic.exact and len(steps) % 4 == 0
  assert spent({'local_sgd': counted / 4}, tmp_path) == counted * 6 / 4


def test_a_pilot_of_a_longer_training_has_its_schedule(tmp_path):
  pilot = halving.Pilot(ranking.Candidate('all_reduce', 0.1), 4, 0)

  def scored(steps, folder):
    config = defaults.get_config()
    config.update(workers=2, steps=steps, executor='vmap')
    config.optimizer.warmup_steps = 40
    given = {'all_reduce': config}, {'all_reduce': 0.01}, {}, config.link
    bench = pilots.Bench(*given, folder, lambda told: None, lambda: False)
    return bench(pilot).scores

  short = scored(40, tmp_path / 'one')
  assert short != scored(400, tmp_path / 'one')
  assert scored(40, tmp_path / 'one') == short
  assert scored(400, tmp_path / 'one') == scored(400, tmp_path / 'two')


def test_pilots_rank_strategies_and_leave_a_config(tmp_path):
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
