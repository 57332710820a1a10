"""The notebooks, run from top to bottom on small runs made here."""

import base64
import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

from configs import quickstart
from gossipjax.comparison.compare import compare
from gossipjax.config import defaults
from tests.support import workdirs

NOTEBOOKS = pathlib.Path(__file__).parents[2] / 'notebooks'
PATHS = sorted(NOTEBOOKS.glob('*.ipynb'))


def figures(name: str, **parameters) -> list[bytes]:
  """Runs a notebook with other parameters; returns the PNGs that it draws."""
  notebook = nbformat.read(NOTEBOOKS / f'{name}.ipynb', as_version=4)
  (settings,) = (
    cell
    for cell in notebook.cells
    if 'parameters' in cell.metadata.get('tags', ())
  )
  settings.source += ''.join(f'\n{k} = {v!r}' for k, v in parameters.items())
  NotebookClient(
    notebook,
    timeout=300,
    kernel_name='python3',
    resources={'metadata': {'path': str(NOTEBOOKS.parent)}},
  ).execute()
  return [
    base64.b64decode(output.data['image/png'])
    for cell in notebook.cells
    if cell.cell_type == 'code'
    for output in cell.outputs
    if 'image/png' in output.get('data', ())
  ]


@pytest.fixture(scope='module')
def two_seeds(tmp_path_factory):
  folders = []
  for seed in (0, 1):
    config = quickstart.get_config()
    config.variants = defaults.variants(elastic='elastic', topk='topk')
    config.update(
      workers=2,
      steps=20,
      eval_every=10,
      log_every=10,
      seed=seed,
      checkpoint_every=0,
    )
    folders.append(tmp_path_factory.mktemp('runs') / f'seed{seed}')
    compare(config, folders[-1], audited=seed == 0)
  return [str(folder) for folder in folders]


def test_the_analysis_notebook_draws_its_five_figures(two_seeds):
  drawn = figures('analysis', WORKDIRS=two_seeds, TARGET=0.5)
  assert len(drawn) == 5
  assert all(len(figure) > 5_000 for figure in drawn)  # Not blank.


def test_curves_of_the_analysis_notebook_are_means_of_all_seeds(tmp_path):
  """A seed that diverged before its first evaluation counts, too."""
  config = workdirs.config(good={}, bad={}) | {'seeds': [0, 1]}
  folder = workdirs.claim(tmp_path / 'a', config)
  whole = [workdirs.record(s) for s in (1, 2, 4)]
  unknown = {'test_accuracy': None, 'consensus_distance': None}
  for name in ('good-seed0', 'good-seed1', 'bad-seed0'):
    workdirs.run(folder, name, whole, seed=int(name[-1]))
  lost = [workdirs.record(1, **unknown)]
  workdirs.run(folder, 'bad-seed1', lost, seed=1, diverged='The loss is NaN.')
  cells = nbformat.read(NOTEBOOKS / 'analysis.ipynb', as_version=4).cells
  settings, load, learned, _, apart, *_ = (
    cell.source for cell in cells if cell.cell_type == 'code'
  )
  found = {}
  exec(settings, found)
  found['WORKDIRS'] = [str(folder)]
  for source in (load, learned, apart):
    exec(source, found)
  for curves in (found['curves'], found['apart']):
    assert curves['run'].tolist() == ['good'] * len(whole)


def test_the_strategies_notebook_draws_its_figure():
  assert len(figures('strategies', STEPS=10)) == 1


@pytest.mark.parametrize('path', PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
  for cell in nbformat.read(path, as_version=4).cells:
    assert not cell.get('outputs') and not cell.get('execution_count')


def test_there_are_notebooks_to_test():
  assert [path.stem for path in PATHS] == ['analysis', 'strategies']
