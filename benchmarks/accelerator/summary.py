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
  and what was cut off, by the time limit or a crash.

  Raises:
    UserError: nothing was measured there.
  """
  found = []
  for name, module in parts.items():
    lines = [*ResultStore(folder).lines(name).values()]
    rows = _trained(folder) if module is training else module.rows(lines)
    if rows:
      table = tabulate.tabulate(rows, headers='keys', tablefmt='github')
      of = _machines(lines) if lines else ''
      found.append(f'## {name}\n\n{of}{table}\n')
  if failed := measures.failures(folder):
    told = [f'- {one["part"]} {one["key"]}: {one["error"]}' for one in failed]
    found.append('## What failed\n\n' + '\n'.join(told) + '\n')
  if ended := measures.cut_off(folder):
    told = [f'- {one["part"]} {one["key"]}' for one in ended]
    found.append('## What was cut off\n\n' + '\n'.join(told) + '\n')
  if not found:
    raise UserError(
      f'--out={folder} holds no measures; make some without --summary first.'
    )
  return '\n'.join(['# On an accelerator\n', *found])


def _trained(folder: pathlib.Path) -> list[dict[str, Any]]:
  """Returns rows of the scale gpu, or of a rehearsal if that has no runs."""
  return training.rows(folder, False) or training.rows(folder, True)


def _machines(lines: list[dict[str, Any]]) -> str:
  """Describes the devices and versions of the measures, each once."""
  told = {}
  for line in lines:
    made = line['made_with']
    versions, devices = made['versions'], made['devices']
    what = (
      f'{len(devices)} x {made.get("device_kind", devices[0])}, '
      f'Python {made["python"]}, jax {versions["jax"]}, commit '
      f'{made["commit"][:7]}{" (modified)" if "(" in made["commit"] else ""}'
    )
    told[what] = told.get(what, 0) + 1
  each = [f'{many} measures on {what}' for what, many in told.items()]
  return f'{"; ".join(each)}.\n\n'


def write(folder: pathlib.Path, parts: dict[str, ModuleType]) -> str:
  """Writes summary.md, which it returns, and failures.jsonl with traces."""
  text = of_folder(folder, parts)
  (folder / 'summary.md').write_text(text)
  failed = [json.dumps(one) for one in measures.failures(folder)]
  (folder / 'failures.jsonl').write_text(''.join(f'{x}\n' for x in failed))
  return text
