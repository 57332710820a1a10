"""A server that takes an outer step once a quorum of workers has reported.

Decoupled DiLoCo, 2026. arXiv:2604.21428
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax import collectives
from gossipjax.aggregator import Tree, select
from gossipjax.errors import UserError
from gossipjax.traffic import Traffic
from gossipjax.transforms import merges
from gossipjax.transforms.merges import Reports
from gossipjax.transforms.outer_optimizers import OuterOptimizer


class Held(NamedTuple):
  """What the server holds beside the parameters."""

  outer: optax.OptState
  reports: Reports  # Since the last outer step.
  closes: jax.Array  # i32[]; the step that ends the grace; -1 before a quorum.


class Quorum(NamedTuple):
  """The server's rule.

  Attributes:
    size: K, the number of reports after which it takes an outer step.
    merge: one of merges.MERGES.
    outer: the outer optimizer.
    grace: steps to wait for more reports after the K-th one, counted in the
      steps of the reporting workers. The first report that is at least so many
      steps after the K-th one ends the wait.
    everyone: number of workers; so many reports end the wait at once, even if
      several come from the same worker.
  """

  size: int
  merge: str
  outer: OuterOptimizer
  grace: int = 0
  everyone: int = 1

  def check(self) -> None:
    """Raises a UserError for an impossible rule."""
    merges.check(self.merge)
    if self.size < 1:
      raise UserError(f'quorum must be at least 1, got {self.size}.')
    if self.grace < 0:
      raise UserError(f'grace must be at least 0 steps, got {self.grace}.')

  def init(self, center: Tree) -> Held:
    """What the server holds at first."""
    nothing = merges.report(center, jnp.float32(0), self.merge)
    reports = jax.tree.map(jnp.zeros_like, nothing)
    return Held(self.outer.init(center), reports, jnp.int32(-1))

  def serve(
    self,
    center: Tree,
    held: Held,
    moved: Tree,
    weight: jax.Array,
    step: jax.Array,
    active=True,
  ) -> tuple[Tree, Held, Traffic]:
    """Takes the reports of active workers; takes an outer step if it is due.

    Args:
      center: the parameters that the server holds.
      held: what it holds beside them.
      moved: D_i, of this worker.
      weight: f32[]; w_i.
      step: i32[]; of this worker.
      active: bool[]; whether it reports.

    Returns:
      The parameters, after an outer step with the merge of all reports if they
      are a quorum and the grace is over; what is held beside them; the bill.
    """
    report = merges.report(moved, weight, self.merge)
    received, _, sent = collectives.serve(report, active)
    reports = jax.tree.map(jnp.add, held.reports, received)
    gradient = merges.merged(reports, self.merge, center)
    updates, new_outer = self.outer.update(gradient, held.outer, center)
    empty = jax.tree.map(jnp.zeros_like, reports)
    enough = reports.workers >= self.size
    opens = enough & (held.closes < 0)
    closes = jnp.where(opens, step + self.grace, held.closes)
    over = (step >= closes) | (reports.workers >= self.everyone)
    center, held = select(
      enough & over,
      (
        optax.apply_updates(center, updates),
        Held(new_outer, empty, jnp.int32(-1)),
      ),
      (center, Held(held.outer, reports, closes)),
    )
    return center, held, sent
