"""The table of a comparison, for Markdown and for a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from gossipjax.comparison import virtual_time

UNITS = ((1e12, 'TB'), (1e9, 'GB'), (1e6, 'MB'), (1e3, 'kB'))


def size(num_bytes: float) -> str:
  """Bytes to three digits, with a decimal unit."""
  for scale, unit in UNITS:
    if num_bytes >= scale:
      return f'{num_bytes / scale:.3g} {unit}'
  return f'{num_bytes:.0f} B'


def duration(seconds: float) -> str:
  """Seconds to three digits."""
  return f'{seconds:.3g} s'


def rows(summary: dict[str, Any]) -> list[dict[str, str]]:
  """One row per run, headings as keys; who diverged has a word in place of
  figures."""
  runs = summary['runs']
  found = [
    {'run': run['name'], 'held-out accuracy': 'diverged'}
    if run.get('diverged')
    else _row(run, summary)
    for run in runs
  ]
  headings = max(found, key=len)
  return [dict.fromkeys(headings, '') | row for row in found]


def _row(run: dict[str, Any], summary: dict[str, Any]) -> dict[str, str]:
  link, runs = link_name(summary['config']), summary['runs']
  least = runs[0]['bytes_sent'] or 1
  return {
    'run': run['name'],
    'held-out accuracy': f'{100 * run["test_accuracy"]:.2f} %',
    'held-out loss': f'{run["test_loss"]:.4f}',
    'train loss': f'{run["train_loss"]:.4f}',
    'consensus distance': f'{run["consensus_distance"]:.3g}',
    'sent per step (logical)': size(run['bytes_sent'] / run['steps']),
    **_wire(run, runs),
    'sent in all': size(run['bytes_sent']),
    'against the first': ''
    if runs[0].get('diverged')
    else (f'{run["bytes_sent"] / least:.3g} x'),
    f'communication on {link} (model)': duration(run['comm_s'][link]),
    'examples/s here': f'{run["examples_per_s"] or 0:,.0f}',
    **virtual_time.cells(run, runs),
  }


def _wire(
  run: dict[str, Any], runs: Sequence[dict[str, Any]]
) -> dict[str, str]:
  """A column if interface counters were read."""
  if not any(r.get('wire_bytes') for r in runs):
    return {}
  sent = run.get('wire_bytes')
  return {'sent per step (wire)': size(sent / run['steps']) if sent else ''}


def link_name(config: dict[str, Any]) -> str:
  """What `config.link` is called in `comm_s`."""
  return config['link'] if isinstance(config['link'], str) else 'custom'


NOTE = """
Bytes are those of the worker that sent most, counted from the messages that
travelled (logical; `--audit` holds them against the compiled program).
Communication seconds are modelled from them, training is not overlapped.
Held-out figures are those of the exact mean of the workers' models.
"""


def markdown(summary: dict[str, Any]) -> str:
  """comparison.md."""
  found = rows(summary)
  lines = [
    list(found[0]),
    ['---', *['---:'] * (len(found[0]) - 1)],
    *(list(row.values()) for row in found),
  ]
  text = '\n'.join(f'| {" | ".join(cells)} |' for cells in lines)
  config = summary['config']
  head = (
    f'{config["task"]["name"]}, {config["workers"]} workers, '
    f'{config["steps"]} steps of {config["batch_size"]} examples each, '
    f'seed {config["seed"]}, commit {summary["commit"]}'
  )
  return (
    f'# Comparison\n\n{head}\n\n{text}\n{NOTE}'
    f'{virtual_time.note(summary)}{diverged(summary)}{audited(summary)}'
  )


def diverged(summary: dict[str, Any]) -> str:
  """Why some runs have no figures."""
  return ''.join(
    f'\n{run["name"]}: {run["diverged"]}\n'
    for run in summary['runs']
    if run.get('diverged')
  )


def audited(summary: dict[str, Any]) -> str:
  """The ledger beside the compiled program, if `--audit` looked."""
  lines = [
    f'| {run["name"]} | {row["step"]} | {row["ledger"]:,} | '
    f'{row["compiled"]:,} | {_kinds(row["kinds"])} | {row["reason"]} |'
    for run in summary['runs']
    for row in run.get('audit', ())
  ]
  if not lines:
    return ''
  return '\n'.join(
    [
      '',
      '## Audit',
      '',
      'Bytes sent in a step by the worker where the two '
      'differ most; a difference has a reason.',
      '',
      '| run | step | logical | compiled | collectives | reason |',
      '| --- | ---: | ---: | ---: | --- | --- |',
      *lines,
      '',
    ]
  )


def _kinds(kinds: dict[str, int]) -> str:
  return ', '.join(f'{kind} {sent:,}' for kind, sent in kinds.items())


def on_terminal(summary: dict[str, Any]) -> Table:
  """The same for rich."""
  found = rows(summary)
  table = Table(header_style='bold')
  for heading in found[0]:
    table.add_column(heading, justify='left' if heading == 'run' else 'right')
  for row in found:
    table.add_row(*row.values())
  return table


def of_rows(rows: Sequence[dict[str, Any]]) -> str:
  """Markdown of rows with the same keys; numbers have three digits."""
  cells = [[_cell(value) for value in row.values()] for row in rows]
  lines = [list(rows[0]), ['---'] * len(rows[0]), *cells]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def _cell(value: Any) -> str:
  if value is None:
    return ''
  return f'{value:.3g}' if isinstance(value, float) else str(value)
