"""Training on Fashion-MNIST, with the test set that its authors held out."""

import pytest

from configs import fashion_mnist
from gossipjax.config import resolve
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train
from tests.support import datasets

pytestmark = datasets.needs('fashion_mnist')


@pytest.mark.parametrize(
  'name, arguments', [('all_reduce', {}), ('gtopk', {'density': 0.01})]
)
def test_fashion_mnist_reaches_80_percent_test_accuracy(name, arguments):
  config = fashion_mnist.get_config(name)
  config.update(workers=4, steps=160, log_every=160, eval_every=0)
  config.optimizer.warmup_steps = 16
  config.strategy = resolve.strategy_config(name, **arguments)
  (record,) = train(resolve_run(config))
  assert record.test_accuracy > 0.8
  assert record.worker0_accuracy > 0.8
