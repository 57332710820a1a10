"""Markdown: tables, and names from files and configs as text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tabulate import tabulate


def escaped(text: str) -> str:
  """Markdown that shows a text, such as a file's name, as it is."""
  # An underscore within a word is one already.
  special = r'[&<>|`\[\]\\*~]|(?<![^\W_])_|_(?![^\W_])'
  return re.sub(special, lambda x: f'&#{ord(x[0])};', text)


def escaped_rows(rows: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
  """Rows of a table whose headings and cells are escaped."""
  return [{escaped(k): escaped(v) for k, v in row.items()} for row in rows]


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
