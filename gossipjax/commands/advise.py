"""Predicts which strategy is fastest on a model, this machine and a link.

    python -m gossipjax advise --config=configs/cifar10.py --workers=16 \\
        --link=10gbe
    python -m gossipjax advise --config=configs/cifar10.py --workers=16 \\
        --latency-s=0.0001 --bytes-per-s=2e8 --plot

Measures what a step costs one worker here, counts what the strategy would send
(neither needs the other workers), and models the link. --link may also be a
JSON file with latency_s and bytes_per_s. Communication does not overlap with
computing, as in training.
"""

from collections.abc import Sequence
from typing import Any

from absl import flags
from ml_collections import config_flags

from gossipjax.advice import advise
from gossipjax.advice.forecast import rows
from gossipjax.commands import command_line
from gossipjax.comparison import table
from gossipjax.errors import require


def start(words: Sequence[str]) -> None:
  """Advises as the words after `advise` say."""
  command_line.start(__doc__, define_flags, main, words)


def define_flags() -> None:
  """Defines the flags, which must not meet those of another command."""
  config_flags.DEFINE_config_file('config', None, 'Model, data, strategies.')
  flags.DEFINE_integer('workers', None, "How many; default: the config's.")
  flags.DEFINE_string(
    'link', None, "A preset, or a JSON file; default: the config's."
  )
  flags.DEFINE_float('latency_s', None, 'Seconds a message, of another link.')
  flags.DEFINE_float('bytes_per_s', None, 'Bandwidth of another link.')
  flags.DEFINE_bool('plot', False, 'Draw seconds per step against bandwidth.')
  flags.DEFINE_string('out', 'advice.png', 'Where to draw.')


def main(argv: Sequence[str], interrupted: Any) -> None:
  """Prints a row per strategy, warnings and a verdict.

  Raises:
    UserError: the flags or the config cannot be followed.
  """
  del argv, interrupted
  given = flags.FLAGS
  if given.plot:
    require('report')
  config, name = command_line.config()
  link = advise.chosen_link(
    given.link, given.latency_s, given.bytes_per_s, config.link
  )
  if given.workers is not None:
    config.workers = given.workers
  config.executor = 'vmap'  # Only one worker computes.
  found = advise.forecasts(config)
  print(
    f'{name}, {config.workers} workers, batches of {config.batch_size}; '
    f'link: {link.latency_s:.3g} s, {table.size(link.bytes_per_s)}/s\n'
  )
  print(table.of_rows(rows(found, link)) + '\n')
  for line in advise.warnings(found):
    print(line)
  print(advise.verdict(found, link))
  if given.plot:
    from gossipjax.advice.bandwidth_figure import draw  # Needs matplotlib.

    draw(found, link).savefig(given.out, dpi=120)
    print(f'Seconds per step against bandwidth: {given.out}')
