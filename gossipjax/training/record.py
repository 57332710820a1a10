"""One line of records.jsonl: the state of a run after some step."""

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Record(
  msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
  """The state of a run after `step` steps of each worker, on average where
  workers do not wait for each other.

  Lists have one entry per worker, `wire_bytes` one per process. Held-out scores
  are None between evaluations. Not every run has the fields with a default
  (groups, several devices, virtual time, an engine); if None, they are left out
  of the file.

  A new field needs a default, or another `SCHEMA` (results/workdir.py): files
  without it are refused otherwise.
  """

  step: Count
  train_loss: float  # Mean over workers and steps since the last record.
  # Of the exact mean of the workers that are up, or of a server's model.
  test_loss: float | None
  test_accuracy: float | None  # Of the same model.
  worker0_loss: float | None  # Of worker 0, with its own state.
  worker0_accuracy: float | None
  consensus_distance: float | None  # sqrt(1/P sum_i |x_i - mean|^2).
  bytes_sent: list[Count]  # Since the start of the run; logical bytes.
  bytes_received: list[Count]  # Since the start of the run; logical bytes.
  messages: list[Count]  # Since the start of the run.
  # Since the start of the run, by interface counters: one entry per process.
  wire_bytes: list[int] | None
  comm_s: dict[str, float]  # Modelled seconds since the start, per link.
  wall_s: float  # Since the start of the run, everything included.
  train_s: float  # In training steps: no compiling, evaluating, saving.
  examples_per_s: float | None  # Of all workers, since the last record.
  # Steps, or rounds of virtual time, in which any worker sent, since the start.
  exchanges: int | None = None
  # Of bytes_sent, those within groups of workers; None if there are no groups.
  bytes_local: list[int] | None = None
  # Sent between the devices of a worker, beside bytes_sent, since the start;
  # None if a worker is one device.
  bytes_inner: list[int] | None = None
  # Sent to evaluate, beside bytes_sent and comm_s, since the start: means over
  # workers of what models keep besides parameters; None if they keep nothing.
  bytes_evaluation: list[int] | None = None
  # Of comm_s, seconds hidden by computing, per link; None without overlap.
  hidden_s: dict[str, float] | None = None
  inner_s: float | None = None  # Modelled seconds of bytes_inner, likewise.
  # Since the start, on the modelled clock; under config.engine measured.
  virtual_s: float | None = None
  staleness: float | None = None  # Mean since the last record, in versions.
  most_stale: Count | None = None  # Largest since the last record, in versions.
  compute_s: list[float] | None = None  # Virtual seconds since the start.
  waiting_s: list[float] | None = None  # Virtual seconds since the start.
  transfer_s: list[float] | None = None  # Virtual seconds since the start.
  link_utilisation: float | None = None  # Of the busiest link, since the start.
  faults: Count | None = None  # Processes that died since the start; engine.
  lost_worker: Count | None = None  # The worker a round waited for in vain.
  # test_NAME and worker0_NAME of scores besides loss and accuracy.
  scores: dict[str, float] | None = None


def held_out(record: Record) -> dict[str, float]:
  """The held-out scores of a record by name; {} between evaluations."""
  scores = {'accuracy': record.test_accuracy, 'loss': record.test_loss}
  for column, value in (record.scores or {}).items():
    if column.startswith('test_'):
      scores[column.removeprefix('test_')] = value
  return {name: value for name, value in scores.items() if value is not None}
