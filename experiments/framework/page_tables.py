"""Tables in pages that are otherwise written by hand.

A page has a line `<!-- NAME: COMMAND -->` before each table and a line
`<!-- end of NAME -->` after it.
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from gossipjax.errors import UserError

COMMAND = 'python -m experiments.framework.results_page'


def filled(page: pathlib.Path, tables: Mapping[str, str]) -> str:
  """Returns the text of a page with these tables, by name.

  Raises:
    UserError: the page lacks one of their marks, or has it twice.
  """
  text = page.read_text()
  for name, table in tables.items():
    begin, end = f'<!-- {name}: {COMMAND} -->\n', f'\n<!-- end of {name} -->'
    if text.count(begin) != 1 or text.count(end) != 1:
      raise UserError(f'{page.name} lacks {begin.strip()} or {end.strip()}.')
    before, _, rest = text.partition(begin)
    text = f'{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}'
  return text


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
