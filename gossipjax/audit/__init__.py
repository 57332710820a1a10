"""The second column of the ledger: what the compiled program moves.

    rows = audit(strategy, params, workers=8, steps=[0, 1])
    assert all(map(holds, rows)), '\\n'.join(map(sentence, rows))

The compiler's text names every collective with its shapes, groups and pairs.
From that follow the bytes that each worker sends, with all-reduce,
all-gather, reduce-scatter and all-to-all run as rings. They are the ledger's,
or the difference has a name:

  served   a sum at a server is emulated by an all-reduce; the ledger has one
           upload each.
  widened  the compiler moves more bits than the program does: XLA on CPUs
           moves bf16 as f32.
  masked   a worker is absent or held back, and its message moves all the same
           because the program runs in lock-step.

A difference below one byte per collective comes from rounding up. Where data,
not the step, decide on a branch, the run itself is asked which one it took.
"""

from gossipjax.audit.check import Unbalanced, audit, audit_steps, report
from gossipjax.audit.comparison import Row, holds, sentence

__all__ = [
  'Row',
  'Unbalanced',
  'audit',
  'audit_steps',
  'holds',
  'report',
  'sentence',
]
