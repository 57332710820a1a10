"""Damaged files of a workdir: an error message, or the same results."""

import pathlib
import random
import shutil

from tests.campaign import outcome, verdict
from tests.campaign.damage import damage, flipped
from tests.support import program

RUN = (
  '--config=configs/default.py:gtopk',  # Its checkpoints have a residual.
  '--config.strategy.density=0.05',
  '--config.variants={"gtopk": {}, "dense": {"steps": 2}}',
  '--config.workers=2',
  '--config.steps=6',
  '--config.log_every=1',
  '--config.eval_every=3',
  '--config.checkpoint_every=2',
)


def attempt(seed: int, folder: pathlib.Path, shared: pathlib.Path) -> str:
  """Damages a file of a workdir, then resumes the run or reports on it.

  The seed modulo 3 determines the fault: 0 flips a bit in a checkpoint of an
  unfinished run, which is then resumed; 1 damages any file of one; 2 damages
  any file of a finished run, on which `report` is then called.
  """
  rng, whole = random.Random(seed), finished(shared)
  place = folder / 'run'
  shutil.copytree(whole, place)
  kind = seed % 3
  if kind < 2:
    _unfinish(place)
  inside = place / 'gtopk/checkpoints' if kind == 0 else place
  path = rng.choice(
    sorted(p for p in inside.rglob('*') if p.is_file() and p.name != '.lock')
  )
  if kind == 0:
    how = f'flip in {path}'
    path.write_bytes(flipped(path.read_bytes(), rng))
  else:
    how = damage(path, rng)
  if kind == 2:
    found = _reported(place, whole)
  else:
    found = _resumed(place, whole, flipped_bit=kind == 0)
  return found and f'{how}\n  {found}'


def finished(shared: pathlib.Path) -> pathlib.Path:
  """Returns the workdir of a finished run of RUN, which is made once."""
  place = shared / 'workdir'
  if not place.exists():
    ended = program.run(
      shared / 'told', *RUN, f'--workdir={place}', **program.QUICKLY
    )
    assert ended.code == 0, ended.err
  return place


def _unfinish(place: pathlib.Path) -> None:
  for name in ('summary.json', 'manifest.json'):
    (place / name).unlink()
    (place / 'gtopk' / name).unlink()
  shutil.rmtree(place / 'gtopk/checkpoints/6')


def _resumed(
  place: pathlib.Path, whole: pathlib.Path, flipped_bit: bool
) -> str:
  """Resumes a run; one whose checkpoint has a flipped bit has to name that
  checkpoint and to end, while other damages may be refused."""
  words = [*RUN, '--resume', f'--workdir={place}']
  ended = program.start(place.parent / 'told', *words, **program.QUICKLY).end(
    verdict.LIMIT_S
  )
  found = verdict.of(ended, (0,) if flipped_bit else (0, 2))
  if not found and flipped_bit and ' is damaged (' not in ended.err:
    found = f'the checkpoint is not named: {ended.err[-300:]}'
  if not found and ended.code == 0:
    found = outcome.difference(
      place / 'gtopk', whole / 'gtopk'
    ) or outcome.of_results(place / 'dense', whole / 'dense')
  return verdict.told(found, words)


def _reported(place: pathlib.Path, whole: pathlib.Path) -> str:
  folder = place.parent / 'told'
  words = ['report', str(place)]
  ended = program.start(folder, *words, module='gossipjax').end(verdict.LIMIT_S)
  found = verdict.of(ended, (0, 2))
  if not found and ended.code == 0:
    ours, theirs = ((f / 'comparison.md').read_text() for f in (place, whole))
    found = '' if ours == theirs else 'another table'
  return found and f'python -m gossipjax {" ".join(words)}\n  {found}'
