"""A recurrent network that reads bytes.

Hochreiter and Schmidhuber, 1997. doi:10.1162/neco.1997.9.8.1735
"""

import jax
from flax import linen as nn


class LSTM(nn.Module):
  """int32[n, sequence] -> [n, sequence, classes]."""

  classes: int
  width: int
  layers: int

  @nn.compact
  def __call__(self, tokens: jax.Array) -> jax.Array:
    x = nn.Embed(self.classes, self.width)(tokens)
    for _ in range(self.layers):
      cell = nn.OptimizedLSTMCell(self.width)
      # The default carry would be float32, and so would all that follows.
      begin = cell.initialize_carry(jax.random.key(0), x[:, 0].shape)
      begin = jax.tree.map(lambda carry: carry.astype(x.dtype), begin)
      x = nn.RNN(cell)(x, initial_carry=begin)
    return nn.Dense(self.classes)(nn.LayerNorm()(x))


def lstm(classes: int, width: int = 128, layers: int = 1) -> nn.Module:
  """`layers` recurrent layers of `width` cells; no state between batches."""
  return LSTM(classes, width, layers)
