"""The files of a finding: finding.json, and what is made from it.

finding.json  everything that RESULTS.md, README, docs and advice need
table.csv     its rows
table.md      claim, verdict, rows, notes and provenance, to read
"""

import csv
import io
import os
import pathlib
import platform
from typing import Annotated, Any

import msgspec
import numpy as np

from gossipjax.comparison import markup
from gossipjax.errors import UserError
from gossipjax.results import workdir

RESULTS = pathlib.Path(__file__).parents[1] / 'results'
Row = dict[str, int | float | bool | str | None]
Text = Annotated[str, msgspec.Meta(min_length=1)]
CELL = 160  # Characters of a cell of RESULTS.md, at most.
Cell = Annotated[str, msgspec.Meta(min_length=1, max_length=CELL)]
VERDICT = (
  r'^(holds|does not hold|undecided: \S.*'
  r'|holds in \d+ of \d+(; \d+ undecided)?(; \d+ not trained)?)$'
)
# Columns that are written with two decimals rather than three digits.
ACCURACY = 'held-out accuracy %'
TWO_DECIMALS = (ACCURACY, f'{ACCURACY}, standard deviation')


class Evidence(msgspec.Struct, forbid_unknown_fields=True):
  """What a verdict rests on; `seeds` as in `claim.Finding`."""

  workload: Text
  length: Text
  seeds: Annotated[int, msgspec.Meta(ge=0)]
  most_seeds: Annotated[int, msgspec.Meta(ge=0)] = 0

  def __str__(self) -> str:
    most = max(self.seeds, self.most_seeds)
    count = ' to '.join(map(str, dict.fromkeys((self.seeds, most))))
    seeds = f'; {count} seed{"s" * (most > 1)}' if most else ''
    return f'{self.workload}; {self.length}{seeds}'


class Provenance(msgspec.Struct, forbid_unknown_fields=True):
  """The command and its machine; `seconds`: duration of its last call."""

  command: Text
  commit: Text
  cores: int
  machine: str
  versions: dict[str, str]
  seconds: float

  def __str__(self) -> str:
    return (
      f'`{self.command}`, commit {self.commit}, {self.cores} cores '
      f'({self.machine}), jax {self.versions["jax"]}, {self.seconds:.0f} s.'
    )


class FindingFile(msgspec.Struct, forbid_unknown_fields=True):
  """finding.json; the names are those of `claim.Claim`, `.Verdict`, `.Finding`.

  `claim` is the text of the claim, `verdict` one of the forms of VERDICT.
  """

  name: Text
  title: Text
  claim: Cell
  published: Cell
  ours: Cell
  verdict: Annotated[str, msgspec.Meta(pattern=VERDICT)]
  met: Annotated[int, msgspec.Meta(ge=0)]
  of: Annotated[int, msgspec.Meta(ge=0)]
  undecided: str
  sentence: Text
  evidence: Evidence
  rows: list[Row]
  tables: dict[str, list[Row]]
  notes: Text
  provenance: Provenance
  open: Annotated[int, msgspec.Meta(ge=0)] = 0
  missing: Annotated[int, msgspec.Meta(ge=0)] = 0


def write(
  folder: pathlib.Path, claim: Any, found: Any, took_s: float, quick: bool
) -> None:
  """Writes finding.json.

  Args:
    claim: a `claim.Claim`.
    found: a `claim.Finding`; NaN becomes null.

  Raises:
    UserError: the finding does not have the form of `FindingFile`.
  """
  facts, verdict = workdir.provenance(), found.verdict
  command = f'python -m experiments.{claim.name}' + ' --quick' * quick
  save(
    folder,
    FindingFile(
      name=claim.name,
      title=claim.title,
      claim=claim.text,
      published=claim.published,
      verdict=verdict.word,
      **_plain([verdict._asdict()])[0],
      evidence=Evidence(
        **{name: getattr(found, name) for name in Evidence.__struct_fields__}
      ),
      rows=_plain(found.rows),
      tables={k: _plain(rows) for k, rows in found.tables.items()},
      notes=found.notes.strip(),
      provenance=Provenance(
        command=command,
        commit=facts['commit'],
        cores=os.cpu_count(),
        machine=platform.machine(),
        versions=facts['versions'],
        seconds=took_s,
      ),
    ),
  )


def _plain(rows: Any) -> list[Row]:
  """Converts rows for JSON: NaN becomes None, NumPy scalars become numbers."""
  scalar = lambda v: v.item() if isinstance(v, np.generic) else v
  plain = lambda v: scalar(v) if scalar(v) == scalar(v) else None
  return [{key: plain(value) for key, value in row.items()} for row in rows]


def save(folder: pathlib.Path, kept: FindingFile) -> None:
  """Writes finding.json, after checking that `read` accepts it."""
  text = msgspec.json.format(msgspec.json.encode(kept), indent=1)
  _decoded(text, folder)
  workdir.write(folder / 'finding.json', text.decode() + '\n')


def read(folder: pathlib.Path) -> FindingFile:
  """Reads the finding of a folder.

  Raises:
    UserError: there is none, or it does not have the form of `FindingFile`.
  """
  path = folder / 'finding.json'
  if not path.exists():
    raise UserError(f'{path} is not there; measure the claim first.')
  return _decoded(path.read_bytes(), folder)


def _decoded(text: bytes, folder: pathlib.Path) -> FindingFile:
  try:
    return msgspec.json.decode(text, type=FindingFile)
  except msgspec.DecodeError as error:
    raise UserError(f'{folder}/finding.json: {error}.') from error


def render(folder: pathlib.Path, kept: FindingFile) -> None:
  """Writes table.csv and table.md of a finding."""
  for name, text in rendered(kept).items():
    workdir.write(folder / name, text)


def rendered(kept: FindingFile) -> dict[str, str]:
  """The text of table.csv and of table.md."""
  lines = io.StringIO()
  names = list(kept.rows[0]) if kept.rows else []
  if names:
    writer = csv.DictWriter(lines, names, lineterminator='\n')
    writer.writeheader()
    writer.writerows(kept.rows)
  further = ''.join(
    f'## {name.replace("_", " ").capitalize()}\n\n{_markdown(rows)}\n\n'
    for name, rows in kept.tables.items()
  )
  text = (
    f'# {kept.title}\n\nClaim: {kept.claim}.\nPublished: {kept.published}.\n\n'
    f'**Verdict: {kept.verdict}.**\n\n{kept.sentence}\n\n'
    f'{_markdown(kept.rows)}\n\n{kept.notes}\n\n{further}'
    f'Evidence: {kept.evidence}.\n\n{kept.provenance}\n'
  )
  return {'table.csv': lines.getvalue(), 'table.md': text}


def _markdown(rows: list[Row]) -> str:
  if not rows:
    return 'No row is finished yet.'
  two = lambda key, v: (
    f'{v:.2f}' if key in TWO_DECIMALS and v is not None else v
  )
  return markup.of_rows([{k: two(k, v) for k, v in r.items()} for r in rows])
