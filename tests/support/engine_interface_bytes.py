"""Bytes that the engine's processes send, by ledger and network interface.

python -m tests.support.engine_interface_bytes ADDRESS INTERFACE    prints JSON

Runs next to a node of the Ray cluster at ADDRESS, in which each process has a
network namespace of its own.
"""

import json
import sys

import numpy as np
import ray
from absl import flags

from benchmarks import engine
from gossipjax.distributed import interface_counters
from gossipjax.engine import ray_cluster
from gossipjax.engine.crew import WORKER
from gossipjax.traffic import unpack_traffic

ROUNDS = 4
# With a server; with workers that read from each other.
METHODS = ('parameter_server', 'pull_gossip')


def counters(crew, interface):
  """Reads the interface counters of each process, by process name."""
  read = lambda process: interface_counters.sent(interface)
  refs = {n: a.__ray_call__.remote(read) for n, a in crew.actors.items()}
  return {name: ray.get(ref) for name, ref in refs.items()}


def play(method, interface):
  """Runs a method; returns each process's bytes, by ledger and by counters."""
  crew = engine.crew_of(engine.config(method, 1).to_dict())
  ledger = dict.fromkeys(crew.actors, 0)
  for step in range(ROUNDS + 1):
    if step == 1:  # Step 0 opens connections.
      before, ledger = counters(crew, interface), dict.fromkeys(ledger, 0)
    for i in range(2):
      crew.start(i, step)
      drawn = [1 - i] if method == 'pull_gossip' else []
      entry = crew.exchange(i, drawn, step)
      bills = unpack_traffic(entry.bills)
      for who, sent in zip(entry.workers, bills.bytes, strict=True):
        ledger[WORKER, who] += int(sent)
      for name in ledger.keys() - {(WORKER, 0), (WORKER, 1)}:
        ledger[name] += int(np.sum(bills.received))
  after = counters(crew, interface)
  crew.end()
  wire = {n: interface_counters.payload(before[n], after[n]) for n in ledger}
  return [[*name, ledger[name], wire[name]] for name in ledger]


if __name__ == '__main__':
  flags.FLAGS(['engine_wired', f'--address={sys.argv[1]}'])
  with ray_cluster.connected():
    print(json.dumps({m: play(m, sys.argv[2]) for m in METHODS}))
