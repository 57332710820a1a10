"""Error messages about a file system that is full, read-only or broken."""

import errno

# For each error, what is wrong and what to do; `again` says how to continue.
_MENDABLE = {
  errno.ENOSPC: 'the disk is full; make room, then {again}.',
  errno.EDQUOT: 'the disk quota is used up; make room, then {again}.',
  errno.EFBIG: 'a file would grow larger than ulimit -f allows; raise it, '
  'then {again}.',
  errno.EACCES: 'no permission; choose another folder.',
  errno.EROFS: 'the disk is read-only; choose another folder, or copy this '
  'one to where you can write.',
  errno.ENAMETOOLONG: 'the name is too long; choose a shorter one.',
  errno.ENOTDIR: 'a part of this path is not a folder; choose another.',
  errno.EISDIR: 'it is a folder where a file is needed; choose another.',
  errno.ENOENT: 'the file or folder does not exist; check the path.',
  errno.EIO: 'reading or writing the disk failed; repair it, then {again}.',
}


def explanation(error: OSError, again: str = '') -> str:
  """Returns what is wrong and what to do; '' for an error not listed here.

  Args:
    error: raised by an operation on files.
    again: how to continue, which ends some of the messages.
  """
  return _MENDABLE.get(error.errno or 0, '').format(again=again)
