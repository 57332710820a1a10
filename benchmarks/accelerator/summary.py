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
    found = _sections(folder, name, module, False)
    sections += found or _sections(folder, name, module, True)
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


def _sections(
  folder: pathlib.Path, name: str, module: ModuleType, rehearsed: bool
) -> list[str]:
  """A table of a part's measures, rehearsed or not, for each kind of device."""
  if module is training:
    title = f'{name}, rehearsed' if rehearsed else name
    table = _table(training.rows(folder, rehearsed), training.lines(folder))
    return [f'## {title}\n\n{table}\n'] if table else []
  by_device: dict[str, list[dict[str, Any]]] = {}
  for line in ResultStore(folder).lines(name).values():
    if (measures.REHEARSED in line['key']) == rehearsed:
      by_device.setdefault(line['key'].get('device', ''), []).append(line)
  sections = []
  for device, lines in by_device.items():
    title = ', '.join(filter(None, [name, device, 'rehearsed' * rehearsed]))
    sections.append(f'## {title}\n\n{_table(module.rows(lines), lines)}\n')
  return sections


def _table(rows: list[dict[str, Any]], lines: list[dict[str, Any]]) -> str:
  """The machines that made some lines, and a table; '' without rows."""
  if not rows:
    return ''
  table = tabulate.tabulate(rows, headers='keys', tablefmt='github')
  return f'{_machines(lines) if lines else ""}{table}'


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
