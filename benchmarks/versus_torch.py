"""Selection and packing beside PyTorch, in turns; needs torch==2.13.0.

    python -m benchmarks.versus_torch
"""

import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.exchange import compiled, in_turns, show
from gossipjax.compressors import packing, selection

N, K = 25_600_000, 25_600


def torch_pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
  """The same layout as ours, written as ours is."""
  places = torch.arange(0, 8, bits, dtype=torch.uint8)
  return (codes.reshape(-1, 8 // bits) << places).sum(1, dtype=torch.uint8)


def main() -> None:
  """Prints a line per task."""
  torch.set_num_threads(2)
  x = np.random.default_rng(0).standard_normal(N, np.float32)
  theirs, ours = torch.from_numpy(x), jnp.asarray(x)
  show('selection', in_turns({
      'torch.topk': lambda: torch.topk(theirs.abs(), K)[1].numpy(),
      **compiled({
          'ascending': (lambda x: selection.ascending(x, K), ours),
          'largest': (lambda x: selection.largest(x, K), ours)})}))
  for bits in (1, 2):
    codes = (x > 0).astype(np.uint8)
    mine, tensor = jnp.asarray(codes), torch.from_numpy(codes)
    show(f'pack to {bits} bits', in_turns({
        'torch': lambda: torch_pack(tensor, bits).numpy(),
        **compiled({'pack': (lambda c: packing.pack(c, bits), mine)})}))


if __name__ == '__main__':
  main()
