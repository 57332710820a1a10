"""Sizes of workloads: how long they train, and their larger forms for a GPU.

Tuning starts at the rate of a size. The gates of the GPU sizes are goals: 93 %
on CIFAR-10, and on the others more than the smaller networks of the scale cpu
reach. Only CIFAR-10 was tried, at the rate given here: 91.6 %, the mean of
three seeds (docs/gpus.md).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Size(NamedTuple):
  """How long a workload trains, on what kind of machine.

  Attributes:
    steps: number of steps of each worker.
    examples: number of examples in a step, of all workers together.
    rate: learning rate at which tuning starts.
    task: settings of `config.task` that differ from the workload's.
    gate: score that all-reduce has to reach here; None: the workload's gate.
    title: of the workload, if it is another network; '': the workload's.
    compute_dtype: `config.compute_dtype`.
  """

  steps: int
  examples: int
  rate: float
  task: Mapping[str, Any] = {}
  gate: float | None = None
  title: str = ''
  compute_dtype: str = ''


BFLOAT16 = 'bfloat16'
GPU = {
  'fashion': Size(
    3500,
    512,
    0.1,
    {'width': 64},
    0.925,
    'CNN of twice the width on Fashion-MNIST, 30 epochs',
    BFLOAT16,
  ),
  'cifar': Size(
    2940,
    512,
    0.2,
    {'model': 'resnet9', 'width': 64},
    0.93,
    'ResNet-9 (6.6 M parameters) on CIFAR-10, 30 epochs',
    BFLOAT16,
  ),
  'cifar-vgg': Size(
    2940,
    512,
    0.1,
    {'width': 64},
    0.90,
    'VGG of six convolutions and two dense layers (3.3 M parameters) on '
    'CIFAR-10, 30 epochs',
    BFLOAT16,
  ),
  # nanoGPT reaches 1.47 at this size with dropout and 5,000 steps; without
  # dropout more steps overfit.
  'shakespeare': Size(
    1500,
    64,
    1e-3,
    {'width': 384, 'layers': 6, 'heads': 6, 'sequence': 256},
    1.60,
    'transformer (6 layers, 6 heads, width 384: 10.9 M parameters) on '
    'tinyshakespeare',
    BFLOAT16,
  ),
}
