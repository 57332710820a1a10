"""Scores that decide which entries are sent, not only by their magnitude.

  plain        |a_j|
  popularity   |a_j| (1 + lambda p_j),    p <- gamma p + (1 - gamma) [j in U]
  recent       an average of |a_j| over the latest steps, decaying with gamma
  two_budgets  large entries, whose |a_j| is at least c times the root mean
               square of a, come first; then |a_j| of other entries, only from
               the previous U; at most k. All entries count as large if there
               are at most c^2, since none else could be, or if there are
               neither large entries nor any of the previous U

where U are the entries that any worker sent.

Wang, Liu, Wu, Communication usage optimization of gradient sparsification with
aggregation, 2018. Metrics and numbers are not public: these are ours.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Metric(NamedTuple):
  """A score of entries, with a memory.

  Attributes:
    remember: `(memory, |a|, in_union) -> memory`, after an exchange.
    score: `(|a|, memory) -> f32[n]`; the largest are sent, zeros never.
  """

  remember: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
  score: Callable[[jax.Array, jax.Array], jax.Array]


def _popularity(weight: float, decay: float) -> Metric:
  return Metric(
    lambda p, a, union: decay * p + (1 - decay) * union,
    lambda a, p: a * (1 + weight * p),
  )


def _recent(decay: float) -> Metric:
  mean = lambda m, a: decay * m + (1 - decay) * a
  return Metric(lambda m, a, union: mean(m, a), lambda a, m: mean(m, a))


def _two_budgets(large: float) -> Metric:

  def score(a, union):
    least = large * jnp.sqrt(jnp.mean(a**2)) if a.size > large**2 else 0.0
    is_large = (a >= least) & (a > 0)
    is_known = (a > 0) & (union > 0)
    a = a / jnp.where(a.max() > 0, a.max(), 1)  # At most 1, so large is first.
    # Else a tensor without outliers would be withheld for ever.
    has_candidates = (is_large | is_known).any()
    return jnp.where(has_candidates, jnp.where(is_large, 1 + a, a * union), a)

  return Metric(lambda u, a, union: union.astype(jnp.float32), score)


def metrics(weight: float, decay: float, large: float) -> dict[str, Metric]:
  """All metrics by name; arguments: lambda, gamma per step, and c."""
  return {
    'plain': _popularity(0.0, decay),
    'recent': _recent(decay),
    'popularity': _popularity(weight, decay),
    'two_budgets': _two_budgets(large),
  }
