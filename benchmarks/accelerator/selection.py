"""Times of selecting, merging and packing, over one read of the entries.

A program runs an operation several times in a loop; each run depends on the
last one's result. Seconds of a run are the slope between T and 3 T runs, which
leaves out starting the program and copying its arguments once. Arguments are
drawn on the device, those of one operation at a time.

Steps are those of eight workers under `vmap`, over reading the entries of all
workers. The goal for exact selection is four reads.
"""

import functools
import importlib.util
import statistics
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks import exchange, stages
from benchmarks.accelerator import slopes
from benchmarks.accelerator.measures import Measure
from gossipjax.compressors import (
  Sparse,
  bisection,
  largest,
  merging,
  packing,
)
from gossipjax.config import resolve

SIZES = ((25_600_000, 25_600), (100_000_000, 100_000))  # n, k
SMALL = ((8192, 64),)
BITS = (1, 2, 4)
FEW = 2  # Runs in a rehearsal.
# The second is what its kernel alone takes.
TORCH = {'torch.topk': True, 'torch.topk of magnitudes, not sorted': False}
WORKERS = 8
STEPS = ('topk', 'gtopk')
GOAL = 4  # Reads.
SEARCHING = 'ascending, by searching'


def operations(n: int, k: int) -> dict[str, tuple]:
  """Returns (function, *names of its arguments) by name; `read` is the unit."""
  found = exchange.operations(n, k)
  found |= {
    'copy': (lambda x: x + 1, 'x'),
    SEARCHING: (lambda x: largest.ascending(x, k, by_sorting=False), 'x'),
    'bitmap': (lambda x: bisection.reaching(x, jnp.int32(2**30)), 'x'),
    'lax.approx_max_k': (lambda x: lax.approx_max_k(jnp.abs(x), k)[1], 'x'),
  }
  for bits in BITS:
    coding = exchange.coding(n, bits)
    for what in ('pack', 'unpack'):
      function, name = coding[what]
      found[f'{what} {bits} bits'] = function, f'{name} {bits}'
  assert set(BITS) <= set(packing.WIDTHS)
  return found


def drawn(name: str, n: int, k: int) -> Any:
  """An argument of an operation, drawn on the device."""
  name, *bits = name.split()
  key = jax.random.key(['x', 'a', 'b', 'both', 'codes', 'packed'].index(name))
  if name == 'x':
    return jax.random.normal(key, (n,))
  if name in ('codes', 'packed'):
    found = jax.random.bits(key, (n,), jnp.uint8) >> (8 - int(bits[0]))
    return packing.pack(found, int(bits[0])) if name == 'packed' else found
  if name == 'both':
    return merging.merge(drawn('a', n, k), drawn('b', n, k), n)
  # One entry in each of k equal parts of the vector. Drawing k entries without
  # replacement is equally sparse, but would sort the whole vector.
  part = n // k
  indices = jnp.arange(k) * part + jax.random.randint(key, (k,), 0, part)
  return Sparse(jax.random.normal(key, (k,)), indices.astype(jnp.int32))


def measures(small: bool) -> Iterator[Measure]:
  """Yields all measures, those of 25.6 M entries first."""
  for n, k in SMALL if small else SIZES:
    for name in operations(1024, 8):
      yield Measure(
        {'n': n, 'k': k, 'what': name},
        lambda left, n=n, k=k, name=name: _operation(n, k, name, small),
      )
    if not small and importlib.util.find_spec('torch'):
      for what, of_numbers in TORCH.items():
        yield Measure(
          {'n': n, 'k': k, 'what': what},
          lambda left, n=n, k=k, of_numbers=of_numbers: _torch(
            n, k, of_numbers
          ),
        )
    for name in STEPS:
      yield Measure(
        {'n': n, 'k': k, 'what': f'step of {name}'},
        lambda left, n=n, k=k, name=name: _step(n, k, name, small),
      )


def _operation(n: int, k: int, name: str, small: bool) -> dict[str, Any]:
  function, *names = operations(n, k)[name]
  args = [drawn(argument, n, k) for argument in names]
  run = functools.cache(lambda times: slopes.repeated(function, times))
  call = lambda times: run(times)(*args)
  seconds = slopes.slope(call, FEW if small else slopes.enough(call))
  return {'seconds': seconds, 'reads_of': n}


def _step(n: int, k: int, name: str, small: bool) -> dict[str, Any]:
  """Times a step of all workers; each step continues from the last result."""
  workers = 2 if small else WORKERS
  strategy = resolve.strategy(resolve.strategy_config(name, density=k / n))
  grads = jax.random.normal(jax.random.key(0), (workers, n))
  program = stages.stepping(strategy, grads)
  steps = lambda times: [program.call() for _ in range(times)][-1]
  return {'seconds': slopes.slope(steps, 1), 'reads_of': workers * n}


def _torch(n: int, k: int, of_numbers: bool) -> dict[str, Any]:
  """Times PyTorch's selection, on its GPU if it has one.

  Args:
    n, k: entries, and how many of them are selected.
    of_numbers: whether it computes their magnitudes, and sorts its result.
  """
  import torch  # Only where it is installed.

  device = 'cuda' if torch.cuda.is_available() else 'cpu'
  x = torch.randn(n, device=device)
  magnitudes = x.abs()

  def runs(times):
    for _ in range(times):
      if of_numbers:
        torch.topk(x.abs(), k)
      else:
        torch.topk(magnitudes, k, sorted=False)
    if device == 'cuda':
      torch.cuda.synchronize()

  seconds = slopes.slope(runs, slopes.enough(runs))
  return {'seconds': seconds, 'reads_of': n, 'device': device}


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """Returns a row per operation: its time over one read; for a read, GB/s."""
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
    # A slope that noise has made negative cannot be the unit.
    ratio = median(line) / (copies * read[n]) if read.get(n, 0) > 0 else None
    found.append(
      {
        'n': n,
        'k': line['key']['k'],
        'what': what,
        'ms': f'{1e3 * median(line):.3f}',
        'reads': '' if ratio is None else f'{ratio:.2f}',
        'GB/s': f'{4e-9 * n / median(line):,.0f}'
        if what == 'read' and ratio
        else '',
        f'within {GOAL} reads': {True: 'yes', False: 'NO'}[ratio <= GOAL]
        if ratio and what in ('ascending', SEARCHING, 'largest')
        else '',
      }
    )
  return found
