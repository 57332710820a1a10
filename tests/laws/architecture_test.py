"""Rules about the source code: layers, sizes, names and docstrings."""

import ast
import importlib
import inspect
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / 'gossipjax'
OURS = ('gossipjax', 'experiments', 'benchmarks')
FILES = sorted(p for f in OURS[:2] for p in (ROOT / f).rglob('*.py'))
STRATEGIES = [
  path
  for path in FILES
  if path.parent.name == 'strategies' and path.name != '__init__.py'
]

# A unit (a package, or a single module) may import from the layers before its
# own and from itself. A module is in the unit whose longest name matches it.
LAYERS = (
  {'gossipjax.devices.platform'},
  {
    'gossipjax.errors',
    'gossipjax.flatten',
    'gossipjax.traffic',
  },
  {'gossipjax.config.ranges', 'gossipjax.norms'},
  {
    'gossipjax.topology',
    'gossipjax.network',
    'gossipjax.simulation.cluster_checks',
    'gossipjax.simulation.trace',
    'gossipjax.compressors',
  },
  {
    'gossipjax.data',
    'gossipjax.models',
    'gossipjax.simulation.cluster',
  },
  {
    'gossipjax.collectives',
    'gossipjax.devices.repeated_arrays',
    'gossipjax.devices.worker_devices',
  },
  {'gossipjax.devices.spmd'},
  {'gossipjax.aggregator', 'gossipjax.executors', 'gossipjax.servers'},
  {'gossipjax.async_exchange', 'gossipjax.transforms', 'gossipjax.triggers'},
  {
    'gossipjax.strategies',
    'gossipjax.local_step',
    'gossipjax.devices',
    'gossipjax.tasks',
  },
  {'gossipjax.audit', 'gossipjax.config', 'gossipjax.distributed'},
  {'gossipjax.profiling'},
  {'gossipjax.training'},
  {
    'gossipjax.simulation',
    'gossipjax.results',
    'gossipjax.commands.file_errors',
    'gossipjax.commands.streams',
  },
  {'gossipjax.commands.console', 'gossipjax.engine'},
  {'gossipjax.comparison'},
  {'gossipjax.tuning'},
  {'gossipjax.advice'},
  {'gossipjax.commands', 'gossipjax.__main__', 'gossipjax'},
  {'experiments.framework'},
  {'experiments.testbed'},
  {'experiments'},  # The claims.
)
# These units include all modules below them; the others are single modules.
PREFIXES = {unit for units in LAYERS for unit in units} - {
  'gossipjax',
  'experiments',
}
# No docstring lists the strategies: their directory is the list.
UNMAPPED = {('strategies', 'gossipjax')}
COLLECTIVES = {
  'all_gather',
  'all_gather_reduced',
  'all_to_all',
  'pbroadcast',
  'pgather',
  'pmax',
  'pmean',
  'pmin',
  'ppermute',
  'pshuffle',
  'psum',
  'psum_scatter',
  'pswapaxes',
  'ragged_all_to_all',
  'reduce_scatter',
  'unreduced_psum',
}
VAGUE_NAMES = {
  'base',
  'common',
  'core',
  'helpers',
  'lib',
  'manager',
  'misc',
  'registry',
  'tools',
  'util',
  'utils',
}

over_files = pytest.mark.parametrize(
  'path', FILES, ids=lambda path: str(path.relative_to(ROOT))
)
over_strategies = pytest.mark.parametrize(
  'path', STRATEGIES, ids=lambda path: path.stem
)


def parsed(path):
  return ast.parse(path.read_text())


def module(path) -> str:
  """The dotted name of a file's module or package."""
  parts = path.relative_to(ROOT).with_suffix('').parts
  return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


MODULES = {module(path) for path in FILES}


def imports(path) -> set[str]:
  """This repository's modules that a file imports."""
  found = set()
  for node in ast.walk(parsed(path)):
    if isinstance(node, ast.ImportFrom):
      assert not node.level, f'{path} imports relatively'
      for name in node.names:
        full = f'{node.module}.{name.name}'
        found.add(full if full in MODULES else node.module)
    elif isinstance(node, ast.Import):
      found |= {name.name for name in node.names}
  return {name for name in found if name.split('.')[0] in OURS}


def layer(name: str) -> tuple[int, str]:
  """The layer of a module, and the unit that it is in."""
  units = {unit: i for i, units in enumerate(LAYERS) for unit in units}
  fits = [
    unit
    for unit in units
    if f'{name}.'.startswith(f'{unit}.') and (unit in PREFIXES or unit == name)
  ]
  if re.fullmatch(r'experiments\.\w+', name):
    fits = fits or ['experiments']  # A claim.
  assert fits, f'{name} is in no layer; say in LAYERS where it belongs.'
  unit = max(fits, key=len)
  return units[unit], unit


def test_a_module_outside_all_layers_is_detected():
  for name in ('experiments.new.file', 'gossipjax.new', 'gossipjax.new.file'):
    with pytest.raises(AssertionError, match='is in no layer'):
      layer(name)
  assert layer('experiments.hylo')[1] == 'experiments'


@pytest.mark.parametrize(
  'path',
  sorted((ROOT / 'benchmarks').rglob('*.py')),
  ids=lambda path: str(path.relative_to(ROOT)),
)
def test_names_that_a_benchmark_imports_from_this_repository_exist(path):
  for node in ast.walk(parsed(path)):
    if isinstance(node, ast.ImportFrom) and node.module.startswith(OURS):
      source = importlib.import_module(node.module)
      for name in node.names:
        if not hasattr(source, name.name):
          importlib.import_module(f'{node.module}.{name.name}')


def collectives_in(tree) -> list[str]:
  """Names of JAX's collectives: `lax.psum`, `from jax.lax import psum`."""
  found = []
  for node in ast.walk(tree):
    if isinstance(node, ast.Attribute) and node.attr in COLLECTIVES:
      owner = ast.unparse(node.value)
      if owner.split('.')[-1] in ('lax', 'parallel'):
        found.append(f'{owner}.{node.attr}')
    elif isinstance(node, ast.ImportFrom) and (node.module or '').startswith(
      'jax'
    ):
      found += [name.name for name in node.names if name.name in COLLECTIVES]
  return found


@over_files
def test_only_the_collectives_package_calls_jax_collectives(path):
  if path.parent.name != 'collectives':
    assert not collectives_in(parsed(path)), 'This would go unaccounted.'


def test_every_way_to_import_a_collective_is_detected():
  for line in (
    'lax.psum(x)',
    'jax.lax.ppermute(x)',
    'f = lax.all_gather',
    'from jax.lax import psum',
    'from jax.lax import pmean as m',
    'jax.lax.parallel.psum_scatter(x)',
  ):
    assert collectives_in(ast.parse(line)), line
  assert not collectives_in(ast.parse('collectives.all_gather(x); lax.scan'))


@over_files
def test_dependencies_run_one_way(path):
  mine, unit = layer(module(path))
  for other in imports(path):
    theirs, their_unit = layer(other)
    assert theirs < mine or their_unit == unit, f'{other} lies above.'


def test_the_package_has_few_top_level_modules():
  top = {path.stem for path in PACKAGE.glob('*.py')}
  assert len(top) <= 12, sorted(top)


@pytest.mark.parametrize(
  'folder', sorted({path.parent for path in FILES}), ids=str
)
def test_the_docstring_of_a_package_lists_its_modules(folder):
  docstring = ast.get_docstring(parsed(folder / '__init__.py')) or ''
  if (folder.name, folder.parent.name) in UNMAPPED:
    return
  for path in folder.glob('*.py'):
    if not path.stem.startswith('__'):
      assert re.search(rf'^ *{path.stem}\b', docstring, re.M), path.stem


@over_files
def test_no_file_has_a_vague_name(path):
  assert not VAGUE_NAMES & {*path.relative_to(ROOT).with_suffix('').parts}


@over_files
def test_files_are_small(path):
  lines = len(path.read_text().splitlines())
  most = 130 if path in STRATEGIES else 200
  # A claim's file holds its studies, its verdict and its figure.
  most += 35 if path.parent == ROOT / 'experiments' else 0
  assert lines <= most


@over_files
def test_functions_are_small(path):
  # Without the signature: the formatter gives each parameter a line.
  long = [
    node.name
    for node in ast.walk(parsed(path))
    if isinstance(node, ast.FunctionDef)
    and node.end_lineno - node.body[0].lineno >= 44
  ]
  assert not long


@over_files
def test_a_file_has_a_docstring(path):
  assert ast.get_docstring(parsed(path))


def test_run_py_is_small():
  assert len((ROOT / 'run.py').read_text().splitlines()) <= 60


@over_strategies
def test_a_strategy_docstring_has_an_equation_and_then_its_source(path):
  lines = ast.get_docstring(parsed(path), clean=False).splitlines()
  equation = [
    i for i, line in enumerate(lines) if re.match(r'  +\S.*(<-|=|>)', line)
  ]
  source = [
    i for i, line in enumerate(lines) if re.search(r'\b(19|20)\d\d\b', line)
  ]
  assert equation, 'There is no indented line with <-, = or >.'
  assert source and source[-1] > equation[0], 'Who published it, and when?'


@over_strategies
def test_a_strategy_function_has_types_and_defaults(path):
  module = importlib.import_module(f'gossipjax.strategies.{path.stem}')
  signature = inspect.signature(module.strategy)
  assert signature.return_annotation is module.Strategy
  for parameter in signature.parameters.values():
    assert parameter.annotation is not parameter.empty, parameter
    assert parameter.default is not parameter.empty, parameter
  assert module.strategy.__doc__ or not signature.parameters
