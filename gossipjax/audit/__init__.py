"""Compares a strategy's ledger with the bytes of its compiled program.

    rows = audit(strategy, params, workers=8, steps=[0, 1])
    assert all(map(holds, rows)), '\\n'.join(map(sentence, rows))

The text of the compiled program (HLO) names every collective with its shapes,
groups and pairs. From these the audit computes the bytes that each worker sends
if all-reduce, all-gather, reduce-scatter and all-to-all run as rings. They
equal the ledger's bytes, except for differences that have a name:

  served   an all-reduce emulates the sum at a server; the ledger counts one
           upload per worker.
  widened  the compiler uses more bits per entry than the source program: XLA
           on CPUs moves bf16 as f32.
  masked   a worker is absent or silent, but its message still moves, because
           the program runs in lock-step. It must have no effect: if the data of
           that worker change, the results and bills of others do not.

A difference below one byte per collective comes from rounding up.

check             audits strategies: audit, report
audited_steps     which steps of a run an audit covers
harness           compiles and runs one update of all workers
hlo               parses the text of a compiled program
collective_bytes  bytes that each worker sends in one collective
routes            which workers a collective joins
widths            bits per entry of each transfer before compilation
control_paths     transfers of each control path through branches and loops
runtime_branches  which data-dependent branches a run took
schedule          which collectives run while the program computes
row               one row: ledger against compiled bytes, with the reason
comparison        which control path agrees, and whether messages were masked
influence         whether workers without a bill really affect no other worker
"""

from gossipjax.audit.audited_steps import audit_steps
from gossipjax.audit.check import Unbalanced, audit, report
from gossipjax.audit.comparison import holds, sentence
from gossipjax.audit.harness import check_devices
from gossipjax.audit.row import Row

__all__ = [
  'Row',
  'Unbalanced',
  'audit',
  'audit_steps',
  'check_devices',
  'holds',
  'report',
  'sentence',
]
