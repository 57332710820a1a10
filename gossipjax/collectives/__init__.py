"""Where bytes move between workers, and are counted.

Only `gossipjax/engine` moves bytes, too: the messages of asynchronous workers.

Each function runs once per worker and returns what this worker receives and
its bill, a Traffic. `active`, bool[], marks the workers that take part; an
absent worker contributes nothing and is charged nothing. A literal `True`
states that all take part; otherwise each message carries a flag with that
information, which is charged like the rest.

A worker may be several devices, see sharing.py; the bill is that of a device.
The strategy and local_step.py add up the bills of a step; training/ledger.py
sums them over the run.

axes        the mesh axes of the workers and of the devices of a worker
bills       bytes, messages and rounds of messages of known sizes
bill_names  names of bills in a program, to find those that are left out
sharing     what the devices of a worker send each other; the bytes of a part
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
  along,
  axis,
  check_gradients,
  of_groups,
  over,
  random_turn,
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
  'along',
  'axis',
  'check_gradients',
  'inner_gather',
  'inner_mean',
  'inner_scatter',
  'meet',
  'needs_everyone',
  'of_groups',
  'over',
  'push',
  'random_turn',
  'read',
  'ring_bytes',
  'send',
  'serve',
  'swap',
]
