"""Checks the laws, the executors and the golden figures on this backend.

Golden figures are those of a CPU in float32. This backend is compared with them
in three precisions of products, with the tolerances of
tests/laws/golden_test.py: float32 throughout, tensorfloat32 (the default for
float32 products on tensor cores), and bfloat16 (`config.compute_dtype`). Bytes
must be equal in float32; in lower precisions they may differ for strategies
whose traffic depends on the gradients.
"""

import ast
import json
from collections.abc import Iterator
from typing import Any

import jax

from benchmarks.accelerator import compiled, pytest_runs
from benchmarks.accelerator.measures import Measure
from gossipjax.advice import step_traffic
from gossipjax.config import resolve
from tests.laws import audit_test, golden_test

# Strategies of the audit test, and two whose boxes or codes have own widths.
KINDS = (*audit_test.KINDS, 'ok_topk', 'qsgd')
LAWS = ('tests/laws/contract_test.py', 'tests/laws/executors_test.py')
FEW = ('any_number_of_workers', 'less_than_one')  # In names, for a rehearsal.
PROCESSES = 2  # Of pytest for a law; several laws are tested in parallel.
# Guessed time of a law, whose results are lost if it is cut off.
LEAST_S = 50.0


def measures(small: bool) -> Iterator[Measure]:
  """Yields the laws, which take longest, then the golden figures."""
  for law in _laws():
    if not small or (LAWS[1] in law and any(name in law for name in FEW)):
      yield Measure(
        {'tests': law}, lambda left, law=law: _law(law, small, left), LEAST_S
      )
  for name in ('all_reduce',) if small else resolve.STRATEGIES:
    yield _golden(name, 'float32')
  for name in ('topk',) if small else KINDS:
    for precision in ('tensorfloat32', 'bfloat16'):
      yield _golden(name, precision)


def _laws() -> Iterator[str]:
  """Yields the laws as pytest names them, such as a_test.py::test_law."""
  for file in LAWS:
    tree = ast.parse((pytest_runs.ROOT / file).read_text())
    for node in tree.body:
      if isinstance(node, ast.FunctionDef) and node.name.startswith('test_'):
        yield f'{file}::{node.name}'


def _golden(name: str, precision: str) -> Measure:
  return Measure(
    {'golden': name, 'precision': precision},
    lambda left: _compare(name, precision),
  )


def _compare(name: str, precision: str) -> dict[str, Any]:
  """Compares a strategy's golden figures with those of this backend."""
  expected = json.loads(golden_test.GOLDEN.read_text())[name]
  # The default is what users get, tensorfloat32 on tensor cores.
  products = 'default' if precision == 'tensorfloat32' else 'highest'
  with jax.default_matmul_precision(products):
    measured = golden_test.measure(
      name, 'bfloat16' if precision == 'bfloat16' else ''
    )
  gap = measured['train_loss'] / expected['train_loss'] - 1
  counts = ('arguments', 'bytes_sent', 'messages')
  same = all(measured[key] == expected[key] for key in counts)
  tolerance = golden_test.TOLERANCES[precision]
  return {
    'relative_difference': gap,
    'tolerance': tolerance,
    'bytes_are_equal': same,
    'holds': abs(gap) <= tolerance
    and (same or (precision != 'float32' and not _by_shapes(name))),
  }


def _by_shapes(name: str) -> bool:
  """Whether the traffic of a strategy depends on shapes alone."""
  strategy = resolve.strategy(resolve.strategy_config(name))
  params = {
    name: jax.ShapeDtypeStruct(shape, 'f4')
    for name, shape in compiled.SHAPES.items()
  }
  return step_traffic.per_step(strategy, params, 2, [0], sample=None).exact


def _law(law: str, small: bool, left: float) -> dict[str, Any]:
  """Tests a law on this backend, with all strategies; returns the outcome."""
  platform = jax.default_backend().replace('gpu', 'cuda')
  return pytest_runs.outcome(
    pytest_runs.command(law, 1 if small else PROCESSES),
    {'GOSSIPJAX_TEST_PLATFORM': platform},
    left,
  )


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
  """A row for each precision, and for each law."""
  figures = [
    _of_figures(
      precision,
      {
        line['key']['golden']: line['result']
        for line in lines
        if line['key'].get('precision') == precision
      },
    )
    for precision in golden_test.TOLERANCES
  ]
  tests = [
    {
      'what': line['key']['tests'],
      'made': (made := line['result']['tests'] - line['result']['skipped']),
      'hold': made - len(line['result']['failed']),
      'worst': f'{line["result"]["skipped"]} skipped',
      'that fail': ', '.join(line['result']['failed']),
    }
    for line in lines
    if 'tests' in line['key']
  ]
  return [*filter(None, figures), *tests]


def _of_figures(precision: str, checks: dict[str, dict]) -> dict[str, Any]:
  """The row of a precision; {} if nothing was measured in it."""
  if not checks:
    return {}
  gaps = {name: row['relative_difference'] for name, row in checks.items()}
  worst = max(gaps, key=lambda name: abs(gaps[name]))
  return {
    'what': f'golden figures, {precision}',
    'made': len(checks),
    'hold': sum(row['holds'] for row in checks.values()),
    'worst': f'{worst} {gaps[worst]:+.1e}',
    'that fail': ', '.join(n for n, row in checks.items() if not row['holds']),
  }
