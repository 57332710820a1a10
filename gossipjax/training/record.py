"""One line of records.jsonl: where a run stands."""

from typing import NamedTuple


class Record(NamedTuple):
  """Where a run stands; lists have one entry per worker.

  Held-out figures are None between evaluations.
  """

  step: int
  train_loss: float  # Mean over workers and steps since the last record.
  test_loss: float | None  # Of the workers' exact mean; or a server's model.
  test_accuracy: float | None
  worker0_loss: float | None  # Of worker 0's own model.
  worker0_accuracy: float | None
  consensus_distance: float | None  # sqrt(1/P sum_i |x_i - mean|^2).
  bytes_sent: list[int]  # Since the start, as the three below.
  bytes_received: list[int]
  messages: list[int]
  wire_bytes: list[int] | None  # By interface counters, one of each process.
  comm_s: dict[str, float]  # Modelled, per link; the slowest sets the pace.
  wall_s: float  # Since the start of the run, all in all.
  train_s: float  # In training steps: no compiling, evaluating, saving.
  examples_per_s: float | None  # Since the last record.
  # Of runs in virtual time, see simulate.py; None of others.
  virtual_s: float | None = None
  staleness: float | None = None  # Mean since the last record, in versions.
  most_stale: int | None = None
  compute_s: list[float] | None = None  # Since the start, as the next two.
  waiting_s: list[float] | None = None
  transfer_s: list[float] | None = None
  link_utilisation: float | None = None  # Of the busiest link, since the start.
  lost_worker: int | None = None  # Whom a round waited for until the time-out.
