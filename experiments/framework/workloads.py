"""The short trainings that claims are tried on."""

from collections.abc import Iterator, Mapping

from ml_collections import ConfigDict

from gossipjax.config import defaults
from gossipjax.config.variants import variants

# Task, model, width, steps.
NETWORKS = {
  'fashion_mnist': ('fashion_mnist', 'cnn', 16, 200),
  'cifar10': ('cifar10', 'resnet8', 8, 150),
  'cifar10-vgg': ('cifar10', 'vgg8', 8, 150),
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


def with_link(found: ConfigDict) -> ConfigDict:
  """The config, whose records then tell `comm_s['custom']`."""
  with found.ignore_type():
    found.link = ConfigDict(LINK)
  return found


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
