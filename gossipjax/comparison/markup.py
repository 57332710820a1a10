"""Names from files and configs as text in Markdown."""

import re
from collections.abc import Iterable, Mapping


def escaped(text: str) -> str:
  """Markdown that shows a text, such as a file's name, as it is."""
  return re.sub(r'[&<>|`\[\]\\]', lambda x: f'&#{ord(x[0])};', text)


def escaped_rows(rows: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
  """Rows of a table whose headings and cells are escaped."""
  return [{escaped(k): escaped(v) for k, v in row.items()} for row in rows]
