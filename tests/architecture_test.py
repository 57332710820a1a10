"""Rules about the code itself, so that nobody has to remember them."""

import ast
import importlib
import inspect
import itertools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / 'gossipjax'
FILES = sorted(PACKAGE.rglob('*.py'))
STRATEGIES = [path for path in FILES if path.parent.name == 'strategies'
              and path.name != '__init__.py']

# A module may import from the layers before its own, and from its own folder.
# What is in no layer lies above them all: experiments in the widest sense.
LAYERS = (
    {'refusal'},
    {'traffic', 'topology', 'compressors', 'data', 'models', 'pieces'},
    {'collectives', 'network'},
    {'aggregator', 'layered', 'sharded', 'spmd'},
    {'apart', 'bucketed', 'momentum', 'packed', 'triggers'},
    {'strategies', 'worker'},
)
COLLECTIVES = {
    'all_gather', 'all_gather_reduced', 'all_to_all', 'pbroadcast', 'pgather',
    'pmax', 'pmean', 'pmin', 'ppermute', 'pshuffle', 'psum', 'psum_scatter',
    'pswapaxes', 'ragged_all_to_all', 'reduce_scatter', 'unreduced_psum'}
EMPTY_NAMES = {'base', 'common', 'core', 'helpers', 'lib', 'manager', 'misc',
               'registry', 'tools', 'util', 'utils'}
# Longer than 200 lines, and why.
LONG = {'collectives.py': 'Bytes move in one file.'}

over_files = pytest.mark.parametrize(
    'path', FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
over_strategies = pytest.mark.parametrize(
    'path', STRATEGIES, ids=lambda path: path.stem)


def parsed(path):
  return ast.parse(path.read_text())


def imports(path) -> set[str]:
  """Modules of this package that a file imports, such as 'data.files'."""
  found = set()
  for node in ast.walk(parsed(path)):
    if isinstance(node, ast.ImportFrom):
      assert not node.level, f'{path} imports relatively'
      module = node.module.split('.')
      for name in node.names:
        if module == ['gossipjax']:
          found.add(name.name)
        elif module[0] == 'gossipjax':
          found.add('.'.join(module[1:]))
    elif isinstance(node, ast.Import):
      found |= {name.name.partition('.')[2] for name in node.names
                if name.name.split('.')[0] == 'gossipjax'}
  return found


def collectives_in(tree) -> list[str]:
  """Names of JAX's collectives: `lax.psum`, `from jax.lax import psum`."""
  found = []
  for node in ast.walk(tree):
    if isinstance(node, ast.Attribute) and node.attr in COLLECTIVES:
      owner = ast.unparse(node.value)
      if owner.split('.')[-1] in ('lax', 'parallel'):
        found.append(f'{owner}.{node.attr}')
    elif isinstance(node, ast.ImportFrom) and (node.module or '').startswith(
        'jax'):
      found += [name.name for name in node.names if name.name in COLLECTIVES]
  return found


def top(path) -> str:
  """The first name of a module below the package."""
  return path.relative_to(PACKAGE).with_suffix('').parts[0]


@over_files
def test_bytes_move_in_collectives_only(path):
  if path.name != 'collectives.py':
    assert not collectives_in(parsed(path)), 'This would go unaccounted.'


def test_every_way_to_import_a_collective_is_seen():
  for line in ('lax.psum(x)', 'jax.lax.ppermute(x)', 'f = lax.all_gather',
               'from jax.lax import psum', 'from jax.lax import pmean as m',
               'jax.lax.parallel.psum_scatter(x)'):
    assert collectives_in(ast.parse(line)), line
  assert not collectives_in(ast.parse('collectives.all_gather(x); lax.scan'))


@over_files
def test_dependencies_run_one_way(path):
  mine = top(path)
  before = {mine}.union(*itertools.takewhile(
      lambda layer: mine not in layer, LAYERS))
  if mine in set().union(*LAYERS):
    assert {module.split('.')[0] for module in imports(path)} <= before


@over_files
def test_a_name_says_what_is_in_a_file(path):
  assert not EMPTY_NAMES & {*path.relative_to(PACKAGE).with_suffix('').parts}


@over_files
def test_files_are_small(path):
  lines = len(path.read_text().splitlines())
  assert lines <= (130 if path in STRATEGIES else 200) or path.name in LONG


@over_files
def test_functions_are_small(path):
  long = [node.name for node in ast.walk(parsed(path))
          if isinstance(node, ast.FunctionDef)
          and node.end_lineno - node.lineno >= 45]
  assert not long


@over_files
def test_a_file_opens_with_what_it_is(path):
  assert ast.get_docstring(parsed(path))


def test_run_py_is_small():
  assert len((ROOT / 'run.py').read_text().splitlines()) <= 60


@over_strategies
def test_a_strategy_opens_with_its_equation_and_its_source(path):
  lines = ast.get_docstring(parsed(path), clean=False).splitlines()
  equation = [i for i, line in enumerate(lines)
              if re.match(r'  +\S.*(<-|=|>)', line)]
  source = [i for i, line in enumerate(lines)
            if re.search(r'\b(19|20)\d\d\b', line)]
  assert equation, 'There is no indented line with <-, = or >.'
  assert source and source[-1] > equation[0], 'Who published it, and when?'


@over_strategies
def test_a_strategy_has_one_way_in_with_types_and_defaults(path):
  module = importlib.import_module(f'gossipjax.strategies.{path.stem}')
  signature = inspect.signature(module.strategy)
  assert signature.return_annotation is module.Strategy
  for parameter in signature.parameters.values():
    assert parameter.annotation is not parameter.empty, parameter
    assert parameter.default is not parameter.empty, parameter
  assert module.strategy.__doc__ or not signature.parameters
