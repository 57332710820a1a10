"""Tables of what was measured on an accelerator, from its files alone."""

import json
import pathlib
from types import ModuleType
from typing import Any

import tabulate

from benchmarks.accelerator import measures, training
from experiments.framework.result_store import ResultStore
from gossipjax.errors import UserError


def of_folder(folder: pathlib.Path, parts: dict[str, ModuleType]) -> str:
  """Markdown: a table for each part that has been begun, then what failed
  and what was cut off, by the time limit or a crash. Measures of a rehearsal
  are shown where a part has no others.

  Raises:
    UserError: nothing was measured there.
  """
  sections = []
  for name, module in parts.items():
    section = _section(folder, name, module, False)
    section = section or _section(folder, name, module, True)
    sections += [section] if section else []
  if failed := measures.failures(folder):
    items = [
      f'- {entry["part"]} {entry["key"]}: {entry["error"]}' for entry in failed
    ]
    sections.append('## What failed\n\n' + '\n'.join(items) + '\n')
  if ended := measures.cut_off(folder):
    items = [f'- {entry["part"]} {entry["key"]}' for entry in ended]
    sections.append('## What was cut off\n\n' + '\n'.join(items) + '\n')
  if not sections:
    raise UserError(
      f'--out={folder} holds no measures; make some without --summary first.'
    )
  return '\n'.join(['# On an accelerator\n', *sections])


def _section(
  folder: pathlib.Path, name: str, module: ModuleType, rehearsed: bool
) -> str:
  """The table of a part's measures, rehearsed or not; '' if there are none."""
  lines = [
    line
    for line in ResultStore(folder).lines(name).values()
    if (measures.REHEARSED in line['key']) == rehearsed
  ]
  rows = (
    training.rows(folder, rehearsed)
    if module is training
    else module.rows(lines)
  )
  if not rows:
    return ''
  table = tabulate.tabulate(rows, headers='keys', tablefmt='github')
  machines = _machines(lines) if lines else ''
  title = f'{name}, rehearsed' if rehearsed else name
  return f'## {title}\n\n{machines}{table}\n'


def _machines(lines: list[dict[str, Any]]) -> str:
  """Describes the devices and versions of the measures, each once."""
  counts = {}
  for line in lines:
    made = line['made_with']
    versions, devices = made['versions'], made['devices']
    label = (
      f'{len(devices)} x {made.get("device_kind", devices[0])}, '
      f'Python {made["python"]}, jax {versions["jax"]}, commit '
      f'{made["commit"][:7]}{" (modified)" if "(" in made["commit"] else ""}'
    )
    counts[label] = counts.get(label, 0) + 1
  phrases = [f'{count} measures on {label}' for label, count in counts.items()]
  return f'{"; ".join(phrases)}.\n\n'


def write(folder: pathlib.Path, parts: dict[str, ModuleType]) -> str:
  """Writes summary.md, which it returns, and failures.jsonl with traces."""
  text = of_folder(folder, parts)
  (folder / 'summary.md').write_text(text)
  failed = [json.dumps(entry) for entry in measures.failures(folder)]
  (folder / 'failures.jsonl').write_text(''.join(f'{x}\n' for x in failed))
  return text
