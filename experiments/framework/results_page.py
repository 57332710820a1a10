"""RESULTS.md: every claim in a row, from the tables of experiments/results.

python -m experiments.framework.results_page
"""

import pathlib
import re

from gossipjax.comparison import table
from gossipjax.results import workdir

ROOT = pathlib.Path(__file__).parents[2]
# By module: the claim, and what was published.
CLAIMS = {
  'gtopk_cost': (
    'gTop-k is faster than dense S-SGD and Top-k on 32 hosts with 1 GbE',
    '2.7 to 12 times, 1.1 to 1.7 times (arXiv:1901.04359)',
  ),
  'gtopk_mass': (
    "gTop-k's merge loses gradient mass, and keeping it raises accuracy "
    'at the largest P',
    'nothing; the lead is ours',
  ),
  'gtopk_scaling': (
    'gTop-k on a real, slow link takes what its cost model says',
    'a cost model fitted to 32 hosts (arXiv:1901.04359)',
  ),
  'train_1gbit': (
    'Behind a real link of 1 Gbit/s sending less is faster to an accuracy',
    'nothing; the question is ours',
  ),
  'async_crossover': (
    'Not waiting is faster up to about 32 workers, all-reduce beyond',
    'curves without a table (arXiv:1611.04581)',
  ),
  'stragglers': (
    'One slow worker does not slow those who do not wait',
    'curves without a table (arXiv:1611.04581)',
  ),
  'adaptive_gossip': (
    'Gossip that talks only after a change is as good as at every step, '
    'and better than a fixed period at the same bytes',
    '92 % less traffic, 52 % less time, accuracy kept (Ho 2018); nothing '
    'on a fixed period',
  ),
  'adaptive_time': (
    'Adaptive gossip saves half of the time where nobody waits',
    '52 % less time than gossip at every step (Ho 2018)',
  ),
  'hylo': (
    'Hylo is as accurate as dense, and faster',
    'less than 0.5 % of accuracy lost, up to 1.31 times as fast as others '
    '(Peng 2021)',
  ),
  'union_size': (
    'Workers can select so that the server has less to send',
    'smaller, without numbers (Wang 2018); the target is ours',
  ),
}
HEAD = """# Results

What was claimed, and what came out here. Each row is written by the command
`python -m experiments.NAME`, which goes on where it was stopped; the tables
say how it was measured, and with how many runs. Bytes are counted, seconds on
a link are modelled.

"""


WORDS = 'holds|does not hold|holds in [0-9]+ of [0-9]+|open'


def row(name: str, folder: pathlib.Path) -> dict[str, str]:
  """Of a claim whose table is in the folder."""
  claim, published = CLAIMS[name]
  text = (folder / name / 'table.md').read_text()
  sentence = re.search(r'^\*\*(.+)\*\*$', text, re.M)[1]
  word, ours = re.match(f'(?:({WORDS}): )?(.+)', sentence).groups()
  place = (folder / name / 'table.md').relative_to(folder.parents[2])
  return {
    'claim': claim,
    'published': published,
    'ours': ours,
    'verdict': word,
    'table': f'[{name}]({place})',
  }


def main() -> None:
  """Writes RESULTS.md of the claims that have a table."""
  folder = ROOT / 'experiments' / 'results'
  rows = [
    row(name, folder)
    for name in CLAIMS
    if (folder / name / 'table.md').exists()
  ]
  workdir.write(ROOT / 'RESULTS.md', HEAD + table.of_rows(rows) + '\n')


if __name__ == '__main__':
  main()
