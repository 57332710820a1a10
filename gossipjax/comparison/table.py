"""Tables as Markdown, and the rows of a comparison's table."""

from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from gossipjax.comparison import over_seeds, scores, virtual_time
from gossipjax.comparison.markup import escaped, escaped_rows

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
  """A row per run, with headings as keys and cells as text.

  A run that diverged has 'diverged' as its first score and '' in other columns.

  Args:
    summary: of a comparison, as in summary.json.
  """
  summary = over_seeds.summary(summary)
  runs = summary['runs']
  first = next(iter(scores.cells({}, runs, ())))
  found = [
    {'run': run['name'], first: 'diverged'}
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
    **scores.cells(run, runs, summary.get('higher_is_better', ())),
    'train loss': f'{run["train_loss"]:.4f}',
    'consensus distance': f'{run["consensus_distance"]:.3g}',
    'sent per step (logical)': size(run['bytes_sent'] / run['steps']),
    **_wire(run, runs),
    **_exchanges(run),
    **_local(run, runs),
    'sent in all': size(run['bytes_sent']),
    'against the first': ''
    if runs[0].get('diverged')
    else (f'{run["bytes_sent"] / least:.3g} x'),
    f'communication on {link} (model)': duration(run['comm_s'][link]),
    'examples/s here': f'{run["examples_per_s"] or 0:,.0f}',
    **virtual_time.cells(run, runs),
  }


def _exchanges(run: dict[str, Any]) -> dict[str, str]:
  """How often a run exchanged; runs of older versions did not count that."""
  if run.get('exchanges') is None:
    return {}
  return {'exchanges': f'{run["exchanges"]} in {run["steps"]} steps'}


def _local(
  run: dict[str, Any], runs: Sequence[dict[str, Any]]
) -> dict[str, str]:
  """A column if workers of any run form groups."""
  if not any(r.get('bytes_local') for r in runs):
    return {}
  sent = run.get('bytes_local')
  return {'of it within groups': size(sent / run['steps']) if sent else ''}


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
were sent (logical; `--audit` compares them with the compiled program).
Communication seconds are modelled from them, as if nothing were computed
meanwhile. Held-out figures are those of the exact mean of the workers' models.
"""


def markdown(summary: dict[str, Any]) -> str:
  """The text of comparison.md.

  Args:
    summary: of a comparison, as in summary.json.
  """
  config = summary['config']
  head = escaped(
    f'{config["task"]["name"]}, {config["workers"]} workers, '
    f'{config["steps"]} steps of {config["batch_size"]} examples each, '
    f'{seeds(config)}, commit {summary["commit"]}'
  )
  found = escaped_rows(rows(summary))
  return (
    f'# Comparison\n\n{head}\n\n{of_rows(found, ("run",))}\n{NOTE}'
    f'{virtual_time.note(summary)}{escaped(diverged(summary))}'
    f'{audited(summary)}'
  )


def seeds(config: dict[str, Any]) -> str:
  """'seed 0', or all seeds and what is said of them."""
  if not (found := config.get('seeds')):
    return f'seed {config["seed"]}'
  told = ', '.join(map(str, found))
  return f'seeds {told} (mean ± standard deviation)'


def diverged(summary: dict[str, Any]) -> str:
  """Markdown: why some runs have no figures; '' if all have."""
  return ''.join(
    f'\n{run["name"]}: {run["diverged"]}\n'
    for run in summary['runs']
    if run.get('diverged')
  )


def audited(summary: dict[str, Any]) -> str:
  """Markdown: logical and compiled bytes, '' if no run was audited."""
  found = [
    {
      'run': run['name'],
      'step': row['step'],
      'logical': f'{row["ledger"]:,}',
      'compiled': f'{row["compiled"]:,}',
      'collectives': _kinds(row['kinds']),
      'reason': row['reason'],
    }
    for run in summary['runs']
    for row in run.get('audit', ())
  ]
  if not found:
    return ''
  return (
    '\n## Audit\n\nBytes sent in a step by the worker where the two differ '
    'most; a difference has a reason.\n\n'
    f'{of_rows(found, ("run", "collectives", "reason"))}\n'
  )


def _kinds(kinds: dict[str, int]) -> str:
  return ', '.join(f'{kind} {sent:,}' for kind, sent in kinds.items())


def of_rows(
  rows: Sequence[dict[str, Any]], left: Sequence[str] | None = None
) -> str:
  """Markdown of at least one row; floats have three digits, None is ''.

  Args:
    rows: dicts with the same keys, which are the headings.
    left: columns to align left, others right; None aligns text left and
      numbers right.
  """
  if left is None:
    left = [name for row in rows for name in row if isinstance(row[name], str)]
  return tabulate(
    [[_cell(value) for value in row.values()] for row in rows],
    headers=list(rows[0]),
    tablefmt='pipe',
    disable_numparse=True,
    colalign=['left' if name in left else 'right' for name in rows[0]],
  )


def _cell(value: Any) -> str:
  if value is None:
    return ''
  text = f'{value:.3g}' if isinstance(value, float) else str(value)
  return text.replace('|', r'\|')
