"""What an audit compiles and runs: one update of all workers on a mesh."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors
from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import hlo
from gossipjax.audit.control_paths import Paths, TooManyPaths, control_paths
from gossipjax.devices import inner_devices
from gossipjax.devices.inner_devices import ALONE, Inner
from gossipjax.errors import UserError
from gossipjax.local_step import Worker, make_worker, probe
from gossipjax.traffic import Traffic, at_once

_LARGE = 1e3  # Size of gradients over parameters; it makes every trigger fire.
_MOST = 32  # Entries along a dimension, where the shape does not matter.
# The same collectives as with all optimizations, in a third of the time.
_COMPILER_OPTIONS = {
  'xla_backend_optimization_level': 0,
  'xla_llvm_disable_expensive_passes': True,
}


class Harness(NamedTuple):
  """All workers of a strategy; leaves are [workers, ...].

  Attributes:
    run: lifts a worker's program to all workers, as `executors.Executor.run`.
    update: of one worker, as `worker.make_worker` returns it.
    worker: states to start from.
    inner: what the devices of a worker do; each has a row, [workers, devices].
    large: gradients so large that every worker communicates.
  """

  run: Callable[..., Callable[..., Any]]
  update: Callable[..., Any]
  worker: Worker
  inner: Inner
  large: Tree

  def gradients(self, scale: float) -> Tree:
    """The large gradients times `scale`."""
    if scale == 0:  # A product with zero may be -0.
      return jax.tree.map(jnp.zeros_like, self.large)
    return jax.tree.map(lambda x: (scale * x).astype(x.dtype), self.large)


def check_devices(workers: int, of_each: int = 1) -> None:
  """Checks that workers with `of_each` devices each can be audited.

  Raises:
    UserError: fewer than two workers, or too few devices.
  """
  needed, available = workers * of_each, jax.device_count()
  if workers >= 2 and needed <= available:
    return
  remedy = (
    'set JAX_PLATFORMS=cpu where there are GPUs, and in Python call '
    f'gossipjax.executors.emulate({needed}) before JAX starts'
  )
  if workers < 2:
    remedy = 'set workers=2 or more'
  elif needed > executors.MOST_DEVICES:
    remedy = f'set fewer, for at most {executors.MOST_DEVICES} are emulated'
  raise UserError(
    'audit needs two workers or more and a device for each: '
    f'workers={workers}, devices={available}; {remedy}.'
  )


def make_harness(
  strategy: Strategy,
  params: Tree,
  workers: int,
  state: Tree = (),
  inner: Inner = ALONE,
) -> Harness:
  """Makes a harness of all slots of a strategy around an optimizer.

  Args:
    strategy: of the workers.
    params, state: of one worker; only shapes and dtypes matter.
    workers: number of workers; each has devices of its own.
    inner: what their devices do, for parameters of any shapes.

  Raises:
    UserError: fewer than two workers, or too few devices.
  """
  check_devices(workers, inner.devices)
  executor = executors.executor(workers, 'shard_map', inner.devices)
  inner = inner_devices.inner(inner.devices, inner.kind, params)
  init, update = make_worker(strategy, probe(strategy, 1.0))
  draw, seeds = executor.run(_noise(params)), np.arange(workers)
  initial = draw(executor.put_replicated(seeds), scale=1.0)
  large = draw(executor.put_replicated(seeds + workers), scale=_LARGE)
  zeros = jax.tree.map(lambda x: np.zeros((workers, *x.shape), x.dtype), state)
  begin = lambda params, state: init(inner.kept(params), state)
  return Harness(
    executor.run,
    _of_devices(update, inner),
    executor.run(begin)(initial, executor.put_replicated(zeros)),
    inner,
    large,
  )


def _noise(like: Tree) -> Callable[..., Tree]:
  """Returns (seed, scale) -> a random tree with these shapes and dtypes."""
  leaves, form = jax.tree.flatten(like)

  def noise(seed, scale):  # One draw for all leaves compiles faster.
    ends = np.cumsum([x.size for x in leaves])
    flat = scale * jax.random.normal(jax.random.key(seed), ends[-1:])
    return jax.tree.unflatten(
      form,
      [
        part.reshape(x.shape).astype(x.dtype)
        for part, x in zip(jnp.split(flat, ends[:-1]), leaves, strict=True)
      ],
    )

  return noise


def _of_devices(update: Callable[..., Any], inner: Inner) -> Callable[..., Any]:
  """The update of a worker, preceded by the exchange within its devices."""
  if inner.devices == 1:
    return update

  def of_device(worker, grads, *args, **kwargs):
    params, gathering = inner.whole(worker.params)
    # Makes gradients depend on the parameters, or XLA would not gather these.
    dependent = lambda g, p: jnp.where(jnp.isnan(p), jnp.zeros_like(g), g)
    grads, reducing = inner.mean(jax.tree.map(dependent, grads, params))
    worker, sent = update(worker, grads, *args, **kwargs)
    return worker, sent + gathering + reducing

  return of_device


def worker_traffic(harness: Harness, sent: Traffic) -> Traffic:
  """What each worker sent, on the host, leaves [workers]."""
  sent = jax.device_get(sent)
  return sent if harness.inner.devices == 1 else at_once(sent, 1)


def update_at(harness: Harness, step: int) -> Callable[..., Any]:
  """The update of one worker with the step as a constant of the program."""
  return lambda worker, grads, *active: harness.update(
    worker, grads, jnp.int32(step), True, *active
  )


def executable(
  harness: Harness, program: Callable[..., Any], *args: Any, **shared: Any
) -> tuple[Any, Any]:
  """Returns a worker's program for all workers: compiled, and as lowered."""
  jitted: Any = harness.run(program)
  lowered = jitted.lower(harness.worker, *args, **shared)
  on_cpu = jax.default_backend() == 'cpu'
  return lowered.compile(_COMPILER_OPTIONS if on_cpu else None), lowered


def compiled(
  harness: Harness, program: Callable[..., Any], *args: Any, **shared: Any
) -> tuple[Any, Paths | None]:
  """As `executable`, but the second result is the program's control paths; None
  if there are too many to list."""
  ready, lowered = executable(harness, program, *args, **shared)
  source = lowered.as_text(dialect='hlo', debug_info=True)  # With names.
  texts = ready.as_text(), source
  try:
    return ready, control_paths(*map(hlo.parse, texts))
  except TooManyPaths:
    return ready, None


def has_conditionals(program: Any) -> bool:
  """Whether a compiled program has conditionals."""
  return ' conditional(' in program.as_text()


def shrunk(params: Tree) -> Tree:
  """The same tree of shapes, cut to at most 32 entries along a dimension."""
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct([min(d, _MOST) for d in x.shape], x.dtype),
    params,
  )
