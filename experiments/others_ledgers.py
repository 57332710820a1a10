"""Others' ledgers: the bytes that other programs count, and bytes sent.

    python -m experiments.others_ledgers

DisTrOpZ (SN38) wraps functions of torch.distributed and adds up the bytes of
their argument, once per rank and call. Here this rule is applied to collectives
in the compiled programs of our strategies; the audit counts what they send.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from experiments.framework import claim, figures, notes
from gossipjax import audit, compressors, executors
from gossipjax.strategies import (
  all_reduce,
  demo,
  des_loc,
  diloco,
  gossip,
  local_sgd,
  noloco,
  qsgd,
  sparse_loco,
  sparta,
  streaming_diloco,
  topk,
)

CLAIM = claim.Claim(
  'others_ledgers',
  'How other programs count bytes, against the bytes that move',
  'Counting the bytes that are passed to each collective ranks methods in the '
  'order of the bytes that they send',
  'DisTrOpZ scores submissions by such a count, with loss and speed (its '
  "authors' code, read in November 2026)",
)
SIZES = (2, 4, 8)
PARAMS = {'x': jax.ShapeDtypeStruct((64 * 4096,), jnp.float32)}
METHODS = {
  'all_reduce': all_reduce.strategy(),
  'local_sgd, one exchange': local_sgd.strategy(1),
  'diloco, one exchange': diloco.strategy(1),
  'diloco in 4 bits, gathered': diloco.strategy(
    1, compressor=compressors.linear(4)
  ),
  'diloco in 4 bits, in two shots': diloco.strategy(
    1, compressor=compressors.linear(4), exchange='two_shot'
  ),
  'streaming_diloco, one exchange': streaming_diloco.strategy(1, 1, 0),
  'des_loc, one exchange of parameters': des_loc.strategy(1, 99, 99),
  'sparse_loco, one exchange': sparse_loco.strategy(period=1),
  'demo': demo.strategy(),
  'sparta': sparta.strategy(),
  'topk': topk.strategy(0.01),
  'qsgd': qsgd.strategy(),
  'gossip': gossip.strategy(),
  'noloco, one exchange': noloco.strategy(1),
}
TRUE, COUNTED = 'bytes sent per worker', 'bytes counted per rank'
FACTOR = 'sent over counted'


def counted(kinds: dict[str, np.ndarray], workers: int) -> float:
  """Converts bytes that ring collectives send into bytes that the rule counts.

  An all-reduce counts its array once and an all-gather its input. All else
  counts nothing: sends and receives, for example, are not wrapped.
  """
  of = {
    'all-reduce': workers / (2 * (workers - 1)),
    'all-gather': 1 / (workers - 1),
    'collective-permute': 0,
    'reduce-scatter': 0,
    'all-to-all': 0,
  }
  return sum(of[kind] * float(np.mean(sent)) for kind, sent in kinds.items())


def row(name: str, workers: int) -> dict:
  """Builds the row of a method and P workers by an audit of the first step.

  Raises:
    AssertionError: the ledger is not what the compiled program sends.
  """
  (found,) = audit.audit(METHODS[name], PARAMS, workers, [0])
  assert audit.holds(found), audit.sentence(found)
  sent, theirs = float(found.compiled.mean()), counted(found.kinds, workers)
  return {
    'method': name,
    'workers': workers,
    TRUE: sent,
    COUNTED: theirs,
    FACTOR: claim.ratio(sent, theirs),
  }


def calls() -> claim.Rows:
  """Bytes counted and sent by single calls on S bytes, in units of S."""
  found = []
  for p in SIZES:
    ring = 2 * (p - 1) / p
    rules = {
      'all_reduce': (1, ring),
      'all_gather of its own S': (1, p - 1),
      'broadcast, reduce': (1, (p - 1) / p),
      'scatter of pieces of S': ((2 * p - 1) / p, (p - 1) / p),
      'send, reduce_scatter, all_gather_into_tensor': (0, None),
      'EXO Gym: DiLoCo, all_reduce and broadcast': (2, 3 * (p - 1) / p),
      'EXO Gym: DeMo "receive"': (p, p - 1),
      'EXO Gym: SPARTA, mask and values, S = n': (1.02, 1.04 * (p - 1) / p),
      'the same, mask from a shared seed': (1.02, 0.04 * (p - 1) / p),
    }
    found += [
      {
        'call': call,
        'workers': p,
        'counted': c,
        'sent': sent,
        FACTOR: sent and c and sent / c,
      }
      for call, (c, sent) in rules.items()
    ]
  return found


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Audits all methods with all numbers of workers; quick, with the fewest."""
  del folder
  executors.emulate(max(SIZES))
  sizes = SIZES[:1] if quick else SIZES
  rows = [row(name, p) for p in sizes for name in METHODS]
  return claim.Finding(
    verdict(rows),
    rows,
    NOTES,
    f'compiled programs of {len(METHODS)} strategies for 262,144 parameters',
    'one step, no training',
    seeds=0,
    tables={'calls': calls()},
  )


def verdict(rows: claim.Rows, **tables: claim.Rows) -> claim.Verdict:
  """Judges for each number of workers whether both counts rank alike."""
  del tables
  sizes = figures.distinct(rows, 'workers')
  ranking = lambda p, key: [
    r['method']
    for r in sorted(rows, key=lambda r: (r[key], r['method']))
    if r['workers'] == p
  ]
  cases = [ranking(p, TRUE) == ranking(p, COUNTED) for p in sizes]
  known = [r[FACTOR] for r in rows if r[FACTOR]]
  free = sorted({r['method'] for r in rows if not r[COUNTED]})
  span = f'{min(known):.2f} to {max(known):.2f}'
  return claim.Verdict(
    sum(cases),
    len(cases),
    f'methods send {span} times what is counted; {len(free)} count nothing',
    f'Methods send {span} times the bytes that the rule counts, the more the '
    'more workers where messages are gathered; methods whose messages go from '
    f'worker to worker ({", ".join(free)}) count nothing. To compare with a '
    'published number, multiply it by the factor of its method and number of '
    'workers.',
  )


NOTES = notes.of('others_ledgers')


def figure(rows: claim.Rows, **tables: claim.Rows) -> Figure:
  """Bytes sent over bytes counted, against workers."""
  del tables
  found = Figure(figsize=(8, 4), layout='constrained')
  axes = found.subplots()
  known = [row for row in rows if row[FACTOR]]
  pick = lambda name, key: [row[key] for row in known if row['method'] == name]
  figures.curves(
    axes,
    {
      name: (pick(name, 'workers'), pick(name, FACTOR))
      for name in figures.distinct(known, 'method')
    },
  )
  axes.set(xlabel='workers', ylabel=FACTOR)
  figures.legend(found, axes)
  return found


if __name__ == '__main__':
  claim.run(CLAIM, measure, figure)
