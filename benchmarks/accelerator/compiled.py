"""Audits programs compiled for eight GPUs, none of which has to be present.

One update of each strategy is compiled, at a step at which all periods end,
with parameters in float32 and in bfloat16. Its collectives are compared with
the ledger, as `--audit` does on emulated devices. For some strategies a whole
step with the gradient of a transformer is compiled, too; its schedule says
which collectives overlap with computing.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.accelerator import eight_gpus
from benchmarks.accelerator.measures import Measure
from benchmarks.accelerator.problems import problem
from gossipjax import executors
from gossipjax.aggregator import Tree
from gossipjax.audit import comparison, hlo, schedule
from gossipjax.audit.control_paths import control_paths
from gossipjax.collectives import WORKERS
from gossipjax.config import resolve
from gossipjax.devices.platform import traced_for
from gossipjax.local_step import make_worker, probe

NUM_GPUS = eight_gpus.NUM_GPUS  # Workers, a device each.
COMMON_PERIOD = 2**9 * 3**2 * 5**4 * 7 * 13  # A multiple of any usual period.
SHAPES = {'bias': (37,), 'dense': (60, 50)}
LARGE = 1e3  # Gradients that make every trigger fire.
DTYPES = ('float32', 'bfloat16')
OVERLAP_STRATEGIES = (
  'all_reduce',
  'delayed_all_reduce',
  'gossip',
  'diloco',
  'streaming_diloco',
  'topk',
  'power_sgd',
  'qsgd',
)
HIDING = {'xla_gpu_enable_latency_hiding_scheduler': True}
# Options of the compiler; without a limit it joins all sums into one.
OPTIONS: dict[str, dict[str, Any]] = {
  'default': {},
  'latency hiding': HIDING,
  'latency hiding, joined up to 8 MB': {
    **HIDING,
    'xla_gpu_all_reduce_combine_threshold_bytes': 8 * 2**20,
    'xla_gpu_all_gather_combine_threshold_bytes': 8 * 2**20,
  },
}


def measures(small: bool) -> Iterator[Measure]:
  """Yields the bytes of all strategies, then the overlap of some."""
  names = ('all_reduce', 'qsgd') if small else resolve.STRATEGIES
  for dtype, name in itertools.product(DTYPES, names):
    yield Measure(
      {'strategy': name, 'dtype': dtype},
      lambda left, name=name, dtype=dtype: _bytes(name, dtype, small),
    )
  for options in ('default',) if small else OPTIONS:
    for name in OVERLAP_STRATEGIES[: 1 if small else None]:
      yield Measure(
        {'strategy': name, 'hidden with': options},
        lambda left, name=name, options=options: _hidden(name, options, small),
      )


def compile_for(
  targets: list[jax.Device],
  program: Callable[..., Any],
  arguments: Any,
  options: dict[str, Any],
) -> tuple[hlo.Module, hlo.Module]:
  """Compiles a worker's program for one device per worker.

  Args:
    targets: a device for each worker; they need not be present.
    program: of one worker.
    arguments: shapes of all workers, leaves [workers, ...].
    options: of the compiler.

  Returns:
    The compiled module, and the module before compilation.
  """
  mesh = jax.make_mesh(
    (len(targets),), (WORKERS,), (jax.sharding.AxisType.Auto,), devices=targets
  )
  sharding = jax.NamedSharding(mesh, jax.P(WORKERS))
  on_mesh = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
  with traced_for(targets[0].platform):
    lowered = executors.on_many_devices(program, mesh=mesh).lower(
      *jax.tree.map(on_mesh, arguments)
    )
  text = lowered.compile(options or None).as_text()
  if text is None:
    raise ValueError('this version of JAX does not show what it compiled')
  return hlo.parse(text), hlo.parse(lowered.as_text(dialect='hlo'))


def _bytes(name: str, dtype: str, small: bool) -> dict[str, Any]:
  """Compares the ledger of one update, run here, with the compiled program."""
  strategy = resolve.strategy(resolve.strategy_config(name))
  init, update = make_worker(strategy, probe(strategy, 1.0))
  update_at = lambda worker, grads: update(
    worker, grads, jnp.int32(COMMON_PERIOD - 1)
  )
  params, grads = _drawn(0, 1.0, dtype), _drawn(1, LARGE, dtype)
  worker = executors.on_one_device(init)(params)
  _, sent = executors.on_one_device(update_at)(worker, grads)
  program, source = compile_for(
    eight_gpus.devices(small), update_at, (worker, grads), {}
  )
  ways = [(path,) for path in control_paths(program, source)]
  row = comparison.compare(COMMON_PERIOD - 1, ways, jax.device_get(sent))
  worst = comparison.worst(row)
  return {
    'holds': comparison.holds(row),
    'sentence': comparison.sentence(row),
    'kinds': {kind: int(each[worst]) for kind, each in row.kinds.items()},
    'compiled': int(row.compiled[worst]),
    'ledger': int(row.ledger[worst]),
    'reason': row.reason,
    'exchanges': [e._asdict() for e in schedule.scheduled_collectives(program)],
  }


def _drawn(seed: int, scale: float, dtype: str) -> Tree:
  """Random numbers for each worker."""
  random = np.random.default_rng(seed)
  return {
    key: jnp.asarray(scale * random.standard_normal((NUM_GPUS, *shape)), dtype)
    for key, shape in SHAPES.items()
  }


def _hidden(name: str, options: str, small: bool) -> dict[str, Any]:
  """Returns the collectives of a whole step, as they are scheduled."""
  workload = problem('transformer', small)
  strategy = resolve.strategy(resolve.strategy_config(name))
  init, update = make_worker(strategy, probe(strategy, 0.1))

  def step(worker, batch):
    loss, grads = jax.value_and_grad(workload.loss)(worker.params, batch)
    return update(worker, grads, jnp.int32(COMMON_PERIOD - 1))[0], loss

  begin = executors.on_one_device(
    lambda x: init(workload.init(jax.random.key(x)))
  )
  worker = jax.eval_shape(begin, jax.ShapeDtypeStruct((NUM_GPUS,), 'i4'))
  cut = lambda x: jax.ShapeDtypeStruct(
    (NUM_GPUS, len(x) // NUM_GPUS, *x.shape[1:]), x.dtype
  )
  batch = jax.tree.map(cut, workload.batch)
  program, _ = compile_for(
    eight_gpus.devices(small), step, (worker, batch), OPTIONS[options]
  )
  return {
    'exchanges': [e._asdict() for e in schedule.scheduled_collectives(program)]
  }


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """Returns a row for each program: bytes, and the share of them that overlaps
  with computing."""
  found = []
  for line in lines:
    key, result = line['key'], line['result']
    exchanges = result['exchanges']
    total = sum(e['bytes'] for e in exchanges)
    hidden = sum(e['bytes'] for e in exchanges if e['beside'])
    found.append(
      {
        'strategy': key['strategy'],
        'program': key.get('dtype') or f'whole step, {key["hidden with"]}',
        'ledger': result.get('ledger', ''),
        'compiled': result.get('compiled', ''),
        'agree': {True: 'yes', False: 'NO', None: ''}[result.get('holds')],
        'reason': result.get('reason', ''),
        'types': ', '.join(sorted({d for e in exchanges for d in e['dtypes']})),
        'collectives': len(exchanges),
        'of them split': sum(e['split'] for e in exchanges),
        'hidden share of bytes': f'{hidden / total:.2f}' if total else '',
        'instructions beside': ', '.join(
          str(len(e['beside'])) for e in exchanges
        ),
      }
    )
  return found
