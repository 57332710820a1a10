"""The command of a claim that rests on trainings.

Such a claim is a module with, besides what `claim.py` names,

  studies(scale)   cell -> a function that makes its study; a cell is a tuple,
                   its first part the name of the workload
  find(results, coverage, kept)  what finished studies returned -> Finding

and it ends with `training_claim.run(CLAIM, studies, find, figure)`. The command
makes the table from kept runs, without training; `experiments.queue` trains.
"""

import math
import pathlib
import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from absl import flags
from matplotlib.figure import Figure

from experiments.framework import (
  claim,
  figures,
  gates,
  own_process,
  seed_statistics,
  study,
  workloads,
)
from experiments.framework.result_store import RUNS, ResultStore, folder_of
from gossipjax import executors
from gossipjax.errors import UserError

FOLDER = flags.DEFINE_string(
  'runs', str(RUNS), 'Folder of kept runs, from which tables are made.'
)
SCALE = flags.DEFINE_enum('scale', 'cpu', ['cpu', 'gpu'], 'Kind of machine.')
DEVICES = 8  # Emulated ones, for timings that are made with the table.
NAMED = 4  # Workloads that a finding names at most.
EXCHANGES = 100  # Minimum of a method that does not exchange at every step.
Cell = tuple[Any, ...]
Studies = Mapping[Cell, Callable[[], study.Study]]
Results = Mapping[Cell, Any]


def of_scale(studies: Studies, scale: str) -> Studies:
  """Returns the studies whose workload has a size for that scale."""
  return {
    cell: begin
    for cell, begin in studies.items()
    if scale in workloads.WORKLOADS[cell[0]].sizes
  }


def results(studies: Studies, kept: ResultStore) -> dict[Cell, Any]:
  """Returns the results of the finished studies, by cell."""
  played = {cell: study.replay(make(), kept) for cell, make in studies.items()}
  return {c: far.found for c, far in played.items() if far.found is not None}


def coverage(
  studies: Studies, found: Results, kept: ResultStore, scale: str
) -> claim.Rows:
  """For each workload: its gate, and how many studies are finished."""
  rows = []
  for name in dict.fromkeys(cell[0] for cell in studies):
    gate = gates.gate(name, kept, scale)
    reached = math.nan if gate.reached is None else gate.reached
    cells = [cell for cell in studies if cell[0] == name]
    size = (workload := workloads.WORKLOADS[name]).sizes[scale]
    rows.append(
      {
        'workload': name,
        'network': size.title or workload.title,
        'steps': size.steps,
        'examples a step': size.examples,
        'scale': scale,
        'gate': workload.gate_at(scale),
        'where the gate is from': workload.gate_source_at(scale),
        'all-reduce reached': reached,
        'gate met': gate.met,
        'studies': len(cells),
        'studies finished': sum(cell in found for cell in cells),
      }
    )
  return rows


def doubt(coverage: claim.Rows) -> str:
  """Returns why trainings cannot support a verdict; '' if they can."""
  begun = [row for row in coverage if row['studies finished']]
  for row in (row for row in begun if not row['gate met']):
    known = seed_statistics.known(row['all-reduce reached'])
    verb = 'has not reached' if known else 'is not trained to'
    return f'all-reduce {verb} the gate of {row["workload"]}'
  return '' if begun else 'no training is finished'


def is_complete(coverage: claim.Rows, workload: str) -> bool:
  """Whether all studies of a workload are finished."""
  return all(
    row['studies'] == row['studies finished']
    for row in coverage
    if row['workload'] == workload
  )


def not_begun(rows: claim.Rows, coverage: claim.Rows) -> list[claim.Case]:
  """Returns an UNTRAINED case for each workload without a row."""
  begun = figures.distinct(rows, 'workload')
  return [claim.UNTRAINED] * sum(r['workload'] not in begun for r in coverage)


def unfinished(
  studies: Callable[[str], Studies],
  rows: claim.Rows,
  coverage: claim.Rows,
  names: Sequence[str],
  methods: Container[str],
) -> list[claim.Case]:
  """Returns an UNTRAINED case for each study of one of `methods` without a row;
  `names` are the columns that hold a cell, whose last part is the method."""
  done = {tuple(row[name] for name in names) for row in rows}
  scale = coverage[0]['scale']
  cells = [c for c in of_scale(studies(scale), scale) if c[-1] in methods]
  return [claim.UNTRAINED] * sum(cell not in done for cell in cells)


def evidence(
  rows: claim.Rows, coverage: claim.Rows, whole: bool = False
) -> tuple[str, str, int, int]:
  """Returns workload, length, fewest and most seeds of a finding. If `whole`,
  only workloads whose studies are all finished count, if there are any."""
  if whole:
    rows = [r for r in rows if is_complete(coverage, r['workload'])] or rows
  names = figures.distinct([row for row in rows if row['seeds']], 'workload')
  of = [row for row in coverage if row['workload'] in names] or coverage
  networks = [row['network'] for row in of]
  if len(of) > NAMED:
    networks = [f'{len(of)} workloads, see the table']
  elif len(of) > 1:  # Their sizes are in the table.
    networks = [re.sub(r' \(.*?\)|,.*', '', name) for name in networks]
  steps, examples = (_range(of, name) for name in ('steps', 'examples a step'))
  length = f'{steps} steps of {examples} examples'
  return ', '.join(networks), length, *seed_statistics.counts(rows)


def _range(rows: claim.Rows, name: str) -> str:
  values = [row[name] for row in rows]
  return ' to '.join(f'{v:,}' for v in sorted({min(values), max(values)}))


def run(
  what: claim.Claim,
  studies: Callable[[str], Studies],
  find: Callable[[Results, claim.Rows, ResultStore], claim.Finding],
  figure: Callable[..., Figure],
) -> None:
  """As `claim.run`, for a claim that rests on trainings.

  Args:
    what: the claim.
    studies: scale -> its studies by cell.
    find: (results by cell, coverage, kept results) -> what was found.
    figure: (rows, further tables by name) -> its figure.
  """

  def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
    scale = 'quick' if quick else SCALE.value
    if scale == 'gpu' and claim.OUT.value is None:
      raise UserError(
        '--scale=gpu needs --out, a folder for its table: the one in '
        'experiments/results is that of the scale cpu.'
      )
    executors.emulate(DEVICES)
    if not (chosen := of_scale(studies(scale), scale)):
      raise UserError(f'{what.name} trains nothing at the scale {scale}.')
    runs = folder_of(scale, pathlib.Path(FOLDER.value))
    kept = ResultStore(folder / 'runs' if quick else runs)
    if quick:
      make_all(chosen, kept, own_process.in_a_process)
    found = results(chosen, kept)
    return find(found, coverage(chosen, found, kept, scale), kept)

  claim.run(what, measure, figure)


def make_all(
  studies: Studies,
  kept: ResultStore,
  make: Callable[..., tuple[Any, float, dict[str, Any]]],
) -> None:
  """Makes every run of the studies that is not kept."""

  def make_run(run: study.RunRequest) -> None:
    kept.add(run.workload, run.key, *make(run.config, run.probe))

  for begin in studies.values():
    study.complete(begin(), kept, make_run)
