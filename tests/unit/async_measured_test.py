"""A stopped measurement is continued, and predictions are judged by seeds."""

import pytest

from experiments import async_measured


def measured_row(method, seed, quick, folder):
  """A row of made-up values, as `async_measured.row` returns after minutes."""
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


def test_rows_measured_before_an_interrupt_are_not_measured_again(
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
  all_rows = [
    (method, seed)
    for method in async_measured.METHODS
    for seed in range(async_measured.SEEDS)
  ]
  assert [(r['method'], r['seed']) for r in found.rows] == all_rows
  assert calls == [*all_rows[:6], *all_rows[5:]]
  lines = (tmp_path / 'async_measured.jsonl').read_text().splitlines()
  assert len(lines) == len(all_rows)


@pytest.mark.parametrize(
  ('pairs', 'near'),
  [
    ([(1.02, 1.0), (1.0, 1.0), (1.04, 1.0)], True),
    ([(1.1, 1.0), (1.0, 1.0), (1.1, 1.0)], None),
    ([(1.3, 1.0), (1.3, 1.0), (1.3, 1.0)], False),
    ([(0.7, 1.0), (1.0, 1.0), (1.3, 1.0)], None),  # The seeds disagree.
    ([(1.0, 1.0), (None, 1.0), (1.0, 1.0)], None),
  ],
)
def test_a_prediction_is_judged_only_if_its_seeds_are_conclusive(pairs, near):
  assert async_measured._is_near(pairs) is near


def test_a_method_with_zeros_only_is_not_judged():
  key = async_measured.STALE
  rows = [
    {'method': name, f'{key}, measured': a, f'{key}, predicted': b}
    for name, a, b in (('reads', 0, 0), ('pushes', 0, 3))
  ]
  assert async_measured.pairs(rows, key) == [[(0, 3)]]
