"""A step through `worker.update` against the same mathematics by hand.

    python -m benchmarks.step

Eight emulated workers, all-reduce, SGD with momentum and weight decay. Both
sides compute the same gradients of the same batch, without a data order, so the
difference is the cost of the abstraction. The MLP, 0.9 ms a step, magnifies it:
most of its difference is that every device returns one array more.

On 2 shared, busy cores, 2026-11-20, commit 9f039f7 (quartiles in brackets):

    resnet8 over the same by hand, medians of 40 turns:
      wall_s 0.980 (0.790 to 1.073), cpu_s 1.025 (1.001 to 1.074)
    mlp over the same by hand, medians of 40 turns:
      wall_s 1.225 (1.111 to 1.387), cpu_s 1.213 (1.140 to 1.290)
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks import by_hand, printing
from gossipjax import executors, models
from gossipjax.config import resolve
from gossipjax.local_step import make_worker
from gossipjax.traffic import pack_traffic

WORKERS, BATCH, RATE, MOMENTUM, DECAY = 8, 16, 0.05, 0.9, 5e-4
TASKS = {  # A model, the shape of its images, steps in a turn.
  'resnet8': ((32, 32, 3), 5),
  'mlp': ((8, 8, 1), 100),
}


def problem(model: str, shape: tuple[int, ...]):
  """A loss, parameters, and a batch for each worker, [workers, batch, ...]."""
  random, net = np.random.default_rng(0), models.make(model, 10)
  x = random.standard_normal((WORKERS, BATCH, *shape), np.float32)
  y = random.integers(0, 10, (WORKERS, BATCH), np.int32)

  def loss(params, batch, key):
    del key
    logits = net.apply({'params': params}, batch[0])
    return optax.softmax_cross_entropy_with_integer_labels(
      logits, batch[1]
    ).mean()

  params = net.init(jax.random.key(0), x[0])['params']
  return loss, jax.tree.map(np.array, params), (x, y)


def through_update(
  loss, params: Any, batches: Any, chunk: int
) -> Iterator[jax.Array]:
  """Yields the last of every `chunk` losses, f32[workers]."""
  init, update = make_worker(
    resolve.strategy({'name': 'all_reduce'}),
    optax.chain(
      optax.add_decayed_weights(DECAY), optax.sgd(RATE, MOMENTUM, nesterov=True)
    ),
  )
  executor = executors.executor(WORKERS, 'shard_map')

  def program(worker, batch, t):
    value, grads = jax.value_and_grad(loss)(worker.params, batch, None)
    worker, sent = update(worker, grads, t)
    return worker, (value, pack_traffic(sent))

  run = executor.run(program, donate=(0,))
  copies = jax.tree.map(lambda x: np.stack([x] * WORKERS), params)
  worker = executor.run(init)(executor.put(copies))
  batches, previous, t = executor.put(batches), None, 0
  while True:
    for _ in range(chunk):
      worker, metrics = run(worker, batches, t=jnp.int32(t))
      jax.block_until_ready(metrics if previous is None else previous)
      previous, t = metrics, t + 1
    yield jax.device_get(metrics[0])


def main() -> None:
  executors.emulate(WORKERS)
  for model, (shape, chunk) in TASKS.items():
    loss, params, batches = problem(model, shape)
    program = by_hand.step(
      loss, lambda batch, key, t: batch, RATE, MOMENTUM, DECAY
    )
    make = lambda: (
      through_update(loss, params, batches, chunk),
      by_hand.train(program, params, batches, 0, chunk),
    )
    # The comparison is only fair if the losses are the same.
    np.testing.assert_allclose(*map(next, make()), rtol=1e-3)
    printing.report(model, *printing.in_turns(*make(), turns=40))


if __name__ == '__main__':
  main()
