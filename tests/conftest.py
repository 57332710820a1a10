"""What all tests share: devices, compiled programs, tiers, cores and memory."""

import gc
import math
import os
import pathlib
import re
import time
from importlib import metadata

# Before jax is imported, and for all child processes: a program is compiled
# once, by whichever test or process meets it first.
ROOT = pathlib.Path(__file__).parents[1]
for name, value in {
  'JAX_COMPILATION_CACHE_DIR': str(ROOT / 'build/compiled'),
  'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
  'JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES': '-1',
}.items():
  os.environ.setdefault(name, value)
# The older way to emit loops compiles a third faster. An unknown flag ends the
# process, therefore only for versions that are known to have it.
if metadata.version('jaxlib').startswith('0.10.'):
  os.environ.setdefault(
    'XLA_FLAGS',
    '--xla_cpu_use_fusion_emitters=false '
    '--xla_cpu_parallel_codegen_split_count=1',
  )

import jax
import pytest
from xdist.scheduler import LoadScopeScheduling

from gossipjax import executors
from gossipjax.errors import UserError

# Tracing makes many objects and few cycles: to look for those after every 700
# new objects, as Python does, takes 8 % of the laws' seconds.
gc.set_threshold(100_000, 20, 100)
GIB = 2**30
STARTED = time.monotonic()
LATE = 'an exhaustive test after'  # How its reason to be skipped begins.
DEFAULT_TIER = 'not system and not exhaustive'  # As in pyproject.toml.

# Another one, cuda, for the laws that need no device per worker.
PLATFORM = os.environ.get('GOSSIPJAX_TEST_PLATFORM', 'cpu')
jax.config.update('jax_platforms', PLATFORM)
if PLATFORM != 'cpu':  # Else products of float32 have 10 bits of mantissa.
  jax.config.update('jax_default_matmul_precision', 'highest')
jax.config.update('jax_numpy_rank_promotion', 'raise')
executors.emulate(8)  # Every strategy also runs on a real mesh.


def pytest_xdist_auto_num_workers() -> int:
  """A worker per core that this process may use, and 3 GiB for each."""
  memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
  cores = (
    len(os.sched_getaffinity(0))
    if hasattr(os, 'sched_getaffinity')
    else os.cpu_count() or 1
  )
  return max(1, min(cores, memory // (3 * GIB)))


# Their network namespaces have the same names.
TESTBED = ('tests/system/testbed_test.py', 'tests/system/engine_nodes_test.py')


def unit(nodeid: str) -> str:
  """The tests that one worker runs in a row.

  Laws: all tests of one strategy (the last part of the test's id), because they
  judge the same compiled programs. Others: a file, because of its fixtures, or
  two files that must not run at once.
  """
  file, _, test = nodeid.partition('::')
  if file in TESTBED:
    return TESTBED[0]
  if file.startswith('tests/laws/') and '[' in test:
    return file + '::' + re.split(r'[\[-]', test.removesuffix(']'))[-1]
  return file


class ByUnit(LoadScopeScheduling):
  """Hands out units to workers, in the order of collection."""

  _split_scope = staticmethod(unit)


def pytest_xdist_make_scheduler(config, log):
  """Replaces the one that --dist names."""
  return ByUnit(config, log)


def pytest_configure(config) -> None:
  """Paths on the command line mean every test there, of any tier."""
  if hasattr(config, 'workerinput'):
    config.option.markexpr = config.workerinput['markexpr']
    return
  named = config.args_source is pytest.Config.ArgsSource.ARGS
  if named and config.option.markexpr == DEFAULT_TIER:
    config.option.markexpr = ''


def pytest_addoption(parser) -> None:
  """Bounds the whole suite on a slow machine, where CI would be cut off."""
  parser.addoption(
    '--exhaustive-minutes',
    type=float,
    default=math.inf,
    help='exhaustive tests that would start later are skipped, and counted',
  )


def pytest_runtest_setup(item) -> None:
  """Other tests run however late it is."""
  minutes = item.config.option.exhaustive_minutes
  late = time.monotonic() - STARTED > 60 * minutes
  if late and item.get_closest_marker('exhaustive'):
    pytest.skip(f'{LATE} {minutes:g} minutes')


def pytest_terminal_summary(terminalreporter) -> None:
  """Says that a suite is incomplete, in a line that no option hides."""
  skipped = terminalreporter.stats.get('skipped', [])
  if late := sum(LATE in str(report.longrepr) for report in skipped):
    terminalreporter.write_line(
      f'{late} exhaustive tests were not run: --exhaustive-minutes was over.'
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
  """xdist's workers run the tiers of their controller."""
  node.workerinput['markexpr'] = node.config.option.markexpr


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item) -> None:
  """Puts tests of tests/system into the tier of that name."""
  in_system = item.nodeid.startswith('tests/system/')
  if in_system and not item.get_closest_marker('smoke'):
    item.add_marker('system')


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items) -> None:
  """Keeps units together; small units come last and fill what is left."""
  first = {}
  for item in items:
    first.setdefault(unit(item.nodeid), len(first))
  items.sort(
    key=lambda item: (
      '::' in unit(item.nodeid),
      first[unit(item.nodeid)],
    )
  )


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
  """Elsewhere than on emulated devices there may be too few for a test."""
  try:
    return (yield)
  except UserError as error:
    if PLATFORM != 'cpu' and 'devices=' in str(error):
      pytest.skip(str(error))
    raise


def resident() -> int:
  """Bytes of memory that this process occupies; 0 where /proc is missing."""
  statm = pathlib.Path('/proc/self/statm')
  pages = int(statm.read_text().split()[1]) if statm.exists() else 0
  return pages * os.sysconf('SC_PAGE_SIZE')


class Memory:
  """Drops compiled programs when they occupy more than 1 GiB."""

  def __init__(self):
    self.least = resident()

  def bound(self) -> None:
    if resident() > self.least + GIB:
      jax.clear_caches()
      self.least = resident()


MEMORY = Memory()


@pytest.fixture(autouse=True)
def bounded_memory():
  """Compiled programs are shared between tests, as long as they fit."""
  yield
  MEMORY.bound()


@pytest.fixture(scope='module')
def compile_quickly():
  """Compiles in two thirds of the time, for tests that run few steps."""
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', False)
