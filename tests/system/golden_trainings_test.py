"""Kept trainings still begin with the figures of golden_trainings.json.

Those are repeated that together use all that kept trainings use: each task,
model, optimizer, split of the data and kind of virtual time. golden_test.py
does this for strategies, without data.

After an intended change of these figures, raise TRAINING, or the version of
virtual time, in experiments/framework/numerics.py, and remove the runs of the
old version. Then, and if a kept training uses something new, run

    python -m tests.system.golden_trainings_test
"""

import json
import pathlib
import sys

import jax
import pytest

from experiments.framework import numerics, repeat, single_run
from experiments.framework.result_store import ResultStore
from gossipjax import executors
from tests.support import datasets

STORE = ResultStore()
GOLDEN = pathlib.Path(__file__).with_name('golden_trainings.json')
# In virtual time the first worker is lost after a second, ten steps or more.
STEPS, VIRTUAL_STEPS = 5, 20
# At larger learning rates these steps amplify rounding.
LARGEST_RATE = 0.005
# Of all figures but bytes and exchanges. Another instruction set and another
# way to emit loops change them by at most 4e-5, another seed changes losses by
# 1e-2 or more, and half as many warm-up steps by 2e-3 or more.
TOLERANCE = 1e-3
# Of other strategies rounding can change what is sent.
FIRST = ('all_reduce', 'gossip', 'local_sgd', 'pairwise_gossip', 'pull_gossip')
FIGURES = (
  'train_loss',
  'test_loss',
  'consensus_distance',
  'bytes_sent',
  'exchanges',
  'virtual_s',
  'waiting_s',
  'staleness',
)
VERSIONS = {
  name: getattr(numerics, name)
  for name in ('TRAINING', 'VIRTUAL_TIME', 'FAILURES', 'STALLS', 'LATE')
}

pytestmark = [
  pytest.mark.usefixtures('compile_quickly'),
  pytest.mark.exhaustive,
]


def used(config: dict) -> set[str]:
  """Names what a training uses that is not its strategy's."""
  task, cluster = config['task'], config.get('cluster') or {}
  timing = 'asynchronous' if cluster.get('asynchronous') else 'rounds'
  lost = [key for key in ('failures', 'first') if cluster.get(key)]
  return {
    task['name'],
    task.get('model', 'transformer'),
    *(key for key in ('augment', 'whiten', 'smoothing') if task.get(key)),
    f'{config["optimizer"]["name"]}, {config["optimizer"]["schedule"]}',
    config['split']['name'],
    ' '.join([timing] * bool(cluster) + lost) or 'lock-step',
    config.get('compute_dtype', 'float32'),
  }


def kept() -> list[tuple[tuple, str, dict]]:
  """Trainings as (rank, workload, line): FIRST first, then the fastest ones."""
  found = []
  for workload in STORE.kinds():
    for line in STORE.lines(workload).values():
      is_training = 'records' in line['result'] and 'probe' not in line['key']
      if is_training and (records := line['result']['records']):
        late = line['key']['config']['strategy']['name'] not in FIRST
        rank = late, line['seconds'] / records[-1]['step'], line['digest']
        found.append((rank, workload, line))
  return sorted(found, key=lambda it: it[0])


def measure(workload: str, digest: str) -> dict:
  """Figures of the first steps of a kept training."""
  line = STORE.lines(workload)[digest]
  config = repeat.config_of(line['key'])
  steps = VIRTUAL_STEPS if config.cluster else STEPS
  config.update(steps=steps, log_every=steps, eval_every=steps)
  rate = min(config.optimizer.learning_rate, LARGEST_RATE)
  config.optimizer.learning_rate = rate
  record = single_run.make(config)['records'][-1]
  return {name: record[name] for name in FIGURES if name in record}


def golden() -> dict:
  """What golden_trainings.json holds."""
  return json.loads(GOLDEN.read_text())


def marks(entry: dict) -> list[pytest.MarkDecorator]:
  return datasets.needs(entry['data']) if entry['data'] else []


@pytest.mark.parametrize(
  'digest',
  [
    pytest.param(digest, marks=marks(entry))
    for digest, entry in golden()['trainings'].items()
  ],
)
def test_a_kept_training_begins_with_the_golden_figures(digest):
  entry = golden()['trainings'][digest]
  found = measure(entry['workload'], digest)
  assert agree(found, entry['figures']), (found, entry['figures'])


def agree(found: dict, expected: dict) -> bool:
  """Whether figures are the same, all but bytes and exchanges to TOLERANCE."""
  exact = ('bytes_sent', 'exchanges')
  return found == pytest.approx(expected, rel=TOLERANCE, abs=1e-9) and all(
    found[name] == expected[name] for name in exact
  )


def test_golden_trainings_use_all_that_kept_ones_use():
  every = [used(line['key']['config']) for _, _, line in kept()]
  covered = [entry['uses'] for entry in golden()['trainings'].values()]
  assert set().union(*every) == set().union(*covered), f'see {__file__}'


def test_the_versions_are_those_of_the_golden_figures():
  assert golden()['versions'] == VERSIONS, f'see {__file__}'


def rewrite() -> None:
  """Measures kept trainings that use all; rewrites golden_trainings.json."""
  old, found, covered = golden(), {}, set()
  for _, workload, line in kept():
    config, digest = line['key']['config'], line['digest']
    if not used(config) - covered:
      continue
    covered |= used(config)
    task = config['task']
    found[digest] = {
      'workload': workload,
      'data': task.get('file') or task['name'].replace('digits', ''),
      'uses': sorted(used(config)),
      'figures': measure(workload, digest),
    }
    print(found[digest], file=sys.stderr, flush=True)
    known = old['trainings'].get(digest, found[digest])
    if agree(found[digest]['figures'], known['figures']):
      found[digest] = known
    elif old['versions'] == VERSIONS:
      sys.exit(f'It was {known["figures"]}: raise a version in numerics.py.')
  text = json.dumps({'versions': VERSIONS, 'trainings': found}, indent=1)
  GOLDEN.write_text(text + '\n')


if __name__ == '__main__':
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_disable_most_optimizations', True)
  executors.emulate(8)
  rewrite()
