"""Communication graphs as weighted permutations.

A doubly stochastic mixing matrix is a convex combination of permutations
(Birkhoff, 1946). A permutation is exactly what `lax.ppermute` carries, so one
description yields the collective, the mixing matrix and the spectral gap.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gossipjax.errors import UserError


class Exchange(NamedTuple):
  """Worker i reads from worker `source[i]`, or reads nothing if that is i.

  Attributes:
    weight: the weight of the value read.
    source: int per worker; no worker is read by two others.
  """

  weight: float
  source: tuple[int, ...]


Round = tuple[Exchange, ...]  # A worker's own weight is 1 - sum of weights.
Topology = Callable[[int], tuple[Round, ...]]  # num_workers -> rounds.
# (count, num_workers) -> int[schedule][count], the workers drawn.
Draws = Callable[[int, int], tuple[tuple[int, ...], ...]]


def _shift(n: int, k: int) -> tuple[int, ...]:
  return tuple((i - k) % n for i in range(n))


def ring(n: int) -> tuple[Round, ...]:
  """Both neighbors on a cycle, every step; two workers have one neighbor.

  Args:
    n: number of workers.

  Returns:
    Rounds, which take turns from step to step; each is a tuple of exchanges
    (weight, source). All topologies return this form.
  """
  if n <= 2:
    return ((Exchange(1 / 2, _shift(n, 1)),),)
  return ((Exchange(1 / 3, _shift(n, 1)), Exchange(1 / 3, _shift(n, -1))),)


def exponential(n: int) -> tuple[Round, ...]:
  """One peer per step, 2^t hops away; directed (Assran et al., 2019)."""
  hops = range(max(1, (n - 1).bit_length()))
  return tuple((Exchange(1 / 2, _shift(n, 2**t)),) for t in hops)


def hypercube(n: int) -> tuple[Round, ...]:
  """Pairwise averaging along one dimension per step.

  Raises:
    UserError: n is no power of two.
  """
  if n & (n - 1):
    raise UserError(
      f'topology=hypercube needs a power of two, got workers={n}; '
      'ring, exponential and complete take any number.'
    )
  dimensions = range(max(1, n.bit_length() - 1))
  return tuple(
    (Exchange(1 / 2, tuple((i ^ 2**t) % n for i in range(n))),)
    for t in dimensions
  )


def complete(n: int) -> tuple[Round, ...]:
  """Each worker reads all others at every step."""
  return (tuple(Exchange(1 / n, _shift(n, k)) for k in range(1, n)),)


def random_targets(
  count: int, n: int, seed: int = 0, schedule: int = 16
) -> tuple[tuple[int, ...], ...]:
  """Draws workers uniformly, int[schedule][count]; a worker may draw itself.

  Each step takes the next row. `lax.ppermute` needs its routes at compile time,
  so the draws repeat after `schedule` steps. With cycles of 16 draws, 8 to 32
  workers approach consensus per step within 5 % as fast as with new draws; with
  some cycles of 4 they never reach it.

  Raises:
    UserError: `schedule` is below 1, or `seed` below 0.
  """
  _check_draws(seed, schedule)
  targets = np.random.default_rng(seed).integers(n, size=(schedule, count))
  return tuple(map(tuple, targets.tolist()))


def random_matching(seed: int = 0, schedule: int = 16) -> Topology:
  """Random pairs, new ones in each round; if n is odd, one worker has none.

  Raises:
    UserError: `schedule` is below 1, or `seed` below 0.
  """
  _check_draws(seed, schedule)

  def pairs(n: int) -> tuple[Round, ...]:
    rng, rounds = np.random.default_rng(seed), []
    for _ in range(schedule):
      order, partner = rng.permutation(n), np.arange(n)
      a, b = order[0 : n - 1 : 2], order[1:n:2]
      partner[a], partner[b] = b, a
      rounds.append((Exchange(1 / 2, tuple(partner.tolist())),))
    return tuple(rounds)

  return pairs


def _check_draws(seed: int, schedule: int) -> None:
  if schedule < 1:
    raise UserError(f'schedule must be at least 1 draw, got {schedule}.')
  if seed < 0:
    raise UserError(f'seed of random workers must be at least 0, got {seed}.')


def only_round(topology: Topology, n: int, method: str) -> Round:
  """Returns the only round of a topology.

  Args:
    topology: the graph.
    n: number of workers.
    method: the strategy that needs it, for the error message.

  Raises:
    UserError: the topology has several rounds.
  """
  rounds = topology(n)
  if len(rounds) > 1:
    raise UserError(
      f'{method} needs a topology with the same edges at every step, such as '
      'ring or complete.'
    )
  return rounds[0]


def is_symmetric(exchanges: Round, n: int) -> bool:
  """Whether W is symmetric, so that absent workers do not change the mean."""
  w = mixing_matrix(exchanges, n)
  return bool((w == w.T).all())


def mixing_matrix(exchanges: Round, n: int) -> np.ndarray:
  """W of one round, f64[n, n]: `W[i, j]` is the weight of j's value at i."""
  own = 1 - sum(e.weight for e in exchanges)
  return own * np.eye(n) + sum(
    (e.weight * np.eye(n)[list(e.source)] for e in exchanges), np.zeros((n, n))
  )


def spectral_gap(topology: Topology, n: int) -> float:
  """1 - second largest singular value of one cycle of rounds, in [0, 1]."""
  cycle = np.eye(n)
  for exchanges in topology(n):
    cycle = mixing_matrix(exchanges, n) @ cycle
  return float(1 - np.linalg.norm(cycle - 1 / n, ord=2))
