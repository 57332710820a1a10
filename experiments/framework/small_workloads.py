"""Small workloads, on which many whole trainings are affordable."""

from experiments.framework.sizes import Size
from experiments.framework.workload import Workload

SGD = {'name': 'sgd', 'momentum': 0.9, 'nesterov': True}
DIGITS = {'name': 'digits', 'model': 'mlp', 'width': 32}
SMALL = {
  'digits': Workload(
    "MLP on scikit-learn's digits, 300 steps",
    {'name': 'digits', 'model': 'mlp'},
    SGD,
    {'cpu': Size(300, 128, 0.1), 'quick': Size(6, 64, 0.1, DIGITS)},
    'test_accuracy',
    0.90,
    '92.6 % measured by configs/quickstart.py',
  ),
  'fashion-mlp': Workload(
    'MLP on Fashion-MNIST, 400 steps',
    {'name': 'fashion_mnist', 'model': 'mlp'},
    SGD,
    {'cpu': Size(400, 256, 0.05), 'quick': Size(6, 64, 0.05, DIGITS)},
    'test_accuracy',
    0.82,
    '82.5 % measured by configs/async_fashion_mnist.py, without momentum',
  ),
  'text-small': Workload(
    'transformer (2 layers, width 64) on tinyshakespeare, 400 steps',
    {'name': 'text', 'width': 64, 'layers': 2, 'sequence': 64},
    {'name': 'adam'},
    {'cpu': Size(400, 32, 3e-3), 'quick': Size(6, 64, 3e-3)},
    'test_accuracy',
    0.33,
    '34.8 % measured by configs/text.py',
    warmup=0.1,
  ),
  'cifar-small': Workload(
    'CNN (70,986 parameters) on CIFAR-10, 300 steps',
    {'name': 'cifar10', 'model': 'cnn', 'width': 16},
    SGD,
    {'cpu': Size(300, 128, 0.05), 'quick': Size(6, 64, 0.05, DIGITS)},
    'test_accuracy',
    0.5,
    '52.6 % measured with one seed',
  ),
  'mnist-small': Workload(
    'CNN (13,978 parameters) on MNIST, 200 steps',
    {'name': 'mnist', 'model': 'cnn', 'width': 8},
    SGD,
    {'cpu': Size(200, 128, 0.05), 'quick': Size(6, 64, 0.05, DIGITS)},
    'test_accuracy',
    0.96,
    '97.0 % measured with one seed',
  ),
  'mnist-mlp': Workload(
    'MLP on MNIST, 300 steps',
    {'name': 'mnist', 'model': 'mlp'},
    {'name': 'adam'},
    {'cpu': Size(300, 128, 1e-3), 'quick': Size(6, 64, 1e-3, DIGITS)},
    'test_accuracy',
    0.93,
    'not measured before',
  ),
  'fashion-small': Workload(
    'CNN (13,978 parameters) on Fashion-MNIST, 300 steps',
    {'name': 'fashion_mnist', 'model': 'cnn', 'width': 8},
    SGD,
    {'cpu': Size(300, 128, 0.05), 'quick': Size(6, 64, 0.05, DIGITS)},
    'test_accuracy',
    0.80,
    'not measured before',
  ),
  'cifar-mlp': Workload(
    'MLP on CIFAR-10, 300 steps',
    {'name': 'cifar10', 'model': 'mlp'},
    {**SGD, 'weight_decay': 5e-4},
    {'cpu': Size(300, 128, 0.02), 'quick': Size(6, 64, 0.02, DIGITS)},
    'test_accuracy',
    0.40,
    'not measured before',
  ),
  'text-short': Workload(
    'transformer (1 layer, width 96) on tinyshakespeare, 300 steps',
    {'name': 'text', 'width': 96, 'layers': 1, 'sequence': 32},
    {'name': 'adamw', 'weight_decay': 0.1},
    {'cpu': Size(300, 64, 3e-3), 'quick': Size(6, 64, 3e-3)},
    'test_loss',
    2.2,
    '2.14 nats measured with one seed',
    warmup=0.1,
  ),
}
