"""The documentation: its code runs, and it is built without a warning."""

import html
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import gossipjax
from experiments.framework import strategy_pages, strategy_table
from gossipjax import compressors, models, network, triggers
from gossipjax.advice import known_file
from gossipjax.compressors import selections
from gossipjax.config import parts, resolve
from gossipjax.config.variants import variants
from gossipjax.tasks import named, shares
from gossipjax.training import momentum
from gossipjax.transforms import granularity, outer_optimizers, warmup

ROOT = pathlib.Path(__file__).parents[2]


def test_the_tutorial_runs_from_top_to_bottom(capsys):
  text = (ROOT / 'docs/tutorial.md').read_text()
  blocks, names = re.findall(r'```python\n(.*?)```', text, re.S), {}
  assert len(blocks) > 5
  for block in blocks:
    exec(compile(block, 'tutorial.md', 'exec'), names)
  assert 'topk' in capsys.readouterr().out
  sweep = dict(variants(names['sweep']))
  assert sweep['topk_10'].strategy.density == 0.1 and len(sweep) == 6
  for run in sweep.values():
    momentum.check(run.strategy, run.optimizer)


def ran_as_written(page: str, config: str, folder: pathlib.Path) -> str:
  """Saves a config of a page and returns what the command below it prints."""
  text = (ROOT / 'docs' / page).read_text()
  pattern = rf'    # {config}\n((?:    .*\n|\n)+?)    python (.*)'
  body, command = re.search(pattern, text).groups()
  (folder / config).write_text(textwrap.dedent(body))
  done = subprocess.run(
    [sys.executable, *command.split(), '--config.steps=20'],
    cwd=folder,
    env=os.environ | {'PYTHONPATH': str(ROOT)},
    text=True,
    capture_output=True,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


def test_a_strategy_in_a_folder_of_its_own_is_audited_as_written(tmp_path):
  text = (ROOT / 'docs/tutorial.md').read_text()
  blocks = re.findall(r'```python\n(.*?)```', text, re.S)
  module = next(block for block in blocks if 'def strategy()' in block)
  (tmp_path / 'mine.py').write_text(module)
  table = ran_as_written('tutorial.md', 'compare_mine.py', tmp_path)
  assert '| mine ' in table.partition('## Audit')[2]


def test_the_strategy_of_the_readme_obeys_the_contract(tmp_path):
  code = re.findall(
    r'```python\n(.*?)```', (ROOT / 'README.md').read_text(), re.S
  )
  for name in ('gossipjax', 'tests'):
    shutil.copytree(ROOT / name, tmp_path / name)
  shutil.copy(ROOT / 'pyproject.toml', tmp_path)
  (tmp_path / 'gossipjax/strategies/mine.py').write_text(code[-1])
  law = 'tests/laws/contract_test.py'
  done = subprocess.run(
    [sys.executable, '-m', 'pytest', law, '-n', '0', '-k', 'mine.gradients'],
    cwd=tmp_path,
    env=os.environ | {'PYTHONPATH': str(tmp_path)},
    text=True,
    capture_output=True,
  )
  assert done.returncode == 0, done.stdout
  assert '1 xfailed' in done.stdout  # By its NOT_CONSERVED.


def test_the_page_your_model_runs_from_top_to_bottom(capsys):
  text = (ROOT / 'docs/your_model.md').read_text()
  names: dict = {}
  for block in re.findall(r'```python\n(.*?)```', text, re.S):
    exec(compile(block, 'your_model.md', 'exec'), names)
  assert '| topk' in capsys.readouterr().out


def test_the_command_line_of_your_model_runs_as_written(tmp_path):
  text = (ROOT / 'docs/your_model.md').read_text()
  imports, *others = re.findall(r'```python\n(.*?)```', text, re.S)
  task = next(block for block in others if 'def line' in block)
  (tmp_path / 'my_tasks.py').write_text(
    imports.partition('class Net')[0] + task.partition('\nresult')[0]
  )
  printed = ran_as_written('your_model.md', 'my_config.py', tmp_path)
  assert 'local_sgd' in printed


@pytest.fixture(scope='module')
def site(tmp_path_factory):
  """The folder of the built pages."""
  folder = tmp_path_factory.mktemp('site')
  done = subprocess.run(
    [
      sys.executable,
      '-m',
      'mkdocs',
      'build',
      '--strict',
      '--quiet',
      f'--site-dir={folder}',
    ],
    cwd=ROOT,
    text=True,
    capture_output=True,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  return folder


def test_the_page_of_all_runs_and_its_script_are_built(site):
  assert 'runs-data' in (site / 'runs.html').read_text()
  assert (site / 'runs.js').exists()


def test_every_strategy_has_a_page_with_its_equation_and_bytes(site):
  for name in resolve.STRATEGIES:
    page = (site / f'strategies/{name}.html').read_text()
    text = html.unescape(re.sub(r'<[^>]*>', '', page))
    assert f'{name}.py' in text and 'per step' in text
    docstring = importlib.import_module(f'gossipjax.strategies.{name}').__doc__
    equation = next(x for x in docstring.splitlines() if x.startswith('  '))
    assert equation.strip() in text
    if name == 'gossip':
      assert '89.39 %' in text  # From experiments/results/fashion_mnist.


def test_a_page_is_of_its_strategy_and_shows_its_kept_results(monkeypatch):
  assert strategy_table.mean_bytes('gtopk').endswith('B')
  assert strategy_table.mean_bytes('none') == 'not measured'
  page = lambda name: re.sub(' +', ' ', strategy_pages.page(name))
  assert '`density` | `0.001`' in page('gtopk')
  (known,) = (
    run
    for run in known_file.kept()
    if (run.table, run.strategy) == ('fashion-dense', 'power_sgd')
  )
  both = f'| {100 * known.value:.2f} % | {100 * known.dense:.2f} % |'
  assert f'(fashion-dense) {both}' in page('power_sgd')
  monkeypatch.setattr(known_file, 'kept', list)
  assert 'in no table' in page('power_sgd')


def test_pages_load_nothing_from_other_hosts(site):
  for page in site.rglob('*.html'):
    loaded = re.findall(
      r'<(?:script|link|img)[^>]*(?:src|href)="(http[^"]*)"', page.read_text()
    )
    assert not loaded, page


@pytest.mark.parametrize(
  'key, built_in',
  [
    ('task.name', named.TASKS),
    ('task.model', models.IMAGES),
    ('task.model', models.TEXT),
    ('split.name', shares.SPLITS),
    ('link', network.PRESETS),
    ('topology', parts.topologies()),
    ('selection', parts.PARTS[selections.Selection]),
    ('granularity', parts.PARTS[granularity.Granularity]),
    ('warmup', parts.PARTS[warmup.Warmup]),
    ('compressor', parts.PARTS[compressors.Compressor]),
    ('trigger', parts.PARTS[triggers.Trigger]),
    ('outer', parts.PARTS[outer_optimizers.OuterOptimizer]),
  ],
)
def test_the_index_names_every_built_in_value_of_a_key(key, built_in):
  page = (ROOT / 'docs/index.md').read_text()
  rows = [line for line in page.splitlines() if f'| `{key}`' in line]
  listed = [{*re.findall('`([a-z0-9_]+)`', row.split('|')[3])} for row in rows]
  assert {*built_in} in listed


def test_the_index_names_the_public_python_api():
  page = (ROOT / 'docs/index.md').read_text().split('## From Python')[1]
  listed = {*re.findall('`([A-Za-z_]+)`', page.split('##')[0])}
  assert gossipjax._PUBLIC.keys() <= listed <= {*dir(gossipjax)}
  assert {*resolve.STRATEGIES} < {*dir(gossipjax)}
