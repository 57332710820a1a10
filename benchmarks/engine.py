"""An exchange of the engine, over copies through Ray's object store.

    python -m benchmarks.engine

The model is one matrix of a million parameters. An exchange with a server sends
it there and back, two copies; a worker that reads another worker's model gets
it, one copy. A copy is a call of another process that returns the array, and
copying the array out of the store. The second ratio is a worker's step without
an exchange, over the same gradient and update in a plain loop of one process:
of that model, and of a CNN on images, whose gradient takes longer.
"""

import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import ray

from gossipjax.config import defaults, resolve
from gossipjax.engine import ray_cluster, setup
from gossipjax.engine.crew import SERVER, WORKER, Crew
from gossipjax.engine.server_process import prepare
from gossipjax.tasks.task import Task

SIDE, TURNS, STEPS, TRAIN_S = 1024, 15, 20, 0.5
LINEAR = {'name': 'benchmarks.engine:linear'}
CNN = {'name': 'fashion_mnist', 'model': 'cnn', 'width': 32}
METHODS = {'parameter_server': 2, 'pull_gossip': 1}  # Copies per exchange.


def linear(batch: int = 64) -> Task:
  """Least squares with a square matrix, `batch` examples in each step."""
  examples = np.ones((4 * batch, SIDE), np.float32)
  loss = lambda params, x, key: jnp.mean((x @ params - x) ** 2)
  score = lambda params, x: {'loss': jnp.mean((x @ params - x) ** 2)}
  start = lambda key: jnp.eye(SIDE) * 0.5
  return Task(
    start, loss, score, examples, examples[:8], labels=np.zeros(4 * batch, int)
  )


def config(name: str, period: int, workers: int = 2, task: Any = LINEAR):
  """Returns the config of a strategy on the engine, with few workers."""
  found = defaults.get_config()
  found.update(workers=workers, batch_size=64, steps=10**6, engine='ray')
  found.task = defaults.task(**task)
  found.split = defaults.split()
  found.optimizer = defaults.optimizer('sgd', learning_rate=0.01)
  options = {'look_ahead': 0.0} if name == 'pull_gossip' else {}
  found.strategy = resolve.strategy_config(name, period=period, **options)
  return found


class Source:
  """A process with a model."""

  def __init__(self):
    self._array = np.ones((SIDE, SIDE), np.float32)

  def array(self) -> np.ndarray:
    """The model."""
    return self._array


class Plain:
  """A process that copies models, and one that trains by itself."""

  def copies(self, source: Any, count: int) -> float:
    """Measures the seconds of `count` copies."""
    began = time.perf_counter()
    for _ in range(count):
      np.array(ray.get(source.array.remote()))
    return time.perf_counter() - began

  def prepare(self, of: dict[str, Any]) -> None:
    """Prepares the training; to be called before `steps`."""
    self._setup = prepare(of)
    self._held = self._setup.beginning()
    self._update = jax.jit(
      lambda xs, gs: [x - 0.01 * g for x, g in zip(xs, gs, strict=True)]
    )

  def steps(self, count: int) -> float:
    """Measures the seconds of `count` steps."""
    own, server = self._held.singles[0].own, self._held.server
    began = time.perf_counter()
    for step in range(count):
      _, gradient, _ = self._setup.take(own, server, 0, np.int32(step))
      leaves = jax.tree.leaves(gradient)
      jax.block_until_ready(self._update(own[: len(leaves)], leaves))
    return time.perf_counter() - began


def crew_of(of: dict[str, Any]) -> Crew:
  """Starts the workers of a config; returns them ready to train."""
  prepared = setup.of_config(of)
  found = Crew(of, prepared, prepared.beginning(), [0, 0])
  found.begin()
  return found


def step(crew: Crew, number: int) -> dict[str, float]:
  """Runs a step of worker 0; returns its seconds by kind of activity."""
  crew.start(0, number)
  entry = crew.exchange(0, [] if any(crew.of(SERVER)) else [1], number)
  return {kind: until - since for kind, since, until in entry.spans}


def alone_s(crew: Crew) -> float:
  """Measures the seconds of a step of worker 0, which trains for TRAIN_S and is
  paused before and after."""
  worker = crew.actors[WORKER, 0]
  ray.get(worker.news.remote())
  crew.resume()
  time.sleep(TRAIN_S)
  crew.pause()
  entries, _ = ray.get(worker.news.remote())
  first, last = entries[0].spans[0], entries[-1].spans[-1]
  return (last[-1] - first[1]) / len(entries)


def main() -> None:
  """Prints a line per method, and one of the step."""
  with ray_cluster.connected():
    plain = ray.remote(Plain).options(num_cpus=0).remote()
    source = ray.remote(Source).options(num_cpus=0).remote()
    for name, count in METHODS.items():
      crew = crew_of(config(name, 1).to_dict())
      ratios = [
        step(crew, turn)['transfer']
        / ray.get(plain.copies.remote(source, count))
        for turn in range(TURNS + 1)
      ][1:]
      show(f'{name}: an exchange over {count} raw copies', ratios)
      crew.end()
    for task in (LINEAR, CNN):
      settings = config('pull_gossip', 10**6, workers=1, task=task).to_dict()
      crew = crew_of(settings)
      ray.get(plain.prepare.remote(settings))
      crew.start_training(time.time())
      crew.pause()
      pairs = [
        (alone_s(crew), ray.get(plain.steps.remote(STEPS)) / STEPS)
        for _ in range(TURNS + 1)
      ][1:]
      crew.end()
      ms = 1000 * statistics.median(plain for _, plain in pairs)
      show(
        f'a step without an exchange over a plain one ({task["name"]}, '
        f'{ms:.1f} ms)',
        [engine / plain for engine, plain in pairs],
      )


def show(title: str, ratios: list[float]) -> None:
  """Prints the median, quartiles in brackets."""
  low, middle, high = statistics.quantiles(ratios, n=4)
  print(f'{title}: {middle:.2f} ({low:.2f} to {high:.2f})', flush=True)


if __name__ == '__main__':
  main()
