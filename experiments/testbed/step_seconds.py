"""Seconds of the steps of trainings, in network namespaces.

    python -m experiments.testbed.step_seconds --rate=500mbit --turns=2

compares, in turns, workers that never exchange, that wait for each exchange and
that exchange beside computing (config.overlap): by default local SGD whose
average is one step late, with --buckets all_reduce of each tensor's gradient
while those of earlier layers are computed. With overlap a late exchange should
take as long as the longer of computing and exchange; without, as long as both
together. Buckets can hide what is computed after the last layer's gradient.
Further flags, such as --config.task.layers=6, go to every training.
"""

import argparse
import itertools
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from experiments.testbed import link_shape, processes
from gossipjax.errors import UserError
from gossipjax.results import record_file, workdir

LATE = 'delayed_averaging', ()
BUCKETS = 'all_reduce', ('--config.strategy.granularity.name=layer',)
SILENT = 'delayed_averaging', ('--config.strategy.period=1000000',)
TASK = (
  '--config.task.width=2048',
  '--config.task.layers=2',
  '--config.batch_size=128',
  '--config.optimizer.momentum=0.0',
  '--config.optimizer.nesterov=False',
)
WAYS = ('computing', 'in turn', 'beside')


class Steps(NamedTuple):
  """Of one training.

  Attributes:
    seconds: of a step; the median over the intervals between records.
    wire_bytes: that left the busiest worker's interface, per step.
    logical_bytes: that the busiest worker sent by the ledger, per step.
  """

  seconds: float
  wire_bytes: float
  logical_bytes: float


def time_training(
  workers: int,
  link: link_shape.LinkShape,
  strategy: str,
  flags: Sequence[str],
  steps: int = 30,
  every: int = 10,
) -> Steps:
  """Trains with a worker in each namespace.

  Args:
    workers: how many.
    link: of each.
    strategy: its name.
    flags: further flags of `python -m gossipjax run`.
    steps: in all; those up to the first record are not counted.
    every: steps between two records; exchanges are waited for at each.

  Raises:
    UserError: a process failed.
  """
  with tempfile.TemporaryDirectory() as folder:
    words = [
      f'--config=configs/default.py:{strategy}',
      f'--config.steps={steps}',
      f'--config.log_every={every}',
      '--config.eval_every=0',
      '--config.checkpoint_every=0',
      f'--workdir={folder}/run',
      *flags,
    ]
    if code := processes.train(workers, link, words):
      raise UserError(f'A training ended with exit code {code}; see above.')
    records = record_file.read(
      pathlib.Path(folder, 'run', strategy, workdir.RECORDS)
    )
  pairs = list(itertools.pairwise(records))
  first, last = records[0], records[-1]
  done = last.step - first.step
  sent = lambda field: (
    (max(getattr(last, field)) - max(getattr(first, field))) / done
  )
  return Steps(
    statistics.median(
      (b.train_s - a.train_s) / (b.step - a.step) for a, b in pairs
    ),
    sent('wire_bytes'),
    sent('bytes_sent'),
  )


def main() -> int:
  parser = argparse.ArgumentParser(
    prog='python -m experiments.testbed.step_seconds',
    description=__doc__.split('\n')[0],
  )
  parser.add_argument('--workers', type=int, default=2)
  parser.add_argument('--rate', default='1gbit')
  parser.add_argument('--turns', type=int, default=2)
  parser.add_argument('--buckets', action='store_true')
  args, further = parser.parse_known_args()
  exchanging = BUCKETS if args.buckets else LATE
  found: dict[str, list[Steps]] = {way: [] for way in WAYS}
  try:
    link = link_shape.parse(args.rate)
    for _ in range(args.turns):
      for way in WAYS:
        name, flags = SILENT if way == 'computing' else exchanging
        flags = (
          *TASK,
          *flags,
          f'--config.overlap={way == "beside"}',
          *further,
        )
        found[way].append(time_training(args.workers, link, name, flags))
        print(f'{args.rate}, {way}: {found[way][-1]}', flush=True)
  except UserError as error:
    print(error, file=sys.stderr)
    return 2
  median = {
    way: statistics.median(one.seconds for one in each)
    for way, each in found.items()
  }
  exchange = median['in turn'] - median['computing']
  print(
    f'Seconds of a step: computing {median["computing"]:.3f}, exchange '
    f'{exchange:.3f}, in turn {median["in turn"]:.3f}, beside '
    f'{median["beside"]:.3f}; the longer of both is '
    f'{max(exchange, median["computing"]):.3f}.'
  )
  return 0


if __name__ == '__main__':
  sys.exit(main())
