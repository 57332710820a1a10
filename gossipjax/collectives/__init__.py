"""Collectives: they move bytes between workers, and count them.

Outside this folder only `gossipjax/engine` moves bytes between workers: the
messages of asynchronous workers.

Each function runs once per worker and returns what this worker receives and
its bill, a Traffic. `active`, bool[], marks the workers that take part; an
absent worker contributes nothing and is charged nothing, except in
one_sided.py. A literal `True` states that all workers take part; otherwise
messages also carry flags that say who does, and these are charged, too.

A worker may have several devices, see sharing.py; a bill is that of one device.
The strategy and local_step.py add up the bills of a step; training/ledger.py
sums them over the run.

axes        the mesh axes of the workers and of the devices of a worker
bills       bytes, messages and rounds of messages of known sizes
bill_names  names of bills in a traced program, to find bills that are missing
sharing     messages among the devices of a worker; bytes that one device sends
reductions  sums, maxima and gathers over all workers
messages    messages along pairs of workers
one_sided   messages whose other end need not take part
groups      collectives of groups of workers
"""

from gossipjax.collectives.axes import (
  INNER,
  WORKERS,
  Axis,
  all_agree,
  axis,
  bind_axis,
  check_gradients,
  of_groups,
  random_turn,
  use_axis,
)
from gossipjax.collectives.bills import ring_bytes
from gossipjax.collectives.messages import meet, send, swap
from gossipjax.collectives.one_sided import push, read
from gossipjax.collectives.reductions import (
  PRESENT,
  SERVED,
  agree,
  all_gather,
  all_max,
  all_reduce,
  all_sum,
  all_to_all,
  needs_everyone,
  serve,
)
from gossipjax.collectives.sharing import (
  inner_gather,
  inner_mean,
  inner_scatter,
)

__all__ = [
  'INNER',
  'PRESENT',
  'SERVED',
  'WORKERS',
  'Axis',
  'agree',
  'all_agree',
  'all_gather',
  'all_max',
  'all_reduce',
  'all_sum',
  'all_to_all',
  'axis',
  'bind_axis',
  'check_gradients',
  'inner_gather',
  'inner_mean',
  'inner_scatter',
  'meet',
  'needs_everyone',
  'of_groups',
  'push',
  'random_turn',
  'read',
  'ring_bytes',
  'send',
  'serve',
  'swap',
  'use_axis',
]
