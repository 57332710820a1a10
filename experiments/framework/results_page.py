"""RESULTS.md, README's tables and the runs that `advise` knows.

    python -m experiments.framework.results_page           writes them
    python -m experiments.framework.results_page --check   fails if one is stale

All are made from finding.json of the claims, summary.json of the comparisons
that are kept under experiments/results, strategies/bytes.csv there, and
experiments/runs.
"""

import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from absl import app, flags

from experiments.framework import (
  finding_files,
  known_runs_file,
  strategy_table,
)
from experiments.framework.seed_statistics import BYTES
from gossipjax.advice import known_file
from gossipjax.commands import command_line, console
from gossipjax.comparison.units import duration, size
from gossipjax.errors import UserError
from gossipjax.results import workdir

CHECK = flags.DEFINE_bool(
  'check', False, 'Write nothing; fail if a file is stale.'
)
ROOT = pathlib.Path(__file__).parents[2]
RESULTS = finding_files.RESULTS
TUNED = 'held-out accuracy, tuned equally'
TUNED_ON = 'fashion-dense'  # Workload of the README's scores.
COMMAND = 'python -m experiments.framework.results_page'
HEAD = pathlib.Path(__file__).with_name('results_head.md').read_text('utf-8')


def findings() -> list[finding_files.FindingFile]:
  """Reads the findings of all measured claims, sorted by name."""
  folders = sorted(path.parent for path in RESULTS.glob('*/finding.json'))
  return [finding_files.read(folder) for folder in folders]


def results() -> str:
  """Returns the text of RESULTS.md."""
  rows = [
    {
      'claim': found.claim,
      'published': found.published,
      'ours': found.ours,
      'verdict': found.verdict,
      'evidence': found.evidence,
      'table': f'[{found.name}](experiments/results/{found.name}/table.md)',
    }
    for found in findings()
  ]
  return f'{HEAD}{markdown(rows)}\n'


def comparison_table(name: str, relative: bool) -> str:
  """Returns the README's table of a kept comparison.

  Args:
    relative: whether to add a column of bytes over those of the first run.
  """
  runs = workdir.summary(RESULTS / name)['runs']
  rows = []
  for run in runs:
    row = {
      'run': run['name'],
      'held-out accuracy': f'{100 * run["test_accuracy"]:.2f} %',
      'sent per step (logical)': size(run['bytes_sent'] / run['steps']),
    }
    if relative:
      ratio = run['bytes_sent'] / runs[0]['bytes_sent']
      row['bytes over those of the first'] = f'{ratio:.3g} x'
    seconds = duration(run['comm_s']['1gbe'])
    rows.append(row | {'communication on 1gbe (model)': seconds})
  return markdown(rows, right=list(rows[0])[1:])


def strategies() -> str:
  """Returns the README's table of strategies, with all known scores."""
  tuned = tuned_scores()
  rows = [
    {
      'strategy': f'[`{row.name}`](gossipjax/strategies/{row.name}.py)',
      'what it is': row.title,
      'bytes per step': row.bytes_per_step,
      TUNED: tuned.get(row.name, ''),
      'exchanges': row.exchanges,
      'source': row.source,
    }
    for row in strategy_table.rows()
  ]
  return markdown(rows, right=['bytes per step', TUNED])


def tuned_scores() -> dict[str, str]:
  """Returns each strategy's accuracy on TUNED_ON at its best rate, with its
  arguments and, if it has any, its bytes over all-reduce's."""
  rows = finding_files.read(RESULTS / 'fronts').rows
  by_strategy = {r['strategy']: r for r in rows if r['workload'] == TUNED_ON}
  dense = by_strategy.get('all_reduce', {}).get(BYTES)
  found = {}
  for row in by_strategy.values():
    if accuracy := row[finding_files.ACCURACY]:
      inside = '' if row['best rate is inside'] else 'at the edge of its rates'
      arguments, share = str(row['arguments']), ''
      if arguments and dense:
        share = f'{row[BYTES] / dense:.2g} of the bytes that all_reduce sends'
      notes = ', '.join(filter(None, [arguments, share, inside]))
      cell = f'{accuracy:.2f} %' + f' ({notes})' * bool(notes)
      found[str(row['strategy'])] = cell
  return found


def markdown(rows: Sequence[dict[str, Any]], right: Sequence[str] = ()) -> str:
  """Returns a Markdown table; the columns `right` are aligned to the right.

  Cells are not padded, which tabulate would do: then a longer cell would change
  all lines of a committed file.
  """
  lines = [
    list(rows[0]),
    ['---:' if key in right else '---' for key in rows[0]],
    *([str(cell) for cell in row.values()] for row in rows),
  ]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def readme() -> str:
  """Returns README.md with its three tables made anew."""
  text = (ROOT / 'README.md').read_text()
  for name, table in {
    'quickstart': comparison_table('quickstart', relative=False),
    'fashion_mnist': comparison_table('fashion_mnist', relative=True),
    'strategies': strategies(),
  }.items():
    begin, end = f'<!-- {name}: {COMMAND} -->\n', f'\n<!-- end of {name} -->'
    if text.count(begin) != 1 or text.count(end) != 1:
      raise UserError(f'README.md lacks {begin.strip()} or {end.strip()}.')
    before, _, rest = text.partition(begin)
    text = f'{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}'
  return text


def pages() -> dict[pathlib.Path, str]:
  """Returns the text of every generated file, by path."""
  found = {
    ROOT / 'RESULTS.md': results(),
    ROOT / 'README.md': readme(),
    known_file.PATH: known_runs_file.text(),
  }
  for kept in findings():
    for name, text in finding_files.rendered(kept).items():
      found[RESULTS / kept.name / name] = text
  return found


def stale() -> list[str]:
  """The generated files that differ from what `main` would write."""
  return [
    str(path.relative_to(ROOT))
    for path, text in pages().items()
    if not path.exists() or path.read_text() != text
  ]


def main(argv: list[str], interrupted: Any) -> None:
  """The command line; with --check, exit code 1 if a file is stale."""
  del argv, interrupted
  if not CHECK.value:
    for path, text in pages().items():
      workdir.write(path, text)
  elif found := stale():
    sys.exit(f'{", ".join(found)}: stale; run {COMMAND}.')


if __name__ == '__main__':
  app.run(console.guarded(main, again=None), flags_parser=command_line.parse)
