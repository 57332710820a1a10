"""The short trainings that claims are tried on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from gossipjax.config import defaults
from gossipjax.config.variants import variants

# Task, model, width, steps.
NETWORKS = {
  'fashion_mnist': ('fashion_mnist', 'cnn', 16, 200),
  'cifar10': ('cifar10', 'resnet8', 8, 150),
  'cifar10-vgg': ('cifar10', 'vgg8', 8, 150),
}
NAMES = {
  'fashion_mnist': 'Fashion-MNIST',
  'cifar10': 'CIFAR-10',
  'digits': 'digits',
  'cnn': 'CNN',
  'resnet8': 'ResNet-8',
  'vgg8': 'VGG-8',
  'mlp': 'MLP',
}
TWO = ('fashion_mnist', 'cifar10')
EXAMPLES = 64  # In a step, of all workers together.
RATES = (0.01, 0.03, 0.1)  # What every method tries.
NOTE = """
Learning rates: each method tried the same 0.01, 0.03 and 0.1 once and was
judged by a tenth of the training set, which it did not train on. SGD with
momentum 0.9, cosine. fashion_mnist: CNN of width 16 (55,338 parameters), 200
steps; cifar10: ResNet-8 of width 8 (19,858), 150 steps; cifar10-vgg: VGG of six
convolutions and two dense layers, width 8 (51,778), 150 steps; nothing is
augmented; 64 examples a step from all workers together. Trainings are short:
read accuracies (held out, of the mean model) as differences between methods.
"""


def config(network: str, workers: int, quick: bool) -> ConfigDict:
  """Of a network, for the same number of examples a step at any P."""
  task, model, width, steps = NETWORKS[network]
  found = defaults.get_config()
  found.task = defaults.task(task, model=model, width=width, augment=False)
  found.workers, found.batch_size = workers, EXAMPLES // workers
  found.steps = 6 if quick else steps
  found.log_every = found.checkpoint_every = 2 if quick else 10
  found.eval_every = 0
  found.optimizer = defaults.optimizer(
    'sgd',
    learning_rate=0.0,
    momentum=0.9,
    schedule='cosine',
    warmup_steps=found.steps // 10,
  )
  return found


# A link without latency: its seconds, times its rate, are bytes alone.
RATE = 1e6
LINK = {'latency_s': 0.0, 'bytes_per_s': RATE}


def on_link(network: str, workers: int, quick: bool) -> ConfigDict:
  """The same config; its records tell `comm_s['custom']` on LINK."""
  found = config(network, workers, quick)
  with found.ignore_type():
    found.link = ConfigDict(LINK)
  return found


def extent(networks: Sequence[str], quick: bool) -> tuple[str, str]:
  """What the networks are and how long they train, in words."""
  of = [NETWORKS[name] for name in networks]
  steps = dict.fromkeys(str(6 if quick else n) for *_, n in of)
  return (
    ', '.join(f'{NAMES[model]} on {NAMES[task]}' for task, model, *_ in of),
    f'{" and ".join(steps)} steps of {EXAMPLES} examples',
  )


def compared(
  found: ConfigDict, strategies: Mapping[str, ConfigDict]
) -> ConfigDict:
  """The comparison of these strategies, each with the momentum it assumes."""
  found.variants = defaults.variants(**strategies)
  for name, strategy in strategies.items():
    if 'own_momentum' in strategy:
      found.variants[name].optimizer = ConfigDict({'momentum': 0.0})
  return found


def runs(
  comparison: ConfigDict, rates: Mapping[str, float], seeds: int
) -> Iterator[tuple[str, int, ConfigDict]]:
  """Every method, at its learning rate, with every seed."""
  for name, method in variants(comparison):
    for seed in range(seeds):
      found = method.copy_and_resolve_references()
      found.optimizer.learning_rate, found.seed = rates[name], seed
      yield name, seed, found


def cells(
  found: Any,
  quick: bool,
  at: Callable[[int], ConfigDict],
  strategies: Mapping[str, ConfigDict],
  workers: Sequence[int],
  seeds: int,
) -> dict[tuple[int, str, int], ConfigDict]:
  """The runs of a comparison by workers, method and seed.

  Args:
    found: a `kept_runs.KeptRuns`; it chooses rates at the first of `workers`.
    quick: with two rates, the first of `workers` and one seed.
    at: workers -> config.
    strategies: `config.strategy` of each method.
    workers: numbers of them.
    seeds: how many.
  """
  rates = found.rates(
    compared(at(workers[0]), strategies), RATES[: 2 if quick else None]
  )
  return {
    (number, name, seed): run
    for number in workers[: 1 if quick else None]
    for name, seed, run in runs(
      compared(at(number), strategies), rates, 1 if quick else seeds
    )
  }
