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


class Quorum(NamedTuple):
  """The server's rule.

  Attributes:
    size: K, reports after which it takes an outer step.
    merge: one of merges.MERGES.
    outer: the outer optimizer.
  """

  size: int
  merge: str
  outer: OuterOptimizer

  def check(self) -> None:
    """Raises a UserError for an impossible rule."""
    merges.check(self.merge)
    if self.size < 1:
      raise UserError(f'quorum is at least 1, got {self.size}.')

  def init(self, center: Tree) -> Held:
    """What it holds at first."""
    nothing = merges.report(center, jnp.float32(0), self.merge)
    return Held(self.outer.init(center), jax.tree.map(jnp.zeros_like, nothing))

  def serve(
    self, center: Tree, held: Held, moved: Tree, weight: jax.Array, active=True
  ) -> tuple[Tree, Held, Traffic]:
    """Takes the reports of those who are there.

    Args:
      center: the parameters that the server holds.
      held: what it holds beside them.
      moved: D_i, of this worker.
      weight: f32[]; w_i.
      active: bool[]; whether it reports.

    Returns:
      The parameters, after an outer step with the merge of all reports if they
      are a quorum; what is held beside them; the bill.
    """
    mine = merges.report(moved, weight, self.merge)
    new, _, sent = collectives.serve(mine, active)
    reports = jax.tree.map(jnp.add, held.reports, new)
    gradient = merges.merged(reports, self.merge, center)
    updates, stepped = self.outer.update(gradient, held.outer, center)
    nothing = jax.tree.map(jnp.zeros_like, reports)
    center, held = select(
      reports.workers >= self.size,
      (optax.apply_updates(center, updates), Held(stepped, nothing)),
      (center, Held(held.outer, reports)),
    )
    return center, held, sent
