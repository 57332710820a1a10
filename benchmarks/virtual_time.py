"""Time of a simulation over that of its gradients, and its workers' memory.

    python -m benchmarks.virtual_time

The CNN on Fashion-MNIST with 128 workers is compared with a plain loop over the
same gradients, of the same parameters and batches. Both take turns.
"""

from collections.abc import Callable, Iterator

import jax
import numpy as np

from benchmarks import printing
from gossipjax.aggregator import Tree
from gossipjax.config import defaults, resolve
from gossipjax.simulation import simulate
from gossipjax.simulation.fleet import Runner
from gossipjax.training import worker_program
from gossipjax.training.ledger import Ledger
from gossipjax.training.run import resolve_run

WORKERS, EVENTS, TURNS = 128, 48, 7
METHODS = {
  'all_reduce': False,
  'parameter_server': True,
  'elastic': True,
  'pull_gossip': True,
  'push_gossip': True,
  'pairwise_gossip': True,
  'adaptive_gossip': True,
}


def config(name: str, asynchronous: bool):
  """Returns a config with plain SGD: optimizer state is not the simulator's."""
  run = defaults.get_config()
  run.update(workers=WORKERS, batch_size=32)
  run.task = defaults.task('fashion_mnist', model='cnn')
  run.split.examples = 256
  run.optimizer = defaults.optimizer('sgd', learning_rate=0.01)
  known = resolve.strategy_config(name)
  bare = {'look_ahead': 0.0} if 'look_ahead' in known else {}
  run.strategy = resolve.strategy_config(name, **bare)
  run.cluster = defaults.cluster(
    asynchronous=asynchronous, compute='lognormal', spread=0.3
  )
  return run


def simulated(
  runner: Runner, timeline: simulate.Timeline, many: int
) -> Iterator[None]:
  """Simulates `many` gradients per turn."""
  target = 0.0
  while True:
    target += many / WORKERS
    while timeline.rounds < target:
      timeline.next()
    runner.wait()
    yield


def gradients(
  gradient: Callable, params: Tree, examples: Tree, many: int
) -> Iterator[None]:
  """Computes `many` gradients per turn, and waits for each, as a plain loop."""
  compute, t = jax.jit(gradient), 0
  params = [jax.tree.map(lambda x, i=i: x[i], params) for i in range(WORKERS)]
  while True:
    for _ in range(many):
      jax.block_until_ready(
        compute(
          params[t % WORKERS],
          (),
          examples,
          np.int32(t % WORKERS),
          np.int32(t // WORKERS),
        )
      )
      t += 1
    yield


def copies(runner: Runner) -> tuple[float, float]:
  """Measures the simulation's memory without data, in copies of the parameters
  per worker.

  Returns:
    All of it, and the part that workers hold between two steps anyhow.
  """
  size = lambda tree: sum(x.nbytes for x in jax.tree.leaves(tree))
  unit = size(runner.params)
  return size(runner.held) / unit, size(runner.state.workers) / unit


def main() -> None:
  for name, asynchronous in METHODS.items():
    settings = config(name, asynchronous)
    run = resolve_run(settings)
    exchange = simulate.exchange_of(run)
    run = simulate.with_exchange(run, exchange)
    program = worker_program.worker_program(run)
    workers, examples = worker_program.start(run, program)
    runner = simulate.round_runner_of(
      program, exchange, workers, examples, Ledger({}, WORKERS)
    )
    timeline = simulate.timeline_of(run, exchange, runner)
    count = EVENTS if asynchronous else WORKERS
    printing.report(
      name,
      *printing.in_turns(
        simulated(runner, timeline, count),
        gradients(program.gradient, runner.params, examples, count),
        TURNS,
      ),
    )
    total, own = copies(runner)
    print(
      f'{name} holds {total:.2f} copies of the parameters per worker, '
      f'{own:.2f} of them its own state',
      flush=True,
    )


if __name__ == '__main__':
  main()
