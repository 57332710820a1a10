"""Shared by all tests: devices, compiled programs, tiers, cores, memory."""

import gc
import math
import os
import pathlib
import re
import time
from importlib import metadata

# Set before jax is imported, and for all child processes: a program is compiled
# once, by the test or process that needs it first.
ROOT = pathlib.Path(__file__).parents[1]
for name, value in {
  'JAX_COMPILATION_CACHE_DIR': str(ROOT / 'build/compiled'),
  'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
  'JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES': '-1',
}.items():
  os.environ.setdefault(name, value)
# The older way to emit loops compiles a third faster. An unknown flag ends the
# process, so it is set only for versions that are known to have it.
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
from gossipjax.distributed import gpus
from gossipjax.errors import UserError

# Tracing makes many objects and few cycles. Looking for cycles after every 700
# new objects, Python's default, takes 8 % of the time of the laws.
gc.set_threshold(100_000, 20, 100)
GIB = 2**30
STARTED = time.monotonic()
LATE = 'an exhaustive test after'  # Start of the skip reason of late tests.
DEFAULT_TIER = 'not system and not exhaustive'  # As in pyproject.toml.

# Set it to 'cuda' to run the laws on a GPU, except those that need several.
PLATFORM = os.environ.get('GOSSIPJAX_TEST_PLATFORM', 'cpu')
jax.config.update('jax_platforms', PLATFORM)
if PLATFORM != 'cpu':
  # By default float32 products have 10 mantissa bits.
  jax.config.update('jax_default_matmul_precision', 'highest')
  gpus.share_memory()  # Of several workers.
jax.config.update('jax_numpy_rank_promotion', 'raise')
executors.emulate(8)  # Every strategy also runs on a real mesh.


def pytest_xdist_auto_num_workers() -> int:
  """One worker per usable core, and at most one per 3 GiB of memory."""
  memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
  cores = (
    len(os.sched_getaffinity(0))
    if hasattr(os, 'sched_getaffinity')
    else os.cpu_count() or 1
  )
  return max(1, min(cores, memory // (3 * GIB)))


# These never run at once: their network namespaces have the same names.
TESTBED = ('tests/system/testbed_test.py', 'tests/system/engine_nodes_test.py')


def unit(nodeid: str) -> str:
  """Names the group of tests that one worker runs in a row.

  For laws: all tests of one strategy (the last part of the test's id), since
  they share compiled programs. For others: a file, because of its
  fixtures, or two files that must not run at once.
  """
  file, _, test = nodeid.partition('::')
  if file in TESTBED:
    return TESTBED[0]
  if file.startswith('tests/laws/') and '[' in test:
    return file + '::' + re.split(r'[\[-]', test.removesuffix(']'))[-1]
  return file


class ByUnit(LoadScopeScheduling):
  """Distributes units over workers, in the order of collection."""

  _split_scope = staticmethod(unit)


def pytest_xdist_make_scheduler(config, log):
  """Replaces the scheduler that --dist names."""
  return ByUnit(config, log)


def pytest_configure(config) -> None:
  """Runs tests of every tier where paths are named on the command line."""
  if hasattr(config, 'workerinput'):
    config.option.markexpr = config.workerinput['markexpr']
    return
  named = config.args_source is pytest.Config.ArgsSource.ARGS
  if named and config.option.markexpr == DEFAULT_TIER:
    config.option.markexpr = ''


def pytest_addoption(parser) -> None:
  """Adds an option that limits the suite's time, so that CI aborts nothing."""
  parser.addoption(
    '--exhaustive-minutes',
    type=float,
    default=math.inf,
    help='exhaustive tests that would start later are skipped, and counted',
  )


def pytest_runtest_setup(item) -> None:
  """Skips exhaustive tests that start too late; other tests always run."""
  minutes = item.config.option.exhaustive_minutes
  late = time.monotonic() - STARTED > 60 * minutes
  if late and item.get_closest_marker('exhaustive'):
    pytest.skip(f'{LATE} {minutes:g} minutes')


def pytest_terminal_summary(terminalreporter) -> None:
  """Reports that a suite is incomplete, in a line that no option hides."""
  skipped = terminalreporter.stats.get('skipped', [])
  if late := sum(LATE in str(report.longrepr) for report in skipped):
    terminalreporter.write_line(
      f'{late} exhaustive tests were not run: --exhaustive-minutes was over.'
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
  """Lets xdist's workers run the same tiers as their controller."""
  node.workerinput['markexpr'] = node.config.option.markexpr


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item) -> None:
  """Puts tests of tests/system into the tier of that name."""
  in_system = item.nodeid.startswith('tests/system/')
  if in_system and not item.get_closest_marker('smoke'):
    item.add_marker('system')


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items) -> None:
  """Keeps units together; small units come last and fill idle workers."""
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
  """Skips a test that needs more devices than are there, unless emulated."""
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
  """Lets tests share compiled programs as long as they fit in memory."""
  yield
  MEMORY.bound()


def optimise_little(value: bool) -> None:
  """Sets how programs are compiled from here on.

  JAX's cache of compiled programs does not distinguish the two kinds, and a
  test would run what earlier tests left there: its bits would differ after
  `Memory.bound`. The profile version, which has no other effect here, belongs
  to the key of that cache.
  """
  jax.config.update('jax_disable_most_optimizations', value)
  jax.config.update('jax_xla_profile_version', int(value))


@pytest.fixture(scope='module')
def compile_quickly():
  """Compiles in two thirds of the time, for tests that run few steps."""
  optimise_little(True)
  yield
  optimise_little(False)


@pytest.fixture
def compile_as_always(compile_quickly):
  """Compiles as outside of tests, for a test in a module that does not."""
  optimise_little(False)
  yield
  optimise_little(True)
