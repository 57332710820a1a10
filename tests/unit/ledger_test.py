"""The totals of a ledger, compared with sums by hand."""

import dataclasses

import numpy as np
import pytest

from gossipjax import network
from gossipjax.traffic import Count, Traffic
from gossipjax.training.ledger import Ledger


def test_totals_of_steps_equal_sums_by_hand():
  ledger = Ledger({'x': network.Link(1.0, 10.0)}, 2, late=1)
  bytes_, messages = [[10, 0, 0], [30, 0, 20]], [[1, 0, 0], [1, 0, 1]]
  sent = Traffic.of(bytes_, messages, received=[[5, 0, 20], [0, 0, 0]])
  sent = dataclasses.replace(sent, local=Count.of([[4, 0, 0], [6, 0, 5]]))
  sent = Traffic(*map(np.asarray, sent.counts()))  # As on the host.
  losses = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
  ledger.add_steps(losses, sent, step_s=2.0)
  assert ledger.bytes.tolist() == [10, 50] and ledger.step == 3
  assert ledger.received.tolist() == [25, 0]
  assert ledger.messages.tolist() == [1, 2]
  assert ledger.local.tolist() == [4, 11]
  assert ledger.exchanges == 2  # In the last step only one worker sends.
  assert ledger.comm_s == {'x': 4.0 + 0.0 + 3.0}
  # The second step hides half of the first exchange.
  assert ledger.hidden_s == {'x': 2.0}
  assert ledger.take_loss() == 3.0


def test_totals_of_rounds_equal_sums_by_hand():
  ledger = Ledger({}, 3)
  sent = Traffic.of([10, 30], [1, 2], received=[30, 10])
  sent = dataclasses.replace(sent, local=Count.of([4, 6]))
  for who in ([0, 2], [2, 1]):
    ledger.add_round(who, np.array([1.0, 3.0]), sent)
  assert ledger.bytes.tolist() == [10, 30, 40]
  assert ledger.received.tolist() == [30, 10, 40]
  assert ledger.messages.tolist() == [1, 2, 3]
  assert ledger.local.tolist() == [4, 6, 10]
  assert ledger.exchanges == 2 and ledger.take_loss() == 2.0


@pytest.mark.parametrize(
  'counted, wire', [([1, 1], [10]), ([1, 0], None), ([0, 1], None)]
)
def test_interface_bytes_are_kept_only_if_all_steps_counted_them(counted, wire):
  ledger = Ledger({}, 1)
  sent = Traffic.of([[0, 0]], [[0, 0]])
  sent = Traffic(*map(np.asarray, sent.counts()))
  for each in counted:
    ledger.add_steps(np.ones((1, 2)), sent, np.array([5]) if each else None)
  assert ledger.wire == wire
