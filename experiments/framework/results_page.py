"""RESULTS.md, tables of README.md and docs, and the runs that `advise` knows.

    python -m experiments.framework.results_page           writes them
    python -m experiments.framework.results_page --check   fails if one is stale

All are made from finding.json of the claims, summary.json of the comparisons
that are kept under experiments/results, strategies/bytes.csv there, and
experiments/runs.
"""

import pathlib
import sys
from typing import Any

from absl import app, flags

from experiments.framework import (
  finding_files,
  known_runs_file,
  strategy_table,
)
from experiments.framework.page_tables import COMMAND, filled, markdown
from experiments.framework.seed_statistics import BYTES
from gossipjax.advice import known_file
from gossipjax.commands import command_line, console
from gossipjax.comparison.units import duration, size
from gossipjax.results import workdir

CHECK = flags.DEFINE_bool(
  'check', False, 'Write nothing; fail if a file is stale.'
)
ROOT = pathlib.Path(__file__).parents[2]
RESULTS = finding_files.RESULTS
TUNED = 'held-out accuracy, tuned equally'
PER_WORKER = 'bytes per worker and step'  # Columns of scale.
IN_TOTAL = 'bytes of all workers per step'
TUNED_ON = 'fashion-dense'  # Workload of the README's scores.
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
    relative: whether to add a column of bytes over those of the first run,
      which is all_reduce.
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
      row['bytes over those of all_reduce'] = f'{ratio:.3g} x'
    row[f'exchanges in {run["steps"]} steps'] = run['exchanges']
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


def scale() -> str:
  """Returns the table of docs/scale.md: bytes with ever more workers."""
  by_method: dict[str, list[dict[str, Any]]] = {}
  for found in finding_files.read(RESULTS / 'scale').rows:
    by_method.setdefault(str(found['method']), []).append(found)
  rows = []
  for method, found in by_method.items():
    sent = {f'P = {r["workers"]:,}': r[PER_WORKER] for r in found}
    first, *_, last = sent.values()
    row = {'method': method} | {name: size(sent[name]) for name in sent}
    row['last over first'] = f'{float(f"{last / first:.3g}"):,g} x'
    rows.append(row | {'all workers': size(found[-1][IN_TOTAL])})
  return markdown(rows, right=list(rows[0])[1:])


def hand_written() -> dict[pathlib.Path, str]:
  """Returns the pages that are written by hand, with their tables made anew."""
  tables = {
    ROOT / 'README.md': {
      'quickstart': comparison_table('quickstart', relative=False),
      'fashion_mnist': comparison_table('fashion_mnist', relative=True),
      'strategies': strategies(),
    },
    ROOT / 'docs/scale.md': {'scale': scale()},
  }
  return {page: filled(page, tables[page]) for page in tables}


def pages() -> dict[pathlib.Path, str]:
  """Returns the text of every generated file, by path."""
  found = {
    ROOT / 'RESULTS.md': results(),
    **hand_written(),
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
