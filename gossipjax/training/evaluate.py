"""Held-out scores of the workers, and their consensus distance."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors, norms
from gossipjax.aggregator import Tree
from gossipjax.data.examples import take_rows
from gossipjax.data.sources import Source
from gossipjax.tasks import metrics
from gossipjax.tasks.task import Task, count
from gossipjax.training.model_state import EvalStates
from gossipjax.training.record import Record
from gossipjax.transforms.traced_collectives import opened, programs

_CHUNK = 256  # Examples per device and call; more is no faster on a CPU.
_MOST_BYTES = 2**30  # Of the largest array of a call, on a machine or a GPU.


@jax.jit
def mean_and_distance(params: Tree) -> tuple[Tree, jax.Array]:
  """The exact mean model and the consensus distance.

  It is computed from differences to worker 0, so that equal replicas have
  distance 0.

  Args:
    params: leaves [workers, ...].

  Returns:
    The mean over workers, and sqrt(1/P sum_i |x_i - mean|^2), f32[].
  """
  mean = jax.tree.map(lambda x: x[0] + (x - x[:1]).mean(axis=0), params)

  def square(x, m):  # float16 overflows at a distance of 256.
    difference = norms.widened(x) - norms.widened(m[None])
    return jnp.sum(jnp.square(difference)) / x.shape[0]

  squares = jax.tree.map(square, params, mean)
  return mean, jnp.sqrt(sum(jax.tree.leaves(squares)))


def _chunk(task: Task, devices: int, executor: str) -> int:
  """Examples per device and call, few enough for the memory."""
  apart = executor != 'vmap' and jax.default_backend() != 'cpu'
  sharing = 1 if apart else devices
  try:
    most = _MOST_BYTES // (largest_bytes(task) * sharing)
  except Exception:  # Scoring says what is wrong with a task.
    return _CHUNK
  return max(1, min(_CHUNK, most))


def largest_bytes(task: Task) -> int:
  """Bytes per example, at least 1, of the largest array that scoring makes."""
  begun = jax.eval_shape(task.begin, jax.random.key(0))
  one = take_rows(task.test, np.zeros(1, int))

  def program(count):
    many = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype), one
    )
    score = lambda params, state, examples: jax.vmap(
      lambda example: task.scores(params, state, example)
    )(examples)
    return jax.make_jaxpr(score)(*begun, many).jaxpr

  # What does not grow with the examples, such as weights, is the same in both.
  pair = zip(_sizes(program(2)), _sizes(program(3)), strict=True)
  return max((three - two for two, three in pair), default=0) or 1


def _sizes(jaxpr: Any) -> Iterator[int]:
  """Bytes of the results of all equations, also of those within others."""
  for eqn in jaxpr.eqns:
    for v in eqn.outvars:
      yield v.aval.size * v.aval.dtype.itemsize
    for inner in programs(eqn):
      yield from _sizes(opened(inner))


def held_out_scorer(
  task: Task, workers: int, executor: executors.Executor
) -> Callable[[Tree, Tree], dict[str, float]]:
  """Makes a function that scores a model on all held-out examples.

  Every device scores its share. Processes exchange the results, and no ledger
  counts that traffic.

  Args:
    task: gives the `test` examples and the scores.
    workers: how many share the work.
    executor: runs the workers.

  Returns:
    (parameters, state) of one model -> its scores on all examples.
  """
  total, test = count(task.test, 'test'), task.test
  devices = workers * executor.devices
  calls = -(-total // (devices * _chunk(task, devices, executor.name)))
  chunk = -(-total // (devices * calls))
  rows = np.arange(calls * devices * chunk).reshape(calls, workers, -1)
  real = (rows < total).astype(np.float32)
  local = executor.local_workers
  chunk_of = lambda r, w: executor.put_split(
    (take_rows(test, r[local] % total), w[local])
  )
  pairs = list(zip(rows, real, strict=True))
  # Arrays are placed on the devices once; a source is read at each evaluation.
  placed = None if isinstance(test, Source) else [chunk_of(*p) for p in pairs]

  @executor.run
  def score(examples, weight, params, state):
    single = jax.vmap(
      lambda example: task.scores(
        params, state, jax.tree.map(lambda x: x[None], example)
      )
    )(examples)
    return metrics.weighed(single, weight)

  def evaluate(params: Tree, state: Tree) -> dict[str, float]:
    chunks = (chunk_of(*p) for p in pairs) if placed is None else placed
    local = [
      executors.to_host(score(*c, params=params, state=state)) for c in chunks
    ]
    return metrics.joined(_of_each(executors.gather(local), executor), total)

  return evaluate


def _of_each(scores: Tree, executor: executors.Executor) -> Tree:
  """Leaves with a row per device, whichever worker it belongs to."""
  if executor.devices == 1:
    return scores
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), scores)


class ScoredModel:
  """The model that was scored last: the mean of the workers, or a server's.

  Attributes:
    model: its parameters and state, on the host; None before the first scores.
  """

  def __init__(self) -> None:
    self.model: tuple[Tree, Tree] | None = None

  def keep(self, params: Tree, state: Tree) -> None:
    """Keeps a model in place of the one before."""
    self.model = jax.device_get((params, state))


def scores(
  params: Tree,
  states: EvalStates,
  score: Callable[[Tree, Tree], dict[str, float]],
  scored: ScoredModel,
  center: Tree | None = None,
  has_first: bool = True,
) -> dict[str, Any]:
  """The held-out fields of a record.

  Args:
    params: of all workers that are up, leaves [workers, ...].
    states: what models keep besides parameters.
    score: see `held_out_scorer`.
    scored: keeps the model that is scored.
    center: a server's model, scored in place of the workers' mean.
    has_first: whether worker 0 is the first of `params`: it is up, not late.

  Returns:
    consensus_distance, and `test_KEY` and `worker0_KEY` of every score; those
    that are no fields of a record are in a dict under 'scores'. Without worker
    0 its fields are None.
  """
  mean, distance = mean_and_distance(params)
  judged = mean if center is None else center
  distance, of_mean = float(distance), score(judged, states.mean)
  scored.keep(judged, states.mean)
  # Equal replicas are their mean: no need to score the same model twice.
  alike = distance == 0 and center is None
  alike &= not jax.tree.leaves(states.first)
  first = jax.tree.map(lambda x: x[0], params)
  named = {f'test_{k}': v for k, v in of_mean.items()}
  if has_first:
    of_first = of_mean if alike else score(first, states.first)
    named |= {f'worker0_{k}': v for k, v in of_first.items()}
  fields = {k: v for k, v in named.items() if k in Record.__struct_fields__}
  others = {k: v for k, v in named.items() if k not in fields}
  return {
    'consensus_distance': distance,
    **fields,
    **({'scores': others} if others else {}),
  }
