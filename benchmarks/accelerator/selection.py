"""Selecting, merging and packing, over one read of the entries.

A program runs an operation several times in a loop, so that starting it does
not count. An operation's result stays in the loop, and its argument changes by
it, so that none is left out. `steps` are those of eight workers under `vmap`,
over reading the entries of all. The goal for exact selection is four reads.
"""

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import exchange, stages
from benchmarks.accelerator.measures import Measure
from gossipjax.compressors import packing
from gossipjax.config import resolve

SIZES = ((25_600_000, 25_600), (100_000_000, 100_000))  # n, k
SMALL = ((8192, 64),)
BITS = (1, 2, 4)
TIMES, TURNS = 10, 7
WORKERS = 8
STEPS = ('topk', 'gtopk')
GOAL = 4  # Reads.


def operations(n: int, k: int) -> dict[str, tuple]:
  """(function, *arguments) by name; the first reads the entries once."""
  found = exchange.stages(n, k)
  x = found['read'][1]
  found |= {
    'copy': (lambda x: x + 1, x),
    'lax.approx_max_k': (lambda x: lax.approx_max_k(jnp.abs(x), k)[1], x),
  }
  for bits in BITS:
    codes = exchange.codes(n, bits)
    found |= {f'{name} {bits} bits': codes[name] for name in ('pack', 'unpack')}
  assert set(BITS) <= set(packing.WIDTHS)
  return found


def measures(small: bool) -> Iterator[Measure]:
  """The selections of 25.6 M entries first."""
  for n, k in SMALL if small else SIZES:
    for name in operations(1024, 8):
      yield Measure(
        {'n': n, 'k': k, 'what': name},
        lambda left, n=n, k=k, name=name: _operation(n, k, name, small),
      )
    if not small and importlib.util.find_spec('torch'):
      yield Measure(
        {'n': n, 'k': k, 'what': 'torch.topk'},
        lambda left, n=n, k=k: _torch(n, k),
      )
    for name in STEPS:
      yield Measure(
        {'n': n, 'k': k, 'what': f'step of {name}'},
        lambda left, n=n, k=k, name=name: _step(n, k, name, small),
      )


def repeated(function: Callable, times: int) -> Callable:
  """A function's arguments -> what it returns after so many runs.

  Each run depends on the result of the last in a way that no compiler sees
  through: one entry of the first array grows by 1 if the result begins with an
  unlikely number.
  """

  def run(*args):
    like = jax.eval_shape(function, *args)

    def once(_, carry):
      args, last = carry
      first = jax.tree.leaves(last)[0].ravel()[0]
      (array, *others), form = jax.tree.flatten(args)
      array = array.at[0].add((first == 117).astype(array.dtype))
      args = form.unflatten([array, *others])
      return args, function(*args)

    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    return lax.fori_loop(0, times, once, (args, nothing))[1]

  return run


def _seconds(call: Callable[[], Any], times: int) -> list[float]:
  """Seconds of one of `times` runs in each turn; the first turn compiles."""
  found = []
  for turn in range(TURNS + 1):
    began = time.perf_counter()
    jax.block_until_ready(call())
    if turn:
      found.append((time.perf_counter() - began) / times)
  return found


def _operation(n: int, k: int, name: str, small: bool) -> dict[str, Any]:
  function, *args = operations(n, k)[name]
  times = 2 if small else TIMES
  run = jax.jit(repeated(function, times))
  return {'seconds': _seconds(lambda: run(*args), times), 'reads_of': n}


def _step(n: int, k: int, name: str, small: bool) -> dict[str, Any]:
  """All workers' step; its gradients are drawn on the device."""
  workers = 2 if small else WORKERS
  strategy = resolve.strategy(resolve.strategy_config(name, density=k / n))
  grads = jax.random.normal(jax.random.key(0), (workers, n))
  program = stages.stepping(strategy, grads)
  return {'seconds': _seconds(program.call, 1), 'reads_of': workers * n}


def _torch(n: int, k: int) -> dict[str, Any]:
  """PyTorch's selection on its own device."""
  import torch  # Only where it is installed.

  device = 'cuda' if torch.cuda.is_available() else 'cpu'
  x = torch.from_numpy(
    np.random.default_rng(0).standard_normal(n, np.float32)
  ).to(device)
  wait = torch.cuda.synchronize if device == 'cuda' else lambda: None
  found = []
  for turn in range(TURNS + 1):
    began = time.perf_counter()
    for _ in range(TIMES):
      torch.topk(x.abs(), k)
    wait()
    if turn:
      found.append((time.perf_counter() - began) / TIMES)
  return {'seconds': found, 'reads_of': n, 'device': device}


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """A row for each operation: its time over one read, and of a read itself."""
  median = lambda line: statistics.median(line['result']['seconds'])
  read = {
    line['key']['n']: median(line)
    for line in lines
    if line['key']['what'] == 'read'
  }
  found = []
  for line in lines:
    n, what = line['key']['n'], line['key']['what']
    copies = line['result']['reads_of'] / n
    over = median(line) / (copies * read[n]) if n in read else None
    found.append(
      {
        'n': n,
        'k': line['key']['k'],
        'what': what,
        'ms': f'{1e3 * median(line):.3f}',
        'reads': '' if over is None else f'{over:.2f}',
        'GB/s': f'{4e-9 * n / median(line):,.0f}' if what == 'read' else '',
        f'within {GOAL} reads': {True: 'yes', False: 'NO'}[over <= GOAL]
        if over and what in ('ascending', 'largest')
        else '',
      }
    )
  return found
