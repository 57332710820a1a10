"""Signals and the watchdog of processes that train together."""

import signal
import threading
import time

import pytest

from gossipjax.commands import console
from gossipjax.distributed import stopping


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGHUP])
def test_every_signal_stops_several_processes_as_sigterm_does(
  number, monkeypatch
):
  sent = []
  monkeypatch.setattr(stopping.os, 'kill', lambda pid, x: sent.append(x))
  monkeypatch.setattr(console.processes, 'join', lambda: True)
  monkeypatch.setattr(console.stopping, 'Stop', lambda: 'all')
  before = {x: signal.getsignal(x) for x in (signal.SIGINT, signal.SIGHUP)}
  try:
    for x in before:  # The tests may run by nohup.
      signal.signal(x, signal.SIG_DFL)
    assert console._signals('--resume') == 'all'
    signal.raise_signal(number)
    assert sent == [signal.SIGTERM]
    assert signal.getsignal(number) == signal.SIG_DFL  # For the second.
  finally:
    for x, handler in before.items():
      signal.signal(x, handler)


@pytest.mark.parametrize('hangs', [False, True])
def test_the_watchdog_ends_a_process_in_which_nothing_finishes(
  hangs, monkeypatch, capsys
):
  codes = []
  monkeypatch.setattr(stopping.processes, 'step_timeout_s', lambda: 1)
  monkeypatch.setattr(stopping.processes, 'leave', codes.append)
  monkeypatch.setattr(stopping.Stop, '_watched', True)
  stopping.finished()
  watchdog = threading.Thread(target=stopping._watch, daemon=True)
  watchdog.start()
  for _ in range(0 if hangs else 20):  # Two seconds of checks and records.
    time.sleep(0.1)
    stopping.finished()
  if not hangs:
    stopping.watch_no_more()  # Before a report that takes long.
  watchdog.join(10)
  assert not watchdog.is_alive()
  assert codes == [stopping.PEER_LOST] * hangs
  assert ('no step finished for 1 s' in capsys.readouterr().err) == hangs
