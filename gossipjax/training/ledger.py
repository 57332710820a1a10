"""Totals of a run: sums bytes per worker, models seconds per link."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossipjax import network
from gossipjax.errors import UserError
from gossipjax.traffic import Traffic

_ADDED = {'evaluation'}  # Keys that checkpoints of earlier versions lack.


class Diverged(Exception):
  """The loss became NaN or Inf: a result of the run, not a mistake."""


LOWER_RATE_HINT = (
  'lower optimizer.learning_rate, or look for NaN in what a task, optimizer or '
  'strategy of your own returns.'
)
# Nothing has been learned yet.
CHECK_DATA_HINT = (
  'before any update: look for NaN and labels out of range in the data.'
)


class Ledger:
  """Sums what collectives counted, on the host in 64 bits.

  Attributes:
    step: steps done.
    wall_s: seconds since the start of the run.
    train_s: seconds in training steps.
    bytes, received, messages, local, inner: i64[workers], see `Traffic`.
    evaluation: i64[workers]; bytes sent to evaluate, which are in no other
      total, so that more evaluations do not change those of the training.
    exchanges: steps, or rounds of virtual time, in which any worker sent.
    wire: bytes by interface counters, per process; None unless they were read
      in all steps.
    comm_s: modelled seconds of communication, per link.
    inner_s: modelled seconds of communication within a worker.
    hidden_s: the part of comm_s hidden beside computing; {} without overlap.
  """

  def __init__(
    self,
    links: dict[str, network.Link],
    workers: int,
    inner_link: network.Link | None = None,
    devices: int = 1,
    late: int = 0,
  ):
    """Begins with zero totals.

    Args:
      links: by name.
      workers: how many.
      inner_link: of each device of a worker to the others, if there are any.
      devices: number of devices of a worker.
      late: steps from the start of an exchange to its end; 0 without overlap.
    """
    self._late = late
    self._links, self._inner_link, self._devices = links, inner_link, devices
    self.step, self.wall_s, self.train_s = 0, 0.0, 0.0
    self.loss_sum, self.loss_steps = 0.0, 0
    self.last_loss: float | None = None
    self.comm_s = dict.fromkeys(links, 0.0)
    self.hidden_s = dict.fromkeys(links if late else (), 0.0)
    self.inner_s = 0.0
    zeros = np.zeros((6, workers), np.int64)
    self.bytes, self.received, self.messages = zeros[:3]
    self.local, self.inner, self.evaluation = zeros[3:]
    self.exchanges = 0
    self.wire: list[int] | None = None

  def add_steps(
    self,
    losses: np.ndarray,
    sent: Traffic,
    wire: np.ndarray | None = None,
    step_s: float | None = None,
  ) -> None:
    """Adds the next steps of lock-step training.

    Args:
      losses: f32[workers, steps].
      sent: leaves [workers, steps].
      wire: bytes that left each process's interface, i64[processes].
      step_s: seconds to compute a step, to model what hides beside it.

    Raises:
      Diverged: a loss is NaN or Inf.
    """
    bad = np.flatnonzero(~np.isfinite(losses).all(axis=0))
    if bad.size:
      step = self.step + int(bad[0]) + 1
      raise Diverged(
        f'The loss is NaN or Inf at step {step}; '
        f'{LOWER_RATE_HINT if step > 1 else CHECK_DATA_HINT}'
      )
    self.step += losses.shape[1]
    # One by one, so that a resumed run rounds as an uninterrupted one does.
    for loss in losses.mean(axis=0, dtype=np.float64).tolist():
      self.loss_sum += loss
    self.loss_steps += losses.shape[1]
    self.exchanges += int((sent.bytes.max(axis=0) > 0).sum())
    # After a resume, bytes of a part of the run must not count for all steps.
    is_complete = self.wire or self.step == losses.shape[1]
    counts = None if wire is None else (wire + (self.wire or 0)).tolist()
    self.wire = counts if is_complete else None
    self._add_traffic(sent)
    self._hide(sent, step_s or 0.0)

  def _hide(self, sent: Traffic, step_s: float) -> None:
    """Adds the seconds of these steps' communication that computing hides;
    workers wait for all exchanges at the end of the steps."""
    for name in self.hidden_s:
      exchange_s = network.seconds(self._links[name], sent).tolist()
      waited = network.waited_seconds(exchange_s, step_s, self._late)
      self.hidden_s[name] += sum(exchange_s) - waited

  def _add_traffic(self, sent: Traffic) -> None:
    """Adds traffic of all workers, leaves [workers, exchanges]."""
    self.bytes += sent.bytes.sum(axis=1)
    self.received += sent.received.sum(axis=1)
    self.messages += sent.messages.sum(axis=1)
    self.local += sent.local.sum(axis=1)
    self.inner += sent.inner.sum(axis=1)
    for name, link in self._links.items():
      for seconds in network.seconds(link, sent).tolist():
        self.comm_s[name] += seconds
    if link := self._inner_link:
      within = network.inner_seconds(link, sent, self._devices)
      for seconds in within.tolist():
        self.inner_s += seconds

  def add_round(
    self, who: Sequence[int], losses: np.ndarray, sent: Traffic
  ) -> None:
    """Adds a round of virtual time.

    Args:
      who: workers that took part.
      losses: of the gradients that were used, f32[...].
      sent: leaves [who].

    Raises:
      Diverged: a loss is NaN or Inf.
    """
    if not np.isfinite(losses).all():
      raise Diverged(
        f'The loss is NaN or Inf after step {self.step}; '
        f'{LOWER_RATE_HINT if self.step else CHECK_DATA_HINT}'
      )
    for loss in losses.tolist():
      self.loss_sum += loss
    self.loss_steps += len(losses)
    np.add.at(self.bytes, who, np.asarray(sent.bytes))
    np.add.at(self.received, who, np.asarray(sent.received))
    np.add.at(self.messages, who, np.asarray(sent.messages))
    np.add.at(self.local, who, np.asarray(sent.local))
    if len(losses):  # Without losses it is a fetch, which is part of a round.
      self.exchanges += int(np.asarray(sent.bytes).max(initial=0) > 0)

  def take_loss(self) -> float:
    """The mean loss since the last call; without a step, the previous mean."""
    if self.loss_steps:
      self.last_loss = self.loss_sum / self.loss_steps
    self.loss_sum, self.loss_steps = 0.0, 0
    return math.nan if self.last_loss is None else self.last_loss

  def to_json(self) -> dict[str, Any]:
    """Its state, for a checkpoint; floats keep all their bits."""
    return {
      k: v.tolist() if isinstance(v, np.ndarray) else v
      for k, v in vars(self).items()
      if not k.startswith('_')
    }

  def from_json(self, saved: dict[str, Any]) -> None:
    """Restores what `to_json` returned.

    Raises:
      UserError: it has other keys, as that of another version may.
    """
    known = self.to_json().keys()
    odd_keys = (saved.keys() - known) | (known - _ADDED - saved.keys())
    if odd_keys:
      raise UserError(
        f'The totals of the checkpoint differ in {", ".join(sorted(odd_keys))} '
        'from those of this version; go on with the commit in config.json of '
        'that run.'
      )
    for key, value in saved.items():
      array = isinstance(getattr(self, key), np.ndarray)
      setattr(self, key, np.array(value, np.int64) if array else value)
