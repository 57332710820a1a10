"""The memory allocator of processes that exchange large arrays on a CPU.

Each result of 100 MB is newly allocated, and the system takes longer to provide
that memory than a CPU takes to fill it. tcmalloc keeps freed memory; glibc can
at least ask for pages of 2 MB.
"""

import ctypes.util
import os
import pathlib
import sys

LIBRARIES = ('tcmalloc_minimal', 'tcmalloc')
# Debian's package, and the name under which the loader finds its library.
PACKAGE, LIBRARY = 'libtcmalloc-minimal4', 'libtcmalloc_minimal.so.4'
# Large arrays in pages of 2 MB, with the allocator of glibc.
LARGE_PAGES = {'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1'}


def environment() -> dict[str, str]:
  """Variables for a child process; those of this process take precedence.

  They select tcmalloc where it is installed, else large pages.
  """
  library = tcmalloc()
  return {'LD_PRELOAD': library} if library else dict(LARGE_PAGES)


def tcmalloc() -> str | None:
  """The name under which the loader finds tcmalloc, None if it does not."""
  return next(filter(None, map(ctypes.util.find_library, LIBRARIES)), None)


def hint() -> str:
  """A sentence on how this process would run faster; '' if it does already."""
  if os.environ.get('LD_PRELOAD') or _loaded():
    return ''
  if LARGE_PAGES.items() <= os.environ.items():  # Nearly as fast.
    return ''
  library = tcmalloc()
  if library is None and sys.platform != 'linux':
    return ''
  first = '' if library else f'tcmalloc (Debian: apt install {PACKAGE}) and '
  return (
    f'With {first}LD_PRELOAD={library or LIBRARY} in front of the command, '
    'training on emulated devices is 8 to 16 % faster.'
  )


def _loaded() -> bool:
  maps = pathlib.Path('/proc/self/maps')
  return maps.exists() and 'tcmalloc' in maps.read_text()
