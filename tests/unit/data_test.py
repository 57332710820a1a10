"""Data sets: real files are as published, damaged files are refused."""

import functools
import gzip
import hashlib
import http.server
import io
import lzma
import os
import pickle
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossipjax.data import cifar, files, idx, images, published, text, unpack
from gossipjax.errors import UserError
from tests.support import datasets


def real(name):
  return pytest.param(name, marks=datasets.needs(name))


# The real data sets: numbers from their authors and from many papers.

TRUTH = {
  'digits': ((1_500, 297), (8, 8, 1), [0, 1, 2, 3, 4], None),
  'mnist': (
    (60_000, 10_000),
    (28, 28, 1),
    [5, 0, 4, 1, 9],
    [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
  ),
  'fashion_mnist': (
    (60_000, 10_000),
    (28, 28, 1),
    [9, 0, 0, 3, 0],
    [6_000] * 10,
  ),
  'cifar10': ((50_000, 10_000), (32, 32, 3), [6, 9, 9, 4, 1], [5_000] * 10),
}


@pytest.mark.parametrize(
  'name', ['digits', *map(real, ('mnist', 'fashion_mnist', 'cifar10'))]
)
def test_a_real_data_set_has_its_published_shapes_labels_and_moments(
  name,
):
  data = images.load(name)
  totals, shape, first, counts = TRUTH[name]
  for (x, y), total in zip((data.train, data.test), totals, strict=True):
    assert x.shape == (total, *shape) and x.dtype == np.uint8
    assert y.shape == (total,) and y.dtype == np.int32
    assert set(np.unique(y)) == set(range(data.classes))
  x, y = data.train
  assert y[:5].tolist() == first
  assert counts is None or np.bincount(y).tolist() == counts
  assert x.max() == data.white
  for channel in range(x.shape[-1]):
    counts = np.bincount(x[..., channel].reshape(-1), minlength=256)
    values = np.arange(256) / data.white
    mean = np.average(values, weights=counts)
    std = np.average((values - mean) ** 2, weights=counts) ** 0.5
    assert abs(mean - data.mean[channel]) < 6e-6
    assert abs(std - data.std[channel]) < 6e-6


def test_digits_are_those_of_scikit_learn():
  from sklearn import datasets as theirs

  both = images.load('digits')
  x, y = (
    np.concatenate(each) for each in zip(both.train, both.test, strict=True)
  )
  digits = theirs.load_digits()
  np.testing.assert_array_equal(x[..., 0], digits.images)
  np.testing.assert_array_equal(y, digits.target)


@pytest.mark.parametrize('name', [real('cifar10')])
def test_a_cifar10_image_has_its_channels_and_rows_in_order(name):
  frog = images.load(name).train[0][0]
  assert frog[0, 0].tolist() == [59, 62, 63]
  assert frog[0, 1].tolist() == [43, 46, 45]
  assert frog[31, 31].tolist() == [123, 92, 72]


@pytest.mark.parametrize('name', [real('tinyshakespeare')])
def test_tinyshakespeare_is_split_at_nine_tenths(name):
  data = text.load(name)
  assert bytes(data.train[:14]) == b'First Citizen:'
  assert (len(data.train), len(data.test)) == (1_003_854, 111_540)
  assert data.valid is None


@pytest.mark.parametrize('name', [real('gutenberg13')])
def test_a_text_folder_with_three_splits_keeps_their_sizes(name):
  assert [len(part) for part in text.load(name)] == [
    5_433_784,
    292_578,
    297_868,
  ]


def test_a_process_reads_a_data_set_once_into_read_only_arrays(small):
  del small
  first, again = images.load('mnist'), images.load('mnist')
  assert first.train[0] is again.train[0]
  with pytest.raises(ValueError, match='read-only'):
    first.train[0][0] = 0


# Intact and damaged files, plain and compressed: a small data set in MNIST's
# format.


def pack_idx(array):
  return (
    bytes([0, 0, 8, array.ndim])
    + struct.pack(f'>{array.ndim}I', *array.shape)
    + array.tobytes()
  )


def sha256(data):
  return hashlib.sha256(data).hexdigest()


def small_files():
  random = np.random.default_rng(0)
  parts = [
    random.integers(0, 256, (30, 28, 28), np.uint8),
    np.arange(30, dtype=np.uint8) % 10,
    random.integers(0, 256, (10, 28, 28), np.uint8),
    np.arange(10, dtype=np.uint8),
  ]
  return {
    name: pack_idx(part)
    for name, part in zip(published.IDX, parts, strict=True)
  }


SMALL = small_files()
COMPRESSED = {
  f'{name}.gz': gzip.compress(data, mtime=0) for name, data in SMALL.items()
}
SOURCE = files.PublishedData(
  'mnist',
  '',
  {name: sha256(data) for name, data in COMPRESSED.items()},
  {name: sha256(data) for name, data in SMALL.items()},
  ('MNIST/raw',),
)
IMAGES, LABELS = published.IDX[0], published.IDX[1]


def put(folder, contents):
  folder.mkdir(parents=True, exist_ok=True)
  for name, data in contents.items():
    (folder / name).write_bytes(data)
  return folder


@pytest.fixture
def small(tmp_path, monkeypatch):
  """The small data set under the name mnist, in $GOSSIPJAX_DATA."""
  monkeypatch.setitem(images.SOURCES, 'mnist', SOURCE)
  monkeypatch.setenv('GOSSIPJAX_DATA', str(tmp_path))
  return put(tmp_path / 'mnist', COMPRESSED)


@pytest.mark.parametrize(
  'suffix, pack', [('', bytes), ('.gz', gzip.compress), ('.xz', lzma.compress)]
)
def test_a_file_may_be_plain_or_gz_or_xz(tmp_path, suffix, pack):
  put(tmp_path, {name + suffix: pack(data) for name, data in SMALL.items()})
  assert files.contents(SOURCE, tmp_path) == SMALL


@pytest.mark.parametrize('place', ['', 'mnist', 'MNIST/raw'])
def test_data_dir_is_the_folder_of_the_files_or_one_above_it(tmp_path, place):
  put(tmp_path / place, COMPRESSED)
  assert files.folder(SOURCE, str(tmp_path)) == tmp_path / place


def test_data_dir_takes_precedence_over_the_environment(tmp_path, small):
  mine = put(tmp_path / 'mine', COMPRESSED)
  assert files.folder(SOURCE, str(mine)) == mine
  assert files.folder(SOURCE) == small


def test_a_data_dir_without_the_data_set_is_refused_not_ignored(
  tmp_path, small
):
  del small
  empty = put(tmp_path / 'empty', {})
  with pytest.raises(UserError, match=r"^data\.dir.*train-images.*empty'"):
    files.folder(SOURCE, str(empty))


@pytest.mark.parametrize(
  'suffix, pack', [('.gz', gzip.compress), ('.xz', lzma.compress)]
)
@pytest.mark.parametrize('keep', [0, 3, 100, -1])
def test_the_error_for_a_truncated_file_names_it(tmp_path, suffix, pack, keep):
  put(tmp_path, SMALL)
  (tmp_path / IMAGES).unlink()
  put(tmp_path, {IMAGES + suffix: pack(SMALL[IMAGES])[:keep]})
  with pytest.raises(UserError, match=f'{IMAGES}{suffix}.*move it away'):
    files.contents(SOURCE, tmp_path)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, len(COMPRESSED[f'{LABELS}.gz']) - 1))
def test_a_changed_byte_of_a_compressed_file_is_refused_or_harmless(
  tmp_path_factory, at
):
  data = bytearray(COMPRESSED[f'{LABELS}.gz'])
  data[at] ^= 255
  place = put(
    tmp_path_factory.mktemp('changed'),
    COMPRESSED | {f'{LABELS}.gz': bytes(data)},
  )
  try:  # A gzip header's date and flags are not contents.
    assert files.contents(SOURCE, place) == SMALL
  except UserError as refusal:
    assert LABELS in str(refusal)


def test_the_error_for_other_contents_has_both_checksums(tmp_path):
  other = SMALL[LABELS][:-1] + b'\x00'
  put(tmp_path, SMALL | {LABELS: other})
  with pytest.raises(UserError) as refusal:
    files.contents(SOURCE, tmp_path)
  for word in (LABELS, sha256(other), sha256(SMALL[LABELS]), 'move it away'):
    assert word in str(refusal.value)


def test_the_error_for_a_missing_file_of_a_data_set_names_it(tmp_path):
  put(tmp_path, SMALL)
  (tmp_path / LABELS).unlink()
  with pytest.raises(UserError, match=f'{LABELS}.*missing'):
    files.contents(SOURCE, tmp_path)


def test_an_idx_file_with_a_wrong_magic_number_is_refused():
  floats = b'\x00\x00\x0d\x01' + struct.pack('>I', 1) + bytes(4)
  for data in (floats, b'', b'\x1f\x8b\x08\x00', pickle.dumps([1])):
    with pytest.raises(UserError, match=r"'labels'.*000008"):
      idx.parse(data, 'labels')


def test_an_idx_file_whose_length_contradicts_its_header_is_refused():
  whole = pack_idx(np.zeros((3, 2), np.uint8))
  for data in (whole[:-1], whole + b'\x00', whole[:6]):
    with pytest.raises(UserError, match=r"'labels'.*truncated"):
      idx.parse(data, 'labels')


# CIFAR's binary version.


def records(total, classes):
  labels = np.arange(total, dtype=np.uint8)[:, None] % classes
  coarse = labels // 5 if classes == 100 else labels[:, :0]
  pixels = np.random.default_rng(total).integers(
    0, 256, (total, 3072), np.uint8
  )
  return np.concatenate([coarse, labels, pixels], 1).tobytes()


@pytest.mark.parametrize('classes', [10, 100])
def test_cifar_records_yield_fine_labels_and_channels_last(classes):
  data = records(120, classes)
  x, y = cifar.parse(data, 'train.bin', classes)
  assert y.tolist() == [i % classes for i in range(120)]
  before = 2 if classes == 100 else 1
  size = before + 3072
  green = size * 7 + before + 1024 + 32 * 5 + 9
  assert x[7, 5, 9, 1] == data[green]


def test_the_error_for_a_damaged_cifar_file_names_it():
  whole = records(4, 10)
  for broken in (b'', whole[:-1], b'\x0a' + whole[1:]):
    with pytest.raises(UserError, match=r"'test\.bin'"):
      cifar.parse(broken, 'test.bin', 10)


def archive(members, top='cifar-100-binary'):
  packed = io.BytesIO()
  with tarfile.open(fileobj=packed, mode='w:gz', compresslevel=1) as tar:
    for name, data in members.items():
      info = tarfile.TarInfo(f'{top}/{name}')
      info.size = len(data)
      tar.addfile(info, io.BytesIO(data))
  return packed.getvalue()


TAR = 'cifar-100-binary.tar.gz'


def as_published(monkeypatch, contents):
  """Makes these contents the published ones of CIFAR-100."""
  digests = {name: sha256(data) for name, data in contents.items()}
  source = images.SOURCES['cifar100']._replace(files=digests)
  monkeypatch.setitem(images.SOURCES, 'cifar100', source)


def test_the_official_archive_of_cifar_is_read_without_unpacking(
  tmp_path, monkeypatch
):
  contents = {'train.bin': b'of train', 'test.bin': b'of test'}
  as_published(monkeypatch, contents)
  put(tmp_path, {TAR: archive(contents | {'fine_label_names.txt': b'apple'})})
  assert files.contents(images.SOURCES['cifar100'], tmp_path) == contents
  assert os.listdir(tmp_path) == [TAR]


def test_the_order_of_files_does_not_depend_on_the_archive(
  tmp_path, monkeypatch
):
  """CIFAR-10's archive begins with data_batch_4 and has test_batch third."""
  contents = {'train.bin': b'of train', 'test.bin': b'of test'}
  as_published(monkeypatch, contents)
  put(tmp_path, {TAR: archive(dict(reversed(contents.items())))})
  read = files.contents(images.SOURCES['cifar100'], tmp_path)
  assert list(read.items()) == list(contents.items())


def archive_with_a_long_name(length):
  packed = io.BytesIO()
  with tarfile.open(
    fileobj=packed, mode='w:gz', format=tarfile.GNU_FORMAT
  ) as tar:
    tar.addfile(tarfile.TarInfo('a' * length))
  return packed.getvalue()


@pytest.mark.parametrize(
  'packed',
  [
    archive({'train.bin': bytes(3 << 20)}),
    archive({'of_nobody': bytes(1 << 19), 'train.bin': bytes(1 << 19)}),
    archive_with_a_long_name(3 << 20),
  ],
)
def test_an_archive_that_unpacks_to_too_many_bytes_is_refused(
  packed, tmp_path, monkeypatch
):
  monkeypatch.setattr(unpack, 'MAX_BYTES', 1 << 20)
  put(tmp_path, {TAR: packed})
  with pytest.raises(UserError, match='unpacks to more than 1,048,576 bytes'):
    files.contents(images.SOURCES['cifar100'], tmp_path)


@pytest.mark.parametrize(
  'broken',
  [
    archive({'train.bin': bytes(4_000)}),
    archive({'train.bin': os.urandom(4_000), 'test.bin': b'b'})[:2_000],
    b'<html>Not found</html>',
  ],
)
def test_the_error_for_a_damaged_archive_names_it(tmp_path, broken):
  put(tmp_path, {TAR: broken})
  with pytest.raises(UserError, match=TAR):
    files.contents(images.SOURCES['cifar100'], tmp_path)


def test_an_incomplete_cifar_100_is_refused(tmp_path, monkeypatch):
  contents = {'train.bin': records(500, 100), 'test.bin': records(100, 100)}
  as_published(monkeypatch, contents)
  put(tmp_path, contents)
  with pytest.raises(UserError, match='500 images of every class'):
    images.load('cifar100', str(tmp_path))


def test_nothing_is_ever_unpickled(tmp_path, monkeypatch):
  class Trap:
    def __reduce__(self):
      return (tmp_path / 'sprung').touch, ()

  contents = {
    name: pickle.dumps(Trap()) for name in images.SOURCES['cifar100'].files
  }
  as_published(monkeypatch, contents)
  put(tmp_path, contents)
  with pytest.raises(UserError):
    images.load('cifar100', str(tmp_path))
  assert not (tmp_path / 'sprung').exists()


def test_the_error_for_an_unknown_data_set_suggests_the_nearest():
  with pytest.raises(UserError, match="did you mean 'cifar10'"):
    images.load('cifar-10')


# Downloads, from a real server on this machine.


class Server:
  """Serves a folder and lists requests; can delay and truncate answers."""

  def __init__(self, folder):
    self.asked, self.cut, self.delay_s, owner = [], False, 0, self

    class Handler(http.server.SimpleHTTPRequestHandler):
      def do_GET(self):
        owner.asked.append(self.path)
        time.sleep(owner.delay_s)
        if not owner.cut:
          return super().do_GET()
        self.send_response(200)
        self.send_header('Content-Length', '1000')
        self.end_headers()
        self.wfile.write(b'short')

      def log_message(self, *_):
        pass

    handler = functools.partial(Handler, directory=str(folder))
    self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
    self.source = SOURCE._replace(
      url=f'http://127.0.0.1:{self.http.server_port}/'
    )
    threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(tmp_path, monkeypatch):
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
  monkeypatch.delenv('GOSSIPJAX_DATA', raising=False)
  monkeypatch.setenv('NO_PROXY', '127.0.0.1')
  server = Server(put(tmp_path / 'published', COMPRESSED))
  yield server
  server.http.shutdown()
  server.http.server_close()


def fetch(source):
  return files.contents(source, files.folder(source))


def test_a_missing_data_set_is_downloaded_once_without_output(server, capfd):
  assert fetch(server.source) == SMALL
  assert sorted(server.asked) == sorted(f'/{name}' for name in COMPRESSED)
  assert fetch(server.source) == SMALL
  assert len(server.asked) == len(COMPRESSED)
  assert capfd.readouterr() == ('', '')  # no terminal, so no progress bar


@pytest.mark.exhaustive
def test_concurrent_processes_download_a_data_set_once(server):
  program = (
    'from gossipjax.data import download; download.fetch("small", '
    f'{server.source.url!r}, {dict(server.source.downloads)!r})'
  )
  server.delay_s = 1
  both = [subprocess.Popen([sys.executable, '-c', program]) for _ in range(2)]
  assert [process.wait() for process in both] == [0, 0]
  assert sorted(server.asked) == sorted(f'/{name}' for name in COMPRESSED)


def test_a_complete_cache_is_used_without_a_lock(server):
  place = files.folder(server.source)
  lock = place.with_name(f'{place.name}.lock')
  lock.unlink()
  lock.mkdir()  # Not even root can lock a folder.
  assert fetch(server.source) == SMALL


def test_a_data_set_missing_from_gossipjax_data_is_downloaded(
  server, tmp_path, monkeypatch
):
  monkeypatch.setenv('GOSSIPJAX_DATA', str(put(tmp_path / 'other', {})))
  assert fetch(server.source) == SMALL


def test_a_damaged_file_in_the_cache_is_downloaded_again(server):
  place = files.folder(server.source)
  (place / f'{IMAGES}.gz').write_bytes(b'damaged')
  assert fetch(server.source) == SMALL


def test_a_download_with_a_wrong_checksum_is_refused_and_not_kept(
  server, tmp_path
):
  put(tmp_path / 'published', {f'{IMAGES}.gz': gzip.compress(b'other')})
  with pytest.raises(UserError, match=rf'{IMAGES}\.gz.*SHA-256.*data\.dir'):
    files.folder(server.source)
  assert not list((tmp_path / 'cache').rglob(f'*{IMAGES}*'))


def test_an_incomplete_download_is_refused_and_not_kept(server, tmp_path):
  server.cut = True
  with pytest.raises(UserError, match=rf'{IMAGES}\.gz cannot be downloaded'):
    files.folder(server.source)
  assert not list((tmp_path / 'cache').rglob('*ubyte*'))


def test_the_error_for_a_file_the_server_lacks_has_the_http_status(
  server, tmp_path
):
  (tmp_path / 'published' / f'{IMAGES}.gz').unlink()
  with pytest.raises(UserError, match=rf'{IMAGES}\.gz.*404.*data\.dir'):
    files.folder(server.source)


def test_the_error_for_an_unreachable_server_has_its_address(server):
  with socket.socket() as taken:  # Bound, but not listening.
    taken.bind(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{taken.getsockname()[1]}/'
    with pytest.raises(UserError, match=rf'^{url}.*data\.dir'):
      files.folder(server.source._replace(url=url))


def test_the_error_for_an_unwritable_cache_has_its_path(
  server, tmp_path, monkeypatch
):
  put(tmp_path, {'file': b''})
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
  with pytest.raises(UserError, match=r'file.*XDG_CACHE_HOME'):
    files.folder(server.source)


# Text.


def test_windows_make_every_byte_but_the_first_a_target_once():
  data = np.arange(100, dtype=np.uint8)
  rows = text.windows(data, 9)
  assert rows.shape == (11, 10)
  assert rows[:, 1:].reshape(-1).tolist() == list(range(1, 100))
  assert (rows[:, 1:] == rows[:, :-1] + 1).all()


@pytest.mark.parametrize('sequence', [0, 100, 101])
def test_a_sequence_length_that_does_not_fit_the_text_is_refused(sequence):
  with pytest.raises(UserError, match=r'^task\.sequence must be .* 99'):
    text.windows(np.zeros(100, np.uint8), sequence)


def test_a_text_may_be_any_file_decompressed_by_its_suffix(tmp_path):
  data = bytes(range(256)) * 4
  put(tmp_path, {'book.txt': data, 'book.gz': gzip.compress(data)})
  for name in ('book.txt', 'book.gz'):
    train, _, test = text.load(name, str(tmp_path))
    assert bytes(np.concatenate([train, test])) == data
    assert len(train) == 921


def test_a_missing_or_empty_text_is_refused(tmp_path):
  put(tmp_path, {'empty.txt': b''})
  put(tmp_path / 'two', {'train.txt': b'a', 'valid.txt': b'b'})
  for name, word in (
    ('empty.txt', 'is empty'),
    ('none.txt', 'there is no'),
    ('two', r'test\.txt.*missing'),
  ):
    with pytest.raises(UserError, match=rf'^task\.file.*{word}'):
      text.load(name, str(tmp_path))


@pytest.mark.parametrize(
  'suffix, pack', [('.gz', gzip.compress), ('.xz', lzma.compress)]
)
def test_a_file_that_unpacks_to_too_many_bytes_is_refused(
  suffix, pack, tmp_path
):
  path = tmp_path / f'bomb{suffix}'
  path.write_bytes(pack(bytes(2**26)))
  with pytest.raises(UserError, match='unpacks to more than'):
    files.unpack(path)
  path.write_bytes(pack(b'one') + pack(b'two'))
  assert files.unpack(path) == b'onetwo'


def test_every_published_file_has_a_sha256_and_an_https_url():
  for source in (*images.SOURCES.values(), text.SHAKESPEARE):
    assert source.url.startswith('https://')
    for digest in (*source.downloads.values(), *source.files.values()):
      assert len(bytes.fromhex(digest)) == 32
