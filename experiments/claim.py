"""The form of a claim: rows, a picture, and a sentence that says if it holds.

A claim is a module of `experiments/` that ends with `claim.run(...)`. Runs that
are finished are kept in --runs, so that the same command goes on.
"""

import csv
import io
import os
import pathlib
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from absl import app, flags
from matplotlib.figure import Figure

from experiments import table, workdir
from experiments.evidence import Evidence
from gossipjax import console, spmd

QUICK = flags.DEFINE_bool('quick', False, 'Prove the path in two minutes.')
OUT = flags.DEFINE_string('out', None, 'Folder of the table and the figure.')
RUNS = flags.DEFINE_string('runs', 'runs/claims', 'What is finished, to go on.')
MINUTES = flags.DEFINE_float('minutes', None, 'After which no run begins.')


class Finding(NamedTuple):
  """What an experiment found.

  Attributes:
    rows: of the table; all have the same keys.
    figure: what to look at.
    holds: whether the claim does, see `word`.
    verdict: the same in a sentence, with the numbers.
    notes: how it was measured, settings and tuning.
  """

  rows: Sequence[dict[str, Any]]
  figure: Figure
  holds: str
  verdict: str
  notes: str


def word(met: int, of: int) -> str:
  """What is said of a claim that is met in so many cases."""
  if not of:
    return 'open'
  return {of: 'holds', 0: 'does not hold'}.get(met, f'holds in {met} of {of}')


def run(name: str, title: str, measure: Callable[[bool, Evidence], Finding],
        devices: int = 1) -> None:
  """A claim's command line: `python -m experiments.NAME [--quick] [--out]`.

  Args:
    name: of the module and of its folder.
    title: the claim in a sentence.
    measure: (quick, its runs so far) -> what was found.
    devices: to emulate.
  """

  def main(argv, interrupted):
    del argv
    runs = pathlib.Path(RUNS.value) / name
    results = pathlib.Path(__file__).parent / 'results' / name
    folder = pathlib.Path(OUT.value or (runs if QUICK.value else results))
    folder.mkdir(parents=True, exist_ok=True)
    spmd.emulate(devices)
    # Seeds run the same programs, and so does who goes on tomorrow.
    jax.config.update('jax_compilation_cache_dir', f'{RUNS.value}/programs')
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.3)
    began = time.perf_counter()
    evidence = Evidence(runs, MINUTES.value, interrupted)
    found = measure(QUICK.value, evidence)
    took_s = time.perf_counter() - began
    write(folder, name, title, found, took_s, QUICK.value)
    print(f'{found.holds}: {found.verdict}')

  app.run(console.guarded(main), flags_parser=console.parse)


def write(folder: pathlib.Path, name: str, title: str, found: Finding,
          took_s: float, quick: bool) -> None:
  """table.md, table.csv and figure.png; what is NaN is left empty."""
  rows = [{key: None if value != value else value
           for key, value in row.items()} for row in found.rows]
  facts = workdir.provenance()
  command = f'python -m experiments.{name}' + (' --quick' if quick else '')
  text = (f'# {title}\n\n**{found.holds}**: {found.verdict}\n\n'
          f'{table.of_rows(rows)}\n\n'
          f'{found.notes.strip()}\n\n`{command}`, commit {facts["commit"]}, '
          f'{os.cpu_count()} cores ({platform.machine()}), jax '
          f'{facts["versions"]["jax"]}, {took_s:.0f} s.\n')
  workdir.write(folder / 'table.md', text)
  lines = io.StringIO()
  writer = csv.DictWriter(lines, list(rows[0]), lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  workdir.write(folder / 'table.csv', lines.getvalue())
  found.figure.savefig(folder / 'figure.png', dpi=110)
