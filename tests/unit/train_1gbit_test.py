"""The verdict of train_1gbit, with made-up speeds."""

import pytest

from experiments import train_1gbit as claim

ERROR = f'{claim.SPEED}{claim.ERROR}'


def row(name: str, wire: float, speed: float | None, error: float | None):
  seconds = speed and 100.0 / speed
  return {
    'rate': '1gbit',
    'strategy': name,
    'seeds': 3,
    claim.WIRE: wire,
    claim.SECONDS: seconds,
    f'{claim.SECONDS}{claim.ERROR}': error and seconds * error,
    claim.SPEED: speed,
    ERROR: error,
  }


DENSE = row('all_reduce', 100.0, 1.0, 0.0)
MORE = row('gossip', 114.0, 2.2, 0.05)


@pytest.mark.parametrize(
  'fewer, expected',
  [
    ([('topk', 1.4, 0.02)], (1, 1, 0)),
    # The fastest sends more; another one sends less, and is fast enough.
    ([('topk', 1.4, 0.02), ('gtopk', 0.9, 0.02)], (1, 1, 0)),
    ([('topk', 0.9, 0.02), ('gtopk', 0.8, 0.02)], (0, 1, 0)),
    ([('topk', 1.2, 0.3)], (0, 0, 1)),
    # One alone is decided with an error of 0.08, but not the best of three.
    ([('topk', 1.4, 0.08)], (1, 1, 0)),
    ([('topk', 1.4, 0.08), ('a', 0.9, 0.0), ('b', 0.9, 0.0)], (0, 0, 1)),
    ([('topk', 1.4, None)], (0, 0, 1)),  # The best rate is at an edge.
    ([('local_sgd', None, None)], (0, 1, 0)),  # It misses the target.
  ],
)
def test_a_strategy_that_sends_less_must_be_faster(fewer, expected):
  rows = [DENSE, MORE, *(row(name, 8.0, *given) for name, *given in fewer)]
  found = claim.verdict(rows, [])
  assert (found.met, found.of, found.open) == expected
  assert 'gossip' not in found.ours


def test_a_target_that_all_reduce_misses_decides_nothing():
  rows = [row('all_reduce', 100.0, None, None), row('topk', 8.0, None, None)]
  found = claim.verdict(rows, [])
  assert (found.met, found.of, found.open) == (0, 0, 1)
