"""Bytes of payload from the kernel's counters of an interface."""

from gossipjax.distributed.interface_counters import (
  HEADERS,
  SEGMENT,
  Counters,
  payload,
)


def test_headers_and_retransmissions_do_not_count_as_payload():
  before = Counters(1000, 10, 1)
  sent = 7 * HEADERS + 2 * SEGMENT
  assert payload(before, Counters(1000 + sent, 17, 2)) == SEGMENT


def test_a_small_retransmitted_segment_makes_no_count_negative():
  after = Counters(2 * (HEADERS + 100), 2, 1)
  assert payload(Counters(0, 0, 0), after) == 0
