"""Calls that are timed in alternating turns."""

import time

from gossipjax.profiling.interleaved_timing import (
  median_seconds,
  time_in_turns,
)


def test_calls_alternate_and_the_first_turn_is_not_counted():
  order = []
  calls = {name: lambda name=name: order.append(name) for name in 'ab'}
  costs = time_in_turns(calls, 3, before=lambda name: order.append(f'-{name}'))
  assert order == [
    x for name in ('ba', 'ab', 'ba', 'ab') for n in name for x in (f'-{n}', n)
  ]
  assert {name: len(found) for name, found in costs.items()} == {'a': 3, 'b': 3}


def test_preparing_a_call_is_not_timed():
  seconds = median_seconds(
    {'prepared': lambda: None, 'slow': lambda: time.sleep(0.05)},
    1,
    before=lambda name: time.sleep(0.05),
  )
  assert seconds['prepared'] < 0.05 <= seconds['slow']
