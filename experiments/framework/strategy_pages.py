"""The page of each strategy, for mkdocs: its docstring, bytes and results.

    python -m mkdocs build

Made from the docstrings of strategies and the data of experiments/results.
"""

import importlib
import inspect
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from experiments.framework import strategy_table
from gossipjax.advice import known_file
from gossipjax.comparison import markup
from gossipjax.comparison.scores import as_text
from gossipjax.config import arguments, resolve


def on_config(config: MkDocsConfig) -> MkDocsConfig:
  """Adds the pages to the navigation."""
  config.nav.append(
    {
      'Strategies': [
        'strategies/index.md',
        *({name: f'strategies/{name}.md'} for name in resolve.STRATEGIES),
      ]
    }
  )
  return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Adds the pages themselves."""
  files.append(File.generated(config, 'strategies/index.md', content=index()))
  for name in resolve.STRATEGIES:
    files.append(
      File.generated(config, f'strategies/{name}.md', content=page(name))
    )
  return files


def index() -> str:
  """Returns the index page: a table of all strategies."""
  rows = [
    {
      'strategy': f'[`{row.name}`]({row.name}.md)',
      'what it is': row.title,
      'bytes per step': row.bytes_per_step,
      'exchanges': row.exchanges,
    }
    for row in strategy_table.rows()
  ]
  return '\n'.join(
    [
      '# Strategies',
      '',
      'Bytes are what the busiest of 8 workers sends per step, over whole '
      'periods, for a CNN of 220,234 parameters, all at their defaults.',
      '',
      markup.of_rows(rows, left=['strategy', 'what it is', 'exchanges']),
      '',
    ]
  )


def page(name: str) -> str:
  """Returns the page of one strategy."""
  title, *rest = _doc(name).strip().split('\n\n')
  sent = strategy_table.mean_bytes(name)
  return '\n'.join(
    [
      f'# `{name}`',
      '',
      title,
      '',
      *_prose(rest),
      '## Arguments',
      '',
      *_arguments(name),
      '## Measured',
      '',
      f'Sends {sent} per step over whole periods, and exchanges '
      f'{strategy_table.exchanges(name)}: the busiest of 8 workers, a CNN of '
      '220,234 parameters, at the defaults.',
      '',
      *_results(name),
      '## Run it',
      '',
      f'    python run.py --config=configs/fashion_mnist.py:{name}',
      '',
      f'The code is `gossipjax/strategies/{name}.py`.',
      '',
    ]
  )


def _doc(name: str) -> str:
  return importlib.import_module(f'gossipjax.strategies.{name}').__doc__


def _prose(paragraphs: list[str]) -> Iterator[str]:
  """Yields Markdown; equations, which are indented, keep their form."""
  for paragraph in paragraphs:
    indented = all(line.startswith('  ') for line in paragraph.splitlines())
    yield from (
      ['```text', paragraph, '```', ''] if indented else [paragraph, '']
    )


def _arguments(name: str) -> Iterator[str]:
  function = importlib.import_module(f'gossipjax.strategies.{name}').strategy
  defaults = arguments.settings(function)
  texts = {
    key: f'`{value!r}`'
    for key, value in defaults.items()
    if not isinstance(value, dict)
  }
  rows = [
    {'argument': f'`{key}`', 'default': texts.get(key, 'see the code')}
    for key in inspect.signature(function).parameters
  ]
  if not rows:
    yield from ('None.', '')
    return
  if function.__doc__:
    text, _, args = inspect.cleandoc(function.__doc__).partition('\n\nArgs:\n')
    yield from (text, '', *(['```text', args, '```', ''] if args else []))
  yield from (markup.of_rows(rows), '')


def _results(name: str) -> Iterator[str]:
  rows = [
    {
      'run': f'{known.place} ({known.table})',
      'held out': as_text(known.score, known.value),
      'held out, all-reduce': as_text(known.score, known.dense),
    }
    for known in known_file.kept()
    if known.strategy == name
  ]
  sentence = 'Its convergence is in no table of claims yet.'
  yield from (markup.of_rows(rows, left=['run']) if rows else sentence, '')
