"""A training on a real, slow network that exists on this machine only.

    python -m experiments.testbed --workers=4 --rate=1gbit -- \
        --config=configs/quickstart.py

Makes a network namespace per worker, starts `python -m gossipjax run` in each,
reads the counters of their interfaces around the training steps (the column of
wire bytes), and removes all of it, also after a failure or ctrl-C; after a kill
the next testbed does, or --clean. Linux, root, iproute2, pyroute2; nftables for
--loss; for --delay a kernel with sch_netem, or Debian's vde2.
"""

import argparse
import sys

from experiments.testbed import link_shape, network, processes
from gossipjax.errors import UserError


def main() -> int:
  parser = argparse.ArgumentParser(
    prog='python -m experiments.testbed', description=__doc__.split('\n')[0]
  )
  parser.add_argument('--workers', type=int, default=4)
  parser.add_argument('--rate', default='', help='such as 100mbit, 1gbit')
  parser.add_argument('--delay', default='', help='each way, such as 10ms')
  parser.add_argument('--loss', type=float, default=0.0, help='such as 0.01')
  parser.add_argument(
    '--clean', action='store_true', help='remove what a killed testbed has left'
  )
  parser.add_argument(
    'arguments', nargs='*', help='of `python -m gossipjax run`, after --'
  )
  args = parser.parse_args()
  try:
    if args.clean:
      print('Removed:', ', '.join(network.clean()) or 'nothing was left')
      return 0
    link = link_shape.parse(args.rate, args.delay, args.loss)
    return processes.train(args.workers, link, args.arguments)
  except UserError as error:
    print(error, file=sys.stderr)
    return 2


if __name__ == '__main__':
  sys.exit(main())
