"""The installed wheel has all that users run, also outside the checkout."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

from gossipjax.errors import EXTRAS

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = """
from gossipjax.config import defaults, resolve


def get_config():
  config = defaults.get_config()
  config.update(workers=2, steps=4, log_every=2, eval_every=4)
  config.variants = defaults.variants(
    dense='all_reduce', sparse=resolve.strategy_config('topk', density=0.1)
  )
  return config
"""
# flax imports rich itself, so rich cannot be missing.
BLOCKED = sorted({*EXTRAS['report']} - {'rich'})
WITHOUT = f'import sys; sys.modules.update(dict.fromkeys({BLOCKED})); '
BLOCK = f'{WITHOUT}from gossipjax.__main__ import main; main(sys.argv[1:])'


def ended(python: pathlib.Path, folder: pathlib.Path, *words: str):
  """Runs `python WORDS` in a folder outside the checkout; compiles quickly."""
  hidden = ('NPROC', 'PYTHONPATH')
  shown = {k: v for k, v in os.environ.items() if k not in hidden}
  return subprocess.run(
    [python, *words],
    cwd=folder,
    env=shown | {'JAX_DISABLE_MOST_OPTIMIZATIONS': '1'},
    text=True,
    capture_output=True,
  )


@pytest.fixture(scope='module')
def python(tmp_path_factory) -> pathlib.Path:
  """The interpreter of an environment into which the wheel was installed.

  Its dependencies are those of the running environment.
  """
  folder = tmp_path_factory.mktemp('install')
  source = folder / 'source'
  shutil.copytree(
    ROOT / 'gossipjax',
    source / 'gossipjax',
    ignore=shutil.ignore_patterns('__pycache__'),
  )
  for name in ('pyproject.toml', 'README.md', 'LICENSE'):
    shutil.copy(ROOT / name, source)
  pip = [sys.executable, '-m', 'pip', '-q']
  subprocess.run(
    [*pip, 'wheel', '--no-deps', '--no-build-isolation', '-w', folder, source],
    check=True,
  )
  shutil.rmtree(source)
  subprocess.run(
    [sys.executable, '-m', 'venv', '--without-pip', folder / 'venv'], check=True
  )
  found = folder / 'venv/bin/python'
  (wheel,) = folder.glob('*.whl')
  subprocess.run(
    [*pip, '--python', found, 'install', '--no-deps', '--no-index', wheel],
    check=True,
  )
  (packages,) = (folder / 'venv').glob('lib/*/site-packages')
  dependencies = sysconfig.get_path('purelib')
  (packages / 'dependencies.pth').write_text(f'{dependencies}\n')
  return found


@pytest.fixture(scope='module')
def trained(python, tmp_path_factory) -> pathlib.Path:
  """A folder with my_config.py and `out`, the workdir of a run of it."""
  folder = tmp_path_factory.mktemp('elsewhere')
  (folder / 'my_config.py').write_text(CONFIG)
  run = ended(
    python,
    folder,
    *('-m', 'gossipjax', 'run', '--config=my_config.py', '--workdir=out'),
  )
  assert run.returncode == 0, run.stderr
  assert '| sparse |' in run.stdout
  return folder


def test_the_installed_wheel_is_imported(python, tmp_path):
  where = ended(
    python, tmp_path, '-c', 'import gossipjax; print(gossipjax.__file__)'
  )
  assert where.stdout.startswith(str(python.parents[1])), where


def test_a_run_writes_its_table_figures_and_report(trained):
  for name in ('summary.json', 'comparison.md', 'test_accuracy.png'):
    assert (trained / 'out' / name).stat().st_size, name
  assert (trained / 'out' / 'report.html').stat().st_size > 1e6


def test_report_restores_deleted_files_and_prints_the_table(trained, python):
  file = trained / 'out' / 'comparison.md'
  table = file.read_text()
  for name in ('comparison.md', 'test_accuracy.png', 'report.html'):
    (trained / 'out' / name).unlink()
  again = ended(python, trained, '-m', 'gossipjax', 'report', 'out')
  assert again.returncode == 0, again.stderr
  assert file.read_text() == table and table in again.stdout
  assert (trained / 'out' / 'report.html').stat().st_size > 1e6


@pytest.mark.parametrize(
  'command', ['run', 'advise', 'tune', 'report', 'launch']
)
def test_every_command_has_help(python, tmp_path, command):
  shown = ended(python, tmp_path, '-m', 'gossipjax', command, '--help')
  assert shown.returncode == 0, shown.stderr
  assert f'gossipjax {command}' in shown.stdout


def test_the_error_for_a_missing_config_names_run_help(python, tmp_path):
  run = ended(python, tmp_path, '-m', 'gossipjax', 'run')
  assert run.returncode == 2 and run.stderr.count('\n') == 1, run.stderr
  assert 'run --help' in run.stderr


def test_the_error_for_an_unknown_command_names_the_nearest(python, tmp_path):
  run = ended(python, tmp_path, '-m', 'gossipjax', 'tun')
  assert run.returncode == 2 and "'tune'" in run.stderr


def test_without_extras_it_trains_and_names_missing_packages(python, tmp_path):
  (tmp_path / 'my_config.py').write_text(CONFIG)
  words = ('run', '--config=my_config.py', '--workdir=out')
  run = ended(python, tmp_path, '-c', BLOCK, *words)
  assert run.returncode == 0, run.stderr
  first = run.stderr.splitlines()[0]  # Before training, not after it.
  assert "pip install 'gossipjax[report]'" in first
  assert all(name in first for name in BLOCKED)
  assert '| sparse |' in run.stdout
  files = {path.name for path in (tmp_path / 'out').iterdir()}
  assert {'summary.json', 'comparison.md', 'dense', 'sparse'} <= files
  assert not {name for name in files if name.endswith(('png', 'html'))}
  strategy = ended(
    python, tmp_path, '-c', f'{WITHOUT}import gossipjax as gj; gj.topk()'
  )
  assert strategy.returncode == 0, strategy.stderr
  report = ended(python, tmp_path, '-c', BLOCK, 'report', 'out')
  assert report.returncode == 2 and report.stderr.count('\n') == 1
  assert 'gossipjax[report]' in report.stderr
