"""The notes of a claim's page, from experiments/notes/NAME.md."""

import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / 'notes'


def of(name: str, **values: object) -> str:
  """Returns the notes of a claim, in Markdown.

  Args:
    name: of the claim's module.
    values: of the placeholders, as `str.format` takes them.

  Raises:
    KeyError: a placeholder has no value.
  """
  return (FOLDER / f'{name}.md').read_text('utf-8').strip().format(**values)
