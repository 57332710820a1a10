"""The form of a claim: rows, a picture, and a sentence that says if it holds.

A claim is a module of `experiments/` that ends with `claim.run(...)`, or with
`evidence.run(...)` if it keeps runs.
"""

import csv
import io
import os
import pathlib
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from absl import app, flags
from matplotlib.figure import Figure

from gossipjax.commands import command_line, console
from gossipjax.comparison import table
from gossipjax.results import workdir

QUICK = flags.DEFINE_bool('quick', False, 'Prove the path in two minutes.')
OUT = flags.DEFINE_string('out', None, 'Folder; default experiments/results/.')


class Finding(NamedTuple):
  """What an experiment found.

  Attributes:
    rows: of the table; all have the same keys.
    figure: what to look at.
    verdict: holds, does not hold, or holds only when ..., with the numbers.
    notes: how it was measured, settings and tuning.
  """

  rows: Sequence[dict[str, Any]]
  figure: Figure
  verdict: str
  notes: str


def word(met: int, of: int) -> str:
  """What is said of a claim that is met in so many cases."""
  if not of:
    return 'open'
  return {of: 'holds', 0: 'does not hold'}.get(met, f'holds in {met} of {of}')


def run(
  name: str, title: str, measure: Callable[[bool, pathlib.Path], Finding]
) -> None:
  """A claim's command line: `python -m experiments.NAME [--quick] [--out]`.

  Args:
    name: of the module and of its folder.
    title: the claim in a sentence.
    measure: (quick, folder for its runs) -> what was found.
  """

  def main(argv, interrupted):
    del argv, interrupted
    results = pathlib.Path(__file__).parents[1] / 'results' / name
    # What is quick proves a path, and is no result.
    default = pathlib.Path('runs/claims') / name if QUICK.value else results
    folder = pathlib.Path(OUT.value or default)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    found = measure(QUICK.value, folder)
    took_s = time.perf_counter() - began
    write(folder, name, title, found, took_s, QUICK.value)
    print(found.verdict)

  app.run(console.guarded(main), flags_parser=command_line.parse)


def write(
  folder: pathlib.Path,
  name: str,
  title: str,
  found: Finding,
  took_s: float,
  quick: bool,
) -> None:
  """table.md, table.csv and figure.png; what is NaN is left empty."""
  rows = [
    {key: None if value != value else value for key, value in row.items()}
    for row in found.rows
  ]
  facts = workdir.provenance()
  command = f'python -m experiments.{name}' + (' --quick' if quick else '')
  text = (
    f'# {title}\n\n**{found.verdict}**\n\n{table.of_rows(rows)}\n\n'
    f'{found.notes.strip()}\n\n`{command}`, commit {facts["commit"]}, '
    f'{os.cpu_count()} cores ({platform.machine()}), jax '
    f'{facts["versions"]["jax"]}, {took_s:.0f} s.\n'
  )
  workdir.write(folder / 'table.md', text)
  lines = io.StringIO()
  writer = csv.DictWriter(lines, list(rows[0]), lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  workdir.write(folder / 'table.csv', lines.getvalue())
  found.figure.savefig(folder / 'figure.png', dpi=110)
