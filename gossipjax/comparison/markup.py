"""Names from files and configs as text in Markdown."""

import re


def escaped(text: str) -> str:
  """Markdown that shows a text, such as a file's name, as it is."""
  return re.sub(r'[&<>|`\[\]\\]', lambda x: f'&#{ord(x[0])};', text)
