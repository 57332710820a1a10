"""The measured share of computing, its model and the bandwidth it needs."""

import pytest

from experiments.framework.result_store import ResultStore
from experiments.testbed import utilisation
from experiments.testbed.step_seconds import Steps
from gossipjax.network import Link

FAST = Link(1e-4, 1e9)


def test_a_row_is_kept_and_its_model_agrees_with_one_by_hand(
  tmp_path, monkeypatch
):
  calls, shapes = [], []

  def time_training(workers, link, strategy, flags, steps, every):
    calls.append(strategy)
    return Steps(0.5 if strategy == 'local_sgd' else 1.0, 110.0, 100.0)

  def fitted(workers, shape):
    shapes.append(shape.bytes_per_s)
    return Link(1e-3, shape.bytes_per_s) if shape.bytes_per_s else FAST

  monkeypatch.setattr(utilisation, 'time_training', time_training)
  monkeypatch.setattr(utilisation.calibrate, 'fitted', fitted)
  for _ in range(2):  # The second time all results are kept.
    found = utilisation.row(ResultStore(tmp_path), 2, '100mbit', 'all_reduce')
  # Workers that never exchange; the method on the fast link, on the slow one.
  assert calls == ['local_sgd', 'all_reduce', 'all_reduce']
  # 64 * 2048 + 2048^2 + 2048 * 10 weights, 4,106 biases: 4 bytes each way.
  sent = 4 * (64 * 2048 + 2048**2 + 2048 * 10 + 2 * 2048 + 10)
  assert shapes == [None, 12.5e6]
  # Two rounds each; the step without a limit includes the fast link.
  waits = sent / 12.5e6 + 2e-3 - sent / 1e9 - 2e-4
  assert found['computing, modelled'] == pytest.approx(0.5 / (1.0 + waits))
  assert found['computing, measured'] == 0.5


@pytest.mark.exhaustive
def test_exchanges_that_overlap_computing_are_waited_for_less():
  wait = lambda name: utilisation.waited_s(
    utilisation.METHODS[name], 2, Link(2e-4, 37.5e6), 0.5
  )
  # Every fourth step exchanges, in 0.464 s and two rounds. Of the two exchanges
  # in 8 steps the first is hidden, the one in the last step is waited for.
  assert wait('local_sgd') == pytest.approx(2 * wait('local_sgd, beside'))
  assert wait('local_sgd, beside') == pytest.approx(0.464 / 8, rel=0.01)
  assert wait('streaming_diloco, beside') < wait('streaming_diloco')


def test_a_bandwidth_is_interpolated_between_rates_and_not_beyond():
  rows = [
    {'link rate': rate, 'x': share}
    for rate, share in (('10mbit', 0.25), ('1gbit', 0.75))
  ]
  assert utilisation.needed(rows, 'x', 0.5) == pytest.approx(100)
  assert utilisation.needed(rows, 'x', 0.9) is None
