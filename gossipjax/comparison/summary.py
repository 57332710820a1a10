"""What is left of a run in the end."""

from typing import Any

import jax

from gossipjax.comparison.variant import Variant
from gossipjax.training.record import Record

SCORES = (
  'train_loss',
  'test_loss',
  'test_accuracy',
  'worker0_accuracy',
  'consensus_distance',
)
# What a run leaves that diverges before its first record.
_NOTHING = dict.fromkeys(Record._fields) | {
  'step': 0,
  'bytes_sent': [0],
  'bytes_received': [0],
  'messages': [0],
  'comm_s': {},
}


def summarise(
  variant: Variant, last: dict[str, Any] | None, diverged: str = ''
) -> dict[str, Any]:
  """Its entry in summary.json; counts are the largest over workers.

  Args:
    variant: what ran.
    last: its last record, None if there is none.
    diverged: why it has no scores, if it has none.
  """
  last, config = last or _NOTHING, variant.config
  return {
    'name': variant.name,
    'strategy': config.strategy.to_dict(),
    'workers': config.workers,
    'steps': last['step'],
    'executor': variant.run.executor.name,
    'seed': config.seed,
    'parameters': sum(x.size for x in jax.tree.leaves(variant.shapes)),
    'diverged': diverged,
    **{key: None if diverged else last[key] for key in SCORES},
    **{key: last[key] for key in ('comm_s', 'wall_s', 'train_s')},
    **{
      key: max(last[key])
      for key in ('bytes_sent', 'bytes_received', 'messages')
    },
    'wire_bytes': last['wire_bytes'] and max(last['wire_bytes']),
    'examples_per_s': last['step']
    * config.workers
    * config.batch_size
    / last['train_s']
    if last['train_s']
    else None,
  }
