"""The interface of a claim: its text, verdict, finding and command line.

A claim is one module of `experiments/` with

  CLAIM                   what is claimed and what was published
  measure(quick, ...)     makes or models the runs, calls verdict -> Finding
  verdict(rows, **tables) judges the rows -> Verdict
  figure(rows, **tables)  draws the rows

and it ends with `claim.run(CLAIM, measure, figure)`, or with
`training_claim.run` if it keeps training runs.

`verdict` derives cases from the rows: a case holds (True), does not (False), is
undecided (None: see `intervals.at_least`, `margins.is_as_good`) or not trained.
`make_verdict` counts them. A doubt (`training_claim.doubt`: all-reduce misses a
gate, or no training is finished) leaves all cases undecided.
"""

import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from absl import app, flags
from matplotlib.figure import Figure

from experiments.framework import figures, finding_files, seed_statistics
from gossipjax.commands import command_line, console

QUICK = flags.DEFINE_bool(
  'quick', False, 'Run everything once in a small size, within two minutes.'
)
OUT = flags.DEFINE_string('out', None, 'Folder; default experiments/results/.')
RENDER = flags.DEFINE_bool(
  'render', False, 'Write tables and figure anew from finding.json.'
)
Rows = Sequence[dict[str, Any]]  # All have the same keys.
UNTRAINED: Literal['not trained'] = 'not trained'
Case = bool | None | Literal['not trained']


class Claim(NamedTuple):
  """What is claimed.

  Attributes:
    name: of the module and of its folder in experiments/results.
    title: of its page.
    text: the claim in a sentence.
    published: what was published, and where.
  """

  name: str
  title: str
  text: str
  published: str


class Verdict(NamedTuple):
  """Whether a claim holds, by its rows.

  Attributes:
    met: number of cases in which it holds.
    of: number of cases that the runs decide.
    ours: the result measured here, in at most 160 characters.
    sentence: the result measured here, with all numbers.
    undecided: why the runs cannot carry a verdict; empty if they can.
    open: number of further cases that the runs leave undecided.
    missing: number of further cases that are not trained yet.
  """

  met: int
  of: int
  ours: str
  sentence: str
  undecided: str = ''
  open: int = 0
  missing: int = 0

  @property
  def word(self) -> str:
    """'holds', 'does not hold', 'holds in n of m' with the number of further
    cases that are undecided or not trained, or 'undecided: reason'."""
    if self.undecided or not self.of:
      return f'undecided: {self.undecided or "no case was measured"}'
    some = f'holds in {self.met} of {self.of}'
    rest = f'; {self.open} undecided' if self.open else ''
    rest += f'; {self.missing} {UNTRAINED}' if self.missing else ''
    if rest:
      return some + rest
    return {self.of: 'holds', 0: 'does not hold'}.get(self.met, some)


class Finding(NamedTuple):
  """What was found about a claim.

  Attributes:
    verdict: by the rows.
    rows: of the table.
    notes: how it was measured, settings and tuning; Markdown.
    workload: what was trained or timed.
    length: length of the training or of the timed part, with units.
    seeds: number of seeds of the row with the fewest; 0 if nothing is random.
    most_seeds: number of seeds of the row with the most.
    tables: further tables by name, which verdict and figure take by name.
  """

  verdict: Verdict
  rows: Rows
  notes: str
  workload: str
  length: str
  seeds: int
  most_seeds: int = 0
  tables: Mapping[str, Rows] = {}


def make_verdict(
  cases: Sequence[Case], ours: str, sentence: str, doubt: str = ''
) -> Verdict:
  """Returns the verdict on cases.

  Args:
    cases: each one whether it holds, None if undecided, or `UNTRAINED`.
    ours: see `Verdict`.
    sentence: see `Verdict`.
    doubt: why no case can be judged; '' if cases can be judged.
  """
  judged = [bool(case) for case in cases if case not in (None, UNTRAINED)]
  if not cases:
    ours = 'nothing yet'
  if cases and not judged:
    doubt = doubt or ('runs are missing or too short, or bounds within errors')
  left = cases.count(None), cases.count(UNTRAINED)
  return Verdict(sum(judged), len(judged), ours, sentence, doubt, *left)


def decided(rows: Rows, case: Callable[[Any], bool | None]) -> Rows:
  """Returns the rows whose case is decided; all rows if no case is."""
  return [row for row in rows if case(row) is not None] or rows


def span(rows: Rows, key: str, form: str = '.2f') -> str:
  """Formats the least and the largest known value of a column as a range."""
  found = [*filter(seed_statistics.known, (row[key] for row in rows))]
  ends = [f'{end(found):{form}}' for end in (min, max) if found]
  return ' to '.join(dict.fromkeys(ends)) or 'unknown'


def all_hold(parts: Sequence[bool | None]) -> bool | None:
  """Whether all parts hold; None if none fails and one is undecided."""
  return False if False in parts else None if None in parts else True


def mean(values: Sequence[float | None]) -> float | None:
  """The mean, None if a value is missing."""
  return None if None in values else statistics.fmean(values)


def ratio(a: float | None, b: float | None) -> float | None:
  """a / b, None if one is missing or 0."""
  return a / b if a and b else None


def run(
  claim: Claim,
  measure: Callable[[bool, pathlib.Path], Finding],
  figure: Callable[..., Figure],
) -> None:
  """A claim's command: `python -m experiments.NAME [--quick] [--out]`.

  Args:
    claim: what is claimed.
    measure: (quick, folder for its runs) -> what was found.
    figure: (rows, further tables by name) -> its figure.
  """

  def main(argv, interrupted):
    del argv, interrupted
    results = finding_files.RESULTS / claim.name
    # A quick run shows that everything runs; its numbers are no result.
    default = pathlib.Path('runs/claims') / claim.name
    folder = pathlib.Path(OUT.value or (default if QUICK.value else results))
    folder.mkdir(parents=True, exist_ok=True)
    if not RENDER.value:
      began = time.perf_counter()
      found = measure(QUICK.value, folder)
      took_s = time.perf_counter() - began
      finding_files.write(folder, claim, found, took_s, QUICK.value)
    kept = finding_files.read(folder)
    finding_files.render(folder, kept)
    image_file = folder / 'figure.png'
    image_file.unlink(missing_ok=True)
    if kept.rows:
      chart = figure(kept.rows, **kept.tables)
      figures.units_of_axes(chart)
      chart.savefig(image_file, dpi=110)
    print(f'{kept.verdict}. {kept.ours}')

  app.run(console.guarded(main, again=None), flags_parser=command_line.parse)
