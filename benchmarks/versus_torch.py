"""Selection, packing, PowerSGD against PyTorch, in turns; needs torch==2.13.0.

python -m benchmarks.versus_torch
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.printing import compiled, show
from gossipjax import executors
from gossipjax.compressors import largest, packing
from gossipjax.profiling.interleaved_timing import median_seconds
from gossipjax.strategies import power_sgd

N, K = 25_600_000, 25_600
TURNS = 15
# The larger convolutions of a ResNet-18 as matrices: 10.5 M entries.
MATRICES = [(4608, 512)] * 3 + [(2304, 512)] + [(2304, 256)] * 3


def torch_pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
  """The same layout as ours, written as ours is."""
  shifts = torch.arange(0, 8, bits, dtype=torch.uint8)
  return (codes.reshape(-1, 8 // bits) << shifts).sum(1, dtype=torch.uint8)


def torch_orthonormal(p: torch.Tensor) -> torch.Tensor:
  """Gram-Schmidt, one column after the other as in our code."""
  columns = []
  for column in p.T:
    before = column.dot(column)
    for other in columns:
      column = column - column.dot(other) * other
    left = column.dot(column)
    columns.append(
      column * torch.where(left > 1e-12 * before, left.rsqrt(), torch.zeros(()))
    )
  return torch.stack(columns, 1)


def torch_power_step(grads: list, residuals: list, qs: list) -> list:
  """One worker's step: changes the memories in place and returns the means."""
  sums = [g.add(e) for g, e in zip(grads, residuals, strict=True)]
  ps = [torch_orthonormal(m @ q) for m, q in zip(sums, qs, strict=True)]
  qs[:] = [m.T @ p for m, p in zip(sums, ps, strict=True)]
  means = [p @ q.T for p, q in zip(ps, qs, strict=True)]
  for e, m, mean in zip(residuals, sums, means, strict=True):
    torch.sub(m, mean, out=e)
  return means


def power_steps(rank: int) -> dict[str, Callable]:
  """Returns the same step on both sides, of one worker: nothing is sent."""
  rng = np.random.default_rng(0)
  grads = [rng.standard_normal(shape, np.float32) for shape in MATRICES]
  aggregator = power_sgd.low_rank_mean(rank)
  executor = executors.executor(1, 'vmap')
  run = executor.run(
    lambda tree, state: aggregator.update(tree, state, 0)[:2], donate=(1,)
  )
  mine = [jnp.asarray(g)[None] for g in grads]
  state = [executor.run(aggregator.init)(mine)]
  theirs = [torch.from_numpy(g) for g in grads]
  residuals = [torch.zeros_like(g) for g in theirs]
  qs = [torch.from_numpy(np.array(q[0])) for q in state[0].q]

  def ours():
    means, state[0] = run(mine, state[0])
    return means, state[0]

  np.testing.assert_allclose(
    np.asarray(ours()[0][0][0]),
    torch_power_step(theirs, residuals, qs)[0].numpy(),
    atol=1e-3,
  )
  return {
    'torch': lambda: torch_power_step(theirs, residuals, qs),
    'power_sgd': ours,
  }


def main() -> None:
  """Prints a line per task."""
  torch.set_num_threads(2)
  for rank in (2, 4):
    show(f'PowerSGD of rank {rank}', median_seconds(power_steps(rank), TURNS))
  x = np.random.default_rng(0).standard_normal(N, np.float32)
  theirs, ours = torch.from_numpy(x), jnp.asarray(x)
  show(
    'selection',
    median_seconds(
      {
        'torch.topk': lambda: torch.topk(theirs.abs(), K)[1].numpy(),
        **compiled(
          {
            'ascending': (lambda x: largest.ascending(x, K), ours),
            'largest': (lambda x: largest.largest(x, K), ours),
          }
        ),
      },
      TURNS,
    ),
  )
  for bits in (1, 2):
    codes = (x > 0).astype(np.uint8)
    mine, tensor = jnp.asarray(codes), torch.from_numpy(codes)
    show(
      f'pack to {bits} bits',
      median_seconds(
        {
          'torch': lambda: torch_pack(tensor, bits).numpy(),
          **compiled({'pack': (lambda c: packing.pack(c, bits), mine)}),
        },
        TURNS,
      ),
    )


if __name__ == '__main__':
  main()
