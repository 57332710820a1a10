"""The published throughput of five models on 32 hosts with 1 GbE.

From the plotting script of the authors of gTop-k. The split of the LSTM's step
was not published. Shi et al., 2019. arXiv:1901.04359
"""

from typing import NamedTuple


class Model(NamedTuple):
  """A published model.

  Attributes:
    size: number of parameters.
    batch: samples per worker and step.
    compute_s: computing seconds of a step, measured by the authors at P = 32.
    select_s: selection seconds of a step, measured likewise.
    alone: samples/s of one GPU.
    throughput: samples/s per GPU, by P, for dense, top-k and gTop-k.
  """

  size: int
  batch: int | None
  compute_s: float | None
  select_s: float | None
  alone: float
  throughput: dict[int, tuple[float, float, float]]


MODELS = {
  'VGG-16': Model(
    14_700_000,
    128,
    0.14,
    0.091,
    1317,
    {
      4: (104, 111, 131),
      8: (92.6, 110, 131),
      16: (39.5, 97.9, 126),
      32: (12.6, 63.0, 123),
    },
  ),
  'ResNet-20': Model(
    270_000,
    128,
    0.146,
    0.0016,
    921,
    {
      4: (822, 909, 916),
      8: (705, 753, 869),
      16: (520, 738, 809),
      32: (288, 696, 789),
    },
  ),
  'AlexNet': Model(
    61_000_000,
    64,
    0.257,
    0.384,
    173,
    {
      4: (14.0, 14.2, 16.5),
      8: (12.1, 13.9, 16.4),
      16: (4.94, 13.4, 16.4),
      32: (1.23, 9.24, 15.8),
    },
  ),
  'ResNet-50': Model(
    25_600_000,
    256,
    4.88,
    0.154,
    52.9,
    {
      4: (39.0, 37.7, 39.8),
      8: (37.0, 35.7, 39.7),
      16: (23.2, 34.5, 39.1),
      32: (10.7, 30.6, 39.1),
    },
  ),
  'LSTM-PTB': Model(
    66_000_000,
    None,
    None,
    None,
    392,
    {
      4: (12.7, 19.9, 17.8),
      8: (8.7, 18.6, 17.6),
      16: (4.1, 14.8, 15.1),
      32: (2.1, 5.4, 10.8),
    },
  ),
}
