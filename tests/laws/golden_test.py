"""Every strategy still has the losses and bytes stored in golden.json.

After an intended change of these figures, or for a new strategy, run

    python -m tests.laws.golden_test [NAME ...]

It rewrites the figures that differ, of the named strategies or of all, and
raises the versions of these strategies in experiments/framework/numerics.json,
so that their stored runs are repeated. Remove the runs of the old versions, and
look at the diff before you commit it.
"""

import hashlib
import json
import pathlib
import sys

import jax
import pytest

from experiments.framework import numerics
from gossipjax import executors
from gossipjax.config import defaults, resolve
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train

GOLDEN = pathlib.Path(__file__).with_name('golden.json')
# Longest period that replaces defaults which send nothing in ten steps.
PERIOD = 5
# Losses differ by at most 7e-8 with and without the compiler's vectorisation;
# they should differ by no more on another CPU. But rounding can make a top-k
# swap two near-equal entries. Losing 1 of the 9 that gTop-k keeps would change
# the loss by 1e-3, but an almost equal one replaces it. A wrong sign, weight or
# scale changes the loss by 1e-2. Bytes are not rounded: they have no tolerance.
TOLERANCE = 1e-4
# Tolerances of losses with another precision, of values or of products, on any
# backend. On a CPU bfloat16 changes them by at most 8e-4, except 1.7e-3 for
# ok_topk, whose bytes depend on the data and change too. The mantissa of
# tensorfloat32 is three bits longer.
TOLERANCES = {'float32': TOLERANCE, 'tensorfloat32': 1e-3, 'bfloat16': 5e-3}


def digest(entry: dict) -> str:
  """Returns a digest of a strategy's golden figures."""
  text = json.dumps(entry, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def measure(name: str, compute_dtype: str = '') -> dict:
  """Measures ten steps of an MLP on digits, eight workers on one device.

  Uses the defaults, or, if those send nothing, periods of at most PERIOD.
  """
  found = _measure(name, {}, compute_dtype)
  if max(found['bytes_sent']):
    return found
  method = resolve.strategy_config(name).items()
  return _measure(
    name,
    {
      key: PERIOD
      for key, value in method
      if key.endswith('period') and (value or 0) > PERIOD
    },
    compute_dtype,
  )


def _measure(name: str, arguments: dict, compute_dtype: str) -> dict:
  config = defaults.get_config(name)
  config.update(steps=10, log_every=10, eval_every=0, executor='vmap')
  config.compute_dtype = compute_dtype
  config.strategy = resolve.strategy_config(name, **arguments)
  (record,) = train(resolve_run(config))
  return {
    'arguments': arguments,
    'train_loss': record.train_loss,
    'bytes_sent': record.bytes_sent,
    'messages': record.messages,
  }


# Ten steps take less time than optimising the compiled program would.
pytestmark = pytest.mark.usefixtures('compile_quickly')


@pytest.fixture(scope='module')
def golden():
  """What golden.json holds."""
  return json.loads(GOLDEN.read_text())


def test_every_strategy_and_nothing_else_has_an_entry(golden):
  assert sorted(golden) == sorted(resolve.STRATEGIES), (
    'golden.json and gossipjax/strategies differ: run '
    '`python -m tests.laws.golden_test`, look at the diff, commit it.'
  )


@pytest.mark.parametrize('name', resolve.STRATEGIES)
def test_loss_and_bytes_equal_the_golden_figures(name, golden):
  assert name in golden, (
    f'{name} has no entry in golden.json yet: run '
    '`python -m tests.laws.golden_test`, look at the diff, commit it.'
  )
  found, expected = measure(name), golden[name]
  assert expected['train_loss'] == pytest.approx(
    found.pop('train_loss'), rel=TOLERANCE
  )
  assert found == {key: expected[key] for key in found}
  assert max(found['bytes_sent']) > 0


def test_versions_were_written_with_these_golden_figures(golden):
  known = numerics.known()
  assert {name: entry['golden'] for name, entry in known.items()} == {
    name: digest(entry) for name, entry in golden.items()
  }, 'write the figures by `python -m tests.laws.golden_test`.'
  assert all(entry['version'] >= 1 for entry in known.values())


def rewrite(names) -> None:
  """Measures strategies; rewrites golden.json and numerics.json."""
  known = json.loads(GOLDEN.read_text())
  for name in names:
    found = measure(name)
    if name not in known or not agree(found, known[name]):
      known[name] = found
    print(name, found, file=sys.stderr, flush=True)
  new = {name: known[name] for name in resolve.STRATEGIES if name in known}
  write(GOLDEN, new)
  raised = {}
  for name, entry in new.items():
    old = numerics.known().get(name, {'version': 0, 'golden': ''})
    changed = old['golden'] != digest(entry)
    raised[name] = {
      'version': old['version'] + changed,
      'golden': digest(entry),
    }
  write(numerics.PATH, raised)


def agree(found: dict, expected: dict) -> bool:
  """Whether figures are the same, losses to `TOLERANCE`."""
  close = pytest.approx(expected['train_loss'], rel=TOLERANCE)
  return found | {'train_loss': None} == expected | {'train_loss': None} and (
    found['train_loss'] == close
  )


def write(path: pathlib.Path, entries: dict) -> None:
  """Writes a JSON object with a line for each entry, for a readable diff."""
  lines = [f'{json.dumps(k)}: {json.dumps(v)}' for k, v in entries.items()]
  path.write_text('{\n' + ',\n'.join(lines) + '\n}\n')


if __name__ == '__main__':
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_disable_most_optimizations', True)
  executors.emulate(1)
  rewrite(sys.argv[1:] or resolve.STRATEGIES)
