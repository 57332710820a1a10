"""A measurement of many minutes that is stopped goes on where it was."""

import pytest

from experiments import async_measured


def measured_row(method, seed, quick, folder):
  """A row without a measurement."""
  del quick, folder
  both = {
    f'{key}, {what}': 1.0
    for key in async_measured.KEYS
    for what in ('measured', 'predicted')
  }
  return {
    'method': method,
    'seed': seed,
    **both,
    async_measured.OVERRUN: 1.0,
    async_measured.OTHERS: 0.0,
  }


def test_what_was_measured_before_a_stop_is_not_measured_again(
  tmp_path, monkeypatch
):
  calls = []

  def row(*given):
    calls.append(given[:2])
    if len(calls) == 6:
      raise KeyboardInterrupt
    return measured_row(*given)

  monkeypatch.setattr(async_measured, 'KEPT', tmp_path)
  monkeypatch.setattr(async_measured, 'row', row)
  with pytest.raises(KeyboardInterrupt):
    async_measured.measure(False, tmp_path)
  found = async_measured.measure(False, tmp_path)
  everything = [
    (method, seed)
    for method in async_measured.METHODS
    for seed in range(async_measured.SEEDS)
  ]
  assert [(r['method'], r['seed']) for r in found.rows] == everything
  assert calls == [*everything[:6], *everything[5:]]
  lines = (tmp_path / 'async_measured.jsonl').read_text().splitlines()
  assert len(lines) == len(everything)


@pytest.mark.parametrize(
  ('each', 'near'),
  [
    ([(1.02, 1.0), (1.0, 1.0), (1.04, 1.0)], True),
    ([(1.1, 1.0), (1.0, 1.0), (1.1, 1.0)], None),
    ([(1.3, 1.0), (1.3, 1.0), (1.3, 1.0)], False),
    ([(0.7, 1.0), (1.0, 1.0), (1.3, 1.0)], None),  # The seeds cannot tell.
    ([(1.0, 1.0), (None, 1.0), (1.0, 1.0)], None),
  ],
)
def test_a_prediction_is_judged_when_its_seeds_can_tell(each, near):
  assert async_measured._is_near(each) is near


def test_what_is_never_there_is_no_case():
  key = async_measured.STALE
  rows = [
    {'method': name, f'{key}, measured': a, f'{key}, predicted': b}
    for name, a, b in (('reads', 0, 0), ('pushes', 0, 3))
  ]
  assert async_measured.pairs(rows, key) == [[(0, 3)]]
