"""Damaged files of data, links and traces: the run is refused, or trains.

A run with a compressed file must be refused if its content has changed.
"""

import gzip
import json
import lzma
import pathlib
import random
import struct
import zlib

from gossipjax.data.published import IDX
from gossipjax.errors import USER_ERROR_EXIT
from tests.campaign import verdict
from tests.campaign.damage import damage
from tests.support import program

UNPACK = {'.gz': gzip.decompress, '.xz': lzma.decompress}
TRACED = """
from gossipjax.config import defaults
def get_config():
  config = defaults.get_config('pull_gossip')
  config.steps, config.workers = 20, 4
  config.cluster = defaults.cluster(compute='trace', trace='{trace}')
  return config
"""


def attempt(seed: int, folder: pathlib.Path, shared: pathlib.Path) -> str:
  """Damages a file that a run reads; returns what went wrong, if anything."""
  del shared
  rng = random.Random(seed)
  path, words = rng.choice([_text, _images, _link, _trace])(rng, folder)
  before = path.read_bytes()
  how = damage(path, rng)
  words += ['--config.steps=2', f'--workdir={folder / "run"}']
  ended = program.start(folder / 'told', *words, **program.QUICKLY).end(
    verdict.LIMIT_S
  )
  found = verdict.of(ended)
  if not found and ended.code != USER_ERROR_EXIT and _changed(path, before):
    found = 'trained with other data than were compressed'
  return verdict.told(found and f'{how}: {found}', words)


def _changed(path: pathlib.Path, before: bytes) -> bool:
  """Whether the content of a compressed file has changed or is unreadable."""
  if path.suffix not in UNPACK:
    return False
  unpack = UNPACK[path.suffix]
  try:
    return unpack(path.read_bytes()) != unpack(before)
  except (OSError, EOFError, zlib.error, lzma.LZMAError):
    return True


def _text(rng: random.Random, folder: pathlib.Path):
  suffix, pack = rng.choice(
    [('', bytes), ('.gz', gzip.compress), ('.xz', lzma.compress)]
  )
  path = folder / f'book{suffix}'
  path.write_bytes(
    pack(b'Call me Ishmael. Some years ago, never mind.\n' * 200)
  )
  words = ['--config=configs/text.py:gtopk', f'--config.task.file={path}']
  return path, [*words, '--config.task.sequence=16', '--config.workers=2']


def _images(rng: random.Random, folder: pathlib.Path):
  for name, shape in zip(IDX, ((64, 28, 28), (64,)) * 2, strict=True):
    head = struct.pack(f'>4B{len(shape)}I', 0, 0, 8, len(shape), *shape)
    labels = bytes(rng.randrange(10) for _ in range(64))
    packed = gzip.compress(
      head + (rng.randbytes(64 * 784) if len(shape) == 3 else labels)
    )
    (folder / f'{name}.gz').write_bytes(packed)
  words = ['--config=configs/fashion_mnist.py', f'--config.data.dir={folder}']
  return folder / f'{rng.choice(IDX)}.gz', words


def _link(rng: random.Random, folder: pathlib.Path):
  path = folder / 'link.json'
  path.write_text(json.dumps({'latency_s': 1e-3, 'bytes_per_s': 1.25e8}))
  return path, ['--config=configs/default.py', f'--config.link={path}']


def _trace(rng: random.Random, folder: pathlib.Path):
  path = folder / 'trace.txt'
  path.write_text(''.join(f'{rng.uniform(0.01, 0.2):.6f}\n' for _ in range(20)))
  (folder / 'traced.py').write_text(TRACED.format(trace=path))
  return path, [f'--config={folder}/traced.py']
