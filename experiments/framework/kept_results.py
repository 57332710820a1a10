"""Results that are computed once and kept in small files.

A result is found by a digest of its key: a JSON object that says what is
computed, such as the config of a training. The key holds no path and no
machine, so that the same question finds the same file everywhere.
"""

import hashlib
import json
import pathlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from gossipjax.commands import console
from gossipjax.results import workdir

Key = Mapping[str, Any]  # What is computed; values as JSON has them.


def path(folder: pathlib.Path, name: str, key: Key) -> pathlib.Path:
  """The file of a result, whether or not it exists.

  Args:
    folder: of all results.
    name: a word about the result, for readers of the folder.
    key: what is computed.
  """
  text = json.dumps(key, sort_keys=True, allow_nan=False)
  digest = hashlib.sha256(text.encode()).hexdigest()[:16]
  return folder / f'{re.sub("[^a-z0-9]+", "_", name.lower())}-{digest}.json'


def once(
  folder: pathlib.Path, name: str, key: Key, compute: Callable[[], Any]
) -> dict[str, Any]:
  """A result from its file, which is written if it does not exist yet.

  Args:
    folder: of all results; made if needed.
    name: a word about the result.
    key: what is computed; everything that changes the result is part of it.
    compute: returns the result, which JSON can hold.

  Returns:
    {'key', 'result', 'took_s', 'made_with'}, as JSON gives them back: tuples
    are lists. `took_s` are the seconds of `compute`, `made_with` says by which
    commit, versions and devices it was computed.
  """
  file = path(folder, name, key)
  if not file.exists():
    began = time.perf_counter()
    result = compute()
    kept = {
      'key': key,
      'result': result,
      'took_s': time.perf_counter() - began,
      'made_with': workdir.provenance(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    workdir.write(file, json.dumps(kept))
  return json.loads(file.read_text())


class Budget:
  """Minutes after which nothing new begins."""

  def __init__(self, minutes: float | None = None):
    """Starts now; None for no limit."""
    self._since = time.monotonic()
    self._until = self._since + 60 * (minutes or 1e9)

  def is_over(self) -> bool:
    """Whether nothing new may begin."""
    return time.monotonic() > self._until

  def allows_as_much_again(self) -> bool:
    """Whether as much time is left as has passed."""
    now = time.monotonic()
    return now - self._since < self._until - now


def say_progress(done: int, of: int, what: Any, seconds: list[float]) -> None:
  """One line on stderr: the last result's seconds, and what is left.

  Args:
    done: results so far.
    of: all results.
    what: the key of the last result.
    seconds: of each result that was computed in this call.
  """
  left_s = (of - done) * sum(seconds) / len(seconds)
  console.say(
    f'{done}/{of} {what}: {seconds[-1]:.0f} s, about '
    f'{left_s / 60:.0f} minutes left'
  )
