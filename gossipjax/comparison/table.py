"""Tables as Markdown, and the rows of a comparison's table."""

import functools
from collections.abc import Sequence
from typing import Any

from gossipjax.audit.audited_steps import MAX_SEARCHED_STEPS
from gossipjax.comparison import (
  answer_table,
  columns,
  over_seeds,
  scores,
  virtual_time,
)
from gossipjax.comparison.answer import Answer
from gossipjax.comparison.markup import escaped, escaped_rows, of_rows
from gossipjax.comparison.units import duration, loss, size
from gossipjax.config.variants import merged_by_name
from gossipjax.results.total_time import link_name, link_title

MAX_COLUMNS = 7  # Columns that a terminal of 80 characters shows whole.


def rows(summary: dict[str, Any]) -> list[dict[str, str]]:
  """A row per run, with headings as keys and cells as text.

  A run that diverged has 'diverged' as its first score and '' in other columns.

  Args:
    summary: of a comparison, as in summary.json.
  """
  summary = over_seeds.summary(summary)
  runs = summary['runs']
  higher = summary.get('higher_is_better', ())
  first = next(iter(scores.cells({}, runs, higher)))
  found = [
    {'run': run['name'], first: 'diverged'}
    if run.get('diverged')
    else _row(run, summary)
    for run in runs
  ]
  headings = max(found, key=len)
  return [dict.fromkeys(headings, '') | row for row in found]


def parts(rows: Sequence[dict[str, str]]) -> list[list[dict[str, str]]]:
  """Splits a table into tables of at most MAX_COLUMNS, each with the first."""
  first, *others = rows[0]
  return [
    [
      {k: row[k] for k in (first, *others[i : i + MAX_COLUMNS - 1])}
      for row in rows
    ]
    for i in range(0, len(others), MAX_COLUMNS - 1)
  ]


def _row(run: dict[str, Any], summary: dict[str, Any]) -> dict[str, str]:
  config, runs = summary['config'], summary['runs']
  speed = run['examples_per_s']  # None of a single step, which compiles.
  link = link_name(config)
  titles = {*map(link_title, merged_by_name(config).values())}
  on = f' on {min(titles)}' * (len(titles) == 1)
  return {
    'run': run['name'],
    **scores.cells(run, runs, summary.get('higher_is_better', ())),
    'train loss': loss(run['train_loss']),
    'consensus distance': f'{run["consensus_distance"]:.3g}',
    'sent per step (logical)': columns.per_step(run['bytes_sent'], run),
    **columns.inner(run, runs),
    **columns.wire(run, runs),
    **columns.exchanges(run),
    **columns.local(run, runs),
    'sent in all': size(run['bytes_sent']),
    **columns.evaluation(run, runs),
    'bytes over those of the first': _relative_bytes(run, summary),
    f'communication{on} (model)': duration(run['comm_s'][link]),
    **columns.hidden(run, runs, link),
    **columns.inner_seconds(run, summary),
    'examples/s here': f'{speed:,.0f}' if speed else '',
    **virtual_time.cells(run, runs),
  }


def _relative_bytes(run: dict[str, Any], summary: dict[str, Any]) -> str:
  """'' if either diverged or ended early, or if the first run sent nothing."""
  first = summary['runs'][0]
  configs = merged_by_name({**summary['config'], 'seeds': ()})
  for entry in (first, run):
    config = configs.get(over_seeds.variant(entry), entry)
    if entry.get('diverged') or entry['steps'] < config.get('steps', 0):
      return ''
  sent, least = run['bytes_sent'], first['bytes_sent']
  return f'{sent / least:.3g} x' if least else ''


NOTE = """
Bytes are those of the worker that sent most, counted from the messages that
were sent (logical; `--audit` compares them with the compiled program).
Communication seconds are modelled from them, as if nothing were computed
meanwhile; what config.overlap hides of them is a column of its own. Held-out
figures are those of the exact mean of the workers' models.
"""


def markdown(summary: dict[str, Any], answer: Answer | None) -> str:
  """The text of comparison.md.

  Args:
    summary: of a comparison, as in summary.json.
    answer: of the comparison, which comes first.
  """
  config = summary['config']
  span_of = functools.partial(span, summary)
  head = escaped(
    f'{config["task"]["name"]}, {span_of("workers")} workers, '
    f'{span_of("steps")} steps of {span_of("batch_size")} examples each, '
    f'{seeds(summary)}, commit {summary["commit"]}'
  )
  found = escaped_rows(rows(summary))
  return (
    f'# Comparison\n\n{head}\n\n{answer_table.markdown(answer)}'
    f'{of_rows(found, ("run",))}\n{NOTE}'
    f'{virtual_time.note(summary)}{escaped(diverged(summary))}'
    f'{audited(summary)}'
  )


def span(summary: dict[str, Any], key: str) -> str:
  """The value of a key in all configs, or the smallest to the largest."""
  configs = merged_by_name(summary['config']).values()
  values = sorted({config[key] for config in configs})
  return f'{values[0]}' if len(values) == 1 else f'{values[0]} to {values[-1]}'


def seeds(summary: dict[str, Any]) -> str:
  """'seed 0', or all seeds, with a remark that figures are means."""
  config = summary['config']
  if len(config.get('seeds') or ()) > 1:
    done = {run['seed'] for run in summary['runs'] if 'seed' in run}
    text = ', '.join(str(s) for s in config['seeds'] if not done or s in done)
    return f'seeds {text} (mean ± standard deviation)'
  numbers = sorted({run.get('seed', config['seed']) for run in summary['runs']})
  return f'seed{"s" * (len(numbers) > 1)} {", ".join(map(str, numbers))}'


def diverged(summary: dict[str, Any]) -> str:
  """Markdown: why some runs have no figures; '' if all have."""
  return ''.join(
    f'\n{run["name"]}: {run["diverged"]}\n'
    for run in summary['runs']
    if run.get('diverged')
  )


def audit_rows(summary: dict[str, Any]) -> list[dict[str, str]]:
  """A row per audited step, with headings as keys and cells as text."""
  return [
    {
      'run': run['name'],
      'step': str(row['step']),
      **columns.level(row, summary),
      'logical': f'{row["ledger"]:,}',
      'compiled': f'{row["compiled"]:,}',
      'collectives': _kinds(row['kinds']),
      'reason': row['reason'],
    }
    for run in summary['runs']
    for row in run.get('audit', ())
  ]


def audited(summary: dict[str, Any]) -> str:
  """Markdown: logical and compiled bytes, '' if no run was audited."""
  if not (found := audit_rows(summary)):
    return ''
  return (
    '\n## Audit\n\nBytes sent in a step by the worker where the two differ '
    f'most; a difference has a reason.{audit_note(summary)}\n\n'
    f'{of_rows(found, ("run", "bytes", "collectives", "reason"))}\n'
  )


def audit_note(summary: dict[str, Any]) -> str:
  """A space, and how many steps of longer runs were audited; '' if none is."""
  if all(run['steps'] <= MAX_SEARCHED_STEPS for run in summary['runs']):
    return ''
  most = f'{MAX_SEARCHED_STEPS:,}'
  return f' Of longer runs at most the first {most} steps were audited.'


def _kinds(kinds: dict[str, int]) -> str:
  return ', '.join(f'{kind} {sent:,}' for kind, sent in kinds.items())
