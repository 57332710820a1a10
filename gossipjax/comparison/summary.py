"""The entry of a run in summary.json."""

import math
from collections.abc import Mapping
from typing import Any

import jax

from gossipjax.comparison import scores, unlearned
from gossipjax.comparison.variant import Variant
from gossipjax.results import record_file
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import LOWER_RATE_HINT, Diverged
from gossipjax.training.record import Record

SCORES = (
  'train_loss',
  'test_loss',
  'test_accuracy',
  'worker0_accuracy',
  'consensus_distance',
)
# Stands for the record of a run that diverges before its first one.
_NOTHING = Record(
  **dict.fromkeys(Record.__struct_fields__)
  | {
    'step': 0,
    'bytes_sent': [0],
    'bytes_received': [0],
    'messages': [0],
    'comm_s': {},
  }
)


def summarise(
  variant: Variant, last: Record | None, diverged: str = ''
) -> dict[str, Any]:
  """Returns the entry of a run; bytes and messages are maxima over workers.

  Args:
    variant: the run.
    last: the last record; None if the run has none.
    diverged: why the training diverged; '' if it did not. A run whose last
      scores are not finite counts as diverged, too. Its scores are None then.
  """
  last, config = last or _NOTHING, variant.config
  found = {key: getattr(last, key) for key in SCORES} | (last.scores or {})
  diverged = diverged or not_finite(found)
  return {
    'name': variant.name,
    'strategy': config.strategy.to_dict(),
    'workers': config.workers,
    'steps': last.step,
    'executor': variant.run.executor.name,
    'seed': config.seed,
    'parameters': sum(x.size for x in jax.tree.leaves(variant.shapes[0])),
    unlearned.KEY: unlearned.most_frequent_label(variant.run.task),
    'diverged': diverged,
    **{key: None if diverged else value for key, value in found.items()},
    **{key: getattr(last, key) for key in ('comm_s', 'wall_s', 'train_s')},
    **{
      key: max(getattr(last, key))
      for key in ('bytes_sent', 'bytes_received', 'messages')
    },
    'exchanges': last.exchanges,
    'bytes_local': last.bytes_local and max(last.bytes_local),
    'bytes_inner': last.bytes_inner and max(last.bytes_inner),
    'bytes_evaluation': last.bytes_evaluation and max(last.bytes_evaluation),
    'inner_s': last.inner_s,
    **({'hidden_s': last.hidden_s} if last.hidden_s else {}),
    'wire_bytes': last.wire_bytes and max(last.wire_bytes),
    # The first step compiles, so train_s leaves it out.
    'examples_per_s': (last.step - 1)
    * config.workers
    * config.batch_size
    / last.train_s
    if last.train_s and last.step > 1
    else None,
  }


def not_finite(found: Mapping[str, Any]) -> str:
  """Why a run diverged with its last update; '' if it did not.

  Training checks the loss of a step before the step changes the parameters, so
  the last change is checked here.

  Args:
    found: the last record's held-out scores and consensus distance, by column;
      None is a score that is missing. Other keys do not count.
  """
  for name, value in found.items():
    # The training loss is NaN where virtual time ended before any gradient.
    score = name.startswith(record_file.SCORES) and name != 'train_loss'
    if score and value is not None and not math.isfinite(value):
      label = scores.label(name) if name.startswith('test_') else name
      what = f'The {label.replace("_", " ")} is NaN or Inf after the last step'
      return (
        f'{what}; {LOWER_RATE_HINT}'
        if name == 'consensus_distance'
        else f'{what}.'
      )
  return ''


def divergence(error: Diverged, store: Store) -> str:
  """Why a run diverged, and which checkpoint of it is left."""
  step = store.last()
  return (
    f'{error} The checkpoint of step {step} is kept.' if step else f'{error}'
  )
