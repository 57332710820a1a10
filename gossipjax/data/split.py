"""Distributes examples over workers: pure functions of labels and seed.

Every worker gets n // workers examples, because workers are rows of one array;
the n % workers that remain are left out.
"""

import numpy as np

from gossipjax.errors import UserError


def iid(labels: np.ndarray, workers: int, seed: int) -> np.ndarray:
  """Every worker gets a uniform sample of all examples.

  Args:
    labels: int[n].
    workers: number of shares.
    seed: of the shuffle.

  Returns:
    int64[workers, n // workers]: indices, none of them twice.

  Raises:
    UserError: there are more workers than examples.
  """
  share = _share(len(labels), workers)
  rows = np.random.default_rng(seed).permutation(len(labels))
  return rows[: workers * share].reshape(workers, share)


def dirichlet(
  labels: np.ndarray, workers: int, seed: int, alpha: float
) -> np.ndarray:
  """Every worker has its own mix of classes, drawn from Dir(alpha, ...).

    q_i ~ Dir(alpha, ..., alpha),  share_i ~ q_i, without replacement

  A class without examples left gets q = 0, and q_i is scaled to sum to one, so
  that the last workers' mixes depend on what is left. alpha -> inf is `iid`,
  alpha -> 0 is one class per worker.

  Hsu, Qi and Brown, 2019. arXiv:1909.06335, section 2 (there alpha is the sum
  over classes, here it is the parameter of each class, as in most later work).

  Args:
    labels: int[n].
    workers: number of shares.
    seed: of the mixes, which do not depend on the number of examples, and of
      the draws.
    alpha: > 0.

  Returns:
    int64[workers, n // workers]: indices, none of them twice.

  Raises:
    UserError: alpha <= 0, or there are more workers than examples.
  """
  if not alpha > 0:
    raise UserError(
      f'split.alpha must be positive, got {alpha}; 0.1 is very '
      f'skewed, 100 nearly even.'
    )
  share = _share(len(labels), workers)
  random = np.random.default_rng(seed)
  classes = np.unique(labels)
  # The mixes are drawn first, so that held-out examples do not change them.
  mixes = random.dirichlet(np.full(len(classes), alpha), workers)
  rows = random.permutation(len(labels))
  pools = [rows[labels[rows] == label] for label in classes]
  left = np.array([len(pool) for pool in pools])
  shares = []
  for q in mixes:
    take = _draw(random, q, left, share)
    draws = zip(pools, left, take, strict=True)
    shares.append(np.concatenate([pool[n - k : n] for pool, n, k in draws]))
    left = left - take
  return np.stack(shares)


def by_label(
  labels: np.ndarray, workers: int, seed: int, shards: int = 2
) -> np.ndarray:
  """Every worker gets a few classes: shards of examples sorted by label.

  McMahan et al., 2017. arXiv:1602.05629, section 3 (two shards each).

  Args:
    labels: int[n].
    workers: number of shares.
    seed: of the assignment of shards to workers.
    shards: number of runs of sorted examples in each share.

  Returns:
    int64[workers, n // workers]: indices, none of them twice; n // workers is
    rounded down to a multiple of `shards`.

  Raises:
    UserError: shards < 1, or there are fewer examples than shards.
  """
  if shards < 1:
    raise UserError(f'split.shards must be at least 1, got {shards}.')
  if _share(len(labels), workers) < shards:
    raise UserError(
      f'split.shards: {len(labels)} examples cannot be cut into {shards} '
      f'shards for each of {workers} workers; use fewer of either.'
    )
  size = _share(len(labels), workers * shards)
  random = np.random.default_rng(seed)
  rows = random.permutation(len(labels))
  rows = np.sort(rows[: workers * shards * size])  # what is trimmed is random
  rows = rows[np.argsort(labels[rows], kind='stable')]
  pieces = rows.reshape(workers * shards, size)
  return random.permutation(pieces).reshape(workers, shards * size)


def contiguous(labels: np.ndarray, workers: int, seed: int) -> np.ndarray:
  """Every worker gets consecutive examples, in the order of the workers.

  Args, returns and raises as `iid`; nothing is drawn, so the seed is not used.
  """
  del seed
  share = _share(len(labels), workers)
  return np.arange(workers * share).reshape(workers, share)


def cut(rows: np.ndarray, examples: int | None) -> np.ndarray:
  """Keeps some examples of every share, at even distances.

  A share may be sorted by class; its first examples would be of few classes.

  Args:
    rows: int[workers, m], from one of the splits.
    examples: at most so many for each worker; None for all.

  Raises:
    UserError: examples < 1.
  """
  if examples is not None and examples < 1:
    raise UserError(f'split.examples must be at least 1, got {examples}.')
  count = min(examples or rows.shape[1], rows.shape[1])
  return rows[:, np.arange(count) * rows.shape[1] // count]


def _share(examples: int, workers: int) -> int:
  if workers < 1:
    raise UserError(f'workers must be at least 1, got {workers}.')
  if examples < workers:
    raise UserError(
      f'workers: {examples} examples cannot be shared by '
      f'{workers}; use at most {examples}.'
    )
  return examples // workers


def _draw(
  random: np.random.Generator, q: np.ndarray, left: np.ndarray, share: int
) -> np.ndarray:
  """Draws how many of each class: `share` in all, at most `left` of each."""
  take = np.zeros_like(left)
  while take.sum() < share:
    weight = np.where(take < left, q, 0.0)
    if not weight.sum():  # all classes of this mix are used up
      weight = (left - take).astype(float)
    more = random.multinomial(share - take.sum(), weight / weight.sum())
    take = np.minimum(take + more, left)
  return take
