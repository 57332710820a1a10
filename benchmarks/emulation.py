"""Emulated training against PyTorch's, in turns; needs torch==2.13.0.

    GOSSIPJAX_DATA=... python -m benchmarks.emulation

Both sides have equally many examples per step: ResNet-8 on CIFAR-10 with 8
workers of 16, and the CNN on Fashion-MNIST with 4 workers of 64. PyTorch trains
the network in one process, without emulating workers; its examples are in
memory without augmentation, while ours are drawn, and CIFAR-10's are cropped
and flipped. If EXO Gym can be imported, four of its nodes train the CNN, too;
on Linux the interface lo0 in its exogym/utils.py has to be changed to lo.
"""

import importlib.util
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from ml_collections import ConfigDict
from torch import nn
from torch.nn import functional as F

from benchmarks import printing
from configs import cifar10, fashion_mnist
from gossipjax import executors
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train

CHUNK, TURNS = 20, 15  # Steps in a turn, and turns.
RATE, MOMENTUM = 0.05, 0.9
NODES, EXAMPLES, STEPS = 4, 64, (50, 150)  # Of EXO Gym.


def normed(channels: int) -> nn.Module:
  """As gossipjax.models.norm."""
  groups = max(1, min(32, channels // 4))
  return nn.GroupNorm(math.gcd(channels, groups), channels)


class Block(nn.Module):
  """As gossipjax.models.resnet.Basic."""

  def __init__(self, before: int, width: int, stride: int):
    super().__init__()
    conv = lambda n, size, s: nn.Conv2d(
      n, width, size, s, size // 2, bias=False
    )
    self.first, self.second = conv(before, 3, stride), conv(width, 3, 1)
    self.norms = nn.ModuleList([normed(width), normed(width)])
    changes = stride > 1 or before != width
    self.shortcut = conv(before, 1, stride) if changes else nn.Identity()

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    y = F.relu(self.norms[0](self.first(x)))
    return F.relu(self.norms[1](self.second(y)) + self.shortcut(x))


def resnet8() -> nn.Module:
  """77,850 parameters, for 3 x 32 x 32."""
  return nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1, bias=False),
    normed(16),
    nn.ReLU(),
    Block(16, 16, 1),
    Block(16, 32, 2),
    Block(32, 64, 2),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
  )


def cnn() -> nn.Module:
  """220,234 parameters, for 1 x 28 x 28."""
  return nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(7 * 7 * 64, 64),
    nn.ReLU(),
    nn.Linear(64, 10),
  )


def by_torch(net: nn.Module, shape: tuple[int, ...], batch: int) -> Iterator:
  """CHUNK steps of SGD with Nesterov's momentum for each item."""
  images, labels = (
    torch.randn(8 * batch, *shape),
    torch.randint(10, (8 * batch,)),
  )
  optimizer = torch.optim.SGD(
    net.parameters(), RATE, MOMENTUM, nesterov=True, weight_decay=5e-4
  )
  while True:
    for step in range(CHUNK):
      some = slice(step % 8 * batch, (step % 8 + 1) * batch)
      optimizer.zero_grad()
      F.cross_entropy(net(images[some]), labels[some]).backward()
      optimizer.step()
    yield


def ours(config: ConfigDict, workers: int, batch: int) -> Iterator:
  """The same by `train`, with all-reduce."""
  config.update(workers=workers, batch_size=batch, steps=10**6)
  config.update(log_every=CHUNK, eval_every=0, checkpoint_every=0)
  config.optimizer.update(schedule='constant', warmup_steps=0)
  return train(resolve_run(config))


def beside(name: str, mine: Iterator, net: nn.Module, shape: tuple, batch: int):
  """Prints examples per second of both, and the ratio of their turns."""
  assert len(shape) == 3
  left, right = printing.in_turns(mine, by_torch(net, shape, batch), TURNS)
  rate = lambda costs: (
    batch * CHUNK / statistics.median(cost.wall_s for cost in costs)
  )
  print(
    f'{name}, examples/s: {rate(left):,.0f}, PyTorch {rate(right):,.0f}; '
    f'{rate(left) / rate(right):.2f} of it',
    flush=True,
  )


def exo_gym() -> float:
  """Measures examples per second of EXO Gym's nodes, without its start-up."""
  from exogym.strategy.optim import OptimSpec
  from exogym.strategy.strategy import SimpleReduceStrategy
  from exogym.trainer import Trainer

  def seconds(steps: int) -> float:
    spec = OptimSpec(torch.optim.SGD, lr=RATE)
    began = time.perf_counter()
    Trainer(Classifier(), Images(), Images(), device='cpu').fit(
      num_epochs=99,
      strategy=SimpleReduceStrategy(spec),
      num_nodes=NODES,
      max_steps=steps,
      batch_size=EXAMPLES,
      minibatch_size=EXAMPLES,
      val_interval=10**6,
      run_name='benchmark',
    )
    return time.perf_counter() - began

  few, many = STEPS
  os.chdir(tempfile.mkdtemp())  # It writes logs.
  return NODES * EXAMPLES * (many - few) / (seconds(many) - seconds(few))


class Images(torch.utils.data.Dataset):
  """Noise of Fashion-MNIST's size, in memory."""

  def __init__(self):
    self.images = torch.randn(60_000, 1, 28, 28)
    self.labels = torch.randint(10, (60_000,))

  def __len__(self) -> int:
    return len(self.labels)

  def __getitem__(self, i: int) -> tuple[Any, Any]:
    return self.images[i], self.labels[i]


class Classifier(nn.Module):
  """EXO Gym's models return their loss."""

  def __init__(self):
    super().__init__()
    self.net = cnn()

  def forward(self, batch: Any) -> torch.Tensor:
    images, labels = batch
    return F.cross_entropy(self.net(images), labels)


def main() -> None:
  """Prints a line for each network."""
  executors.emulate(8)
  of_cifar = ours(cifar10.get_config('all_reduce'), 8, 16)
  beside('ResNet-8, 8 x 16', of_cifar, resnet8(), (3, 32, 32), 128)
  of_fashion = ours(fashion_mnist.get_config('all_reduce'), NODES, EXAMPLES)
  beside('CNN, 4 x 64', of_fashion, cnn(), (1, 28, 28), NODES * EXAMPLES)
  if importlib.util.find_spec('exogym'):
    print(f'CNN, 4 x 64, EXO Gym, examples/s: {exo_gym():,.0f}')


if __name__ == '__main__':
  main()
