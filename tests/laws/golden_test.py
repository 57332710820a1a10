"""Every strategy still has the losses and bytes stored in golden.json.

So has every form of a strategy of which runs are kept, such as
'hylo(level=mean)', see experiments/framework/forms.py. For a new form, add its
arguments to golden.json, so chosen that ten steps run its code:

    "hylo(level=mean)": {"arguments": {"level": "mean"}},

Then, and after an intended change of figures, or for a new strategy, run

    python -m tests.laws.golden_test [STRATEGY ...]

It rewrites the figures that differ, of all forms of the named strategies or of
all, and raises the versions of those that changed in
experiments/framework/numerics.json, so that their stored runs are repeated.
Remove the runs of the old versions, and look at the diff before you commit it.
"""

import hashlib
import json
import pathlib
import sys

import jax
import pytest

from experiments.framework import forms, numerics
from gossipjax import executors
from gossipjax.config import defaults, resolve
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train
from tests.support.tiers import exhaustive

GOLDEN = pathlib.Path(__file__).with_name('golden.json')
# Longest period that replaces defaults which send nothing in ten steps.
PERIOD = 5
# Hylo compresses convolutions in another way than dense layers.
MODELS = {'hylo': 'cnn'}
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


def strategy_of(form: str) -> str:
  """'hylo' of 'hylo(level=mean)'."""
  return form.partition('(')[0]


def measure(name: str, compute_dtype: str = '') -> dict:
  """Measures ten steps on digits of an MLP, or a network of MODELS, eight
  workers on one device.

  Of a strategy, uses the defaults, or, if those send nothing, periods of at
  most PERIOD; of another form, its arguments in golden.json.
  """
  if (strategy := strategy_of(name)) != name:
    arguments = json.loads(GOLDEN.read_text())[name]['arguments']
    return _measure(strategy, arguments, compute_dtype)
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
  config.task = defaults.task('digits', model=MODELS.get(name, 'mlp'))
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


def test_every_strategy_and_kept_form_and_nothing_else_has_an_entry(golden):
  assert sorted(golden) == sorted({*resolve.STRATEGIES, *forms.kept()}), (
    'golden.json lacks a strategy or a form of kept runs, or has another: see '
    f'{__file__}, look at the diff, commit it.'
  )


def test_the_name_of_a_form_tells_its_arguments(golden):
  for form, entry in golden.items():
    if (strategy := strategy_of(form)) != form:
      assert forms.name({'name': strategy, **entry['arguments']}) == form


def test_a_version_is_raised_by_changed_figures_and_not_by_a_new_form():
  figures = lambda loss: {'arguments': {}, 'train_loss': loss}
  golden = {'hylo': figures(1.0), 'hylo(level=mean)': figures(2.0)}
  new = raised(golden, {})
  assert new['hylo']['version'] == 1 and raised(golden, new) == new
  golden['hylo(unit=slice)'] = figures(3.0)
  added = raised(golden, new)
  assert added['hylo']['version'] == 1 and golden.keys() == (
    added['hylo']['golden'].keys()
  )
  golden['hylo(level=mean)'] = figures(2.5)
  assert raised(golden, added)['hylo']['version'] == 2


FORMS = sorted({*json.loads(GOLDEN.read_text())} - {*resolve.STRATEGIES})


@pytest.mark.parametrize('name', [*resolve.STRATEGIES, *map(exhaustive, FORMS)])
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
  assert {
    k: v for entry in known.values() for k, v in entry['golden'].items()
  } == {form: digest(entry) for form, entry in golden.items()}, (
    'write the figures by `python -m tests.laws.golden_test`.'
  )
  assert all(entry['version'] >= 1 for entry in known.values())


def rewrite(names) -> None:
  """Measures all forms of strategies; rewrites golden.json, numerics.json."""
  known = json.loads(GOLDEN.read_text())
  for form in sorted({*names, *known}):
    if strategy_of(form) in names:
      found = measure(form)
      if not agree(found, known.get(form, {})):
        known[form] = found
      print(form, found, file=sys.stderr, flush=True)
  new = {
    k: known[k] for k in sorted(known) if strategy_of(k) in resolve.STRATEGIES
  }
  write(GOLDEN, new)
  write(numerics.PATH, raised(new, numerics.known()))


def raised(golden: dict, known: dict) -> dict:
  """The versions after these golden figures, `known` before; 1 for a new
  strategy. A new form changes no kept run."""
  found = {}
  for name in filter(golden.get, resolve.STRATEGIES):
    old = known.get(name, {'version': 0, 'golden': {name: ''}})
    digests = {
      k: digest(v) for k, v in golden.items() if strategy_of(k) == name
    }
    changed = any(digests.get(k, v) != v for k, v in old['golden'].items())
    found[name] = {'version': old['version'] + changed, 'golden': digests}
  return found


def agree(found: dict, expected: dict) -> bool:
  """Whether figures are the same, losses to `TOLERANCE`."""
  if 'train_loss' not in expected:
    return False
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
