"""What a run depends on besides its config: files, own modules and versions."""

import contextlib
import importlib.util
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gossipjax.data.text import SHAKESPEARE
from gossipjax.results import machine
from gossipjax.training.durable_files import digest

# Config keys that may name a file.
KEYS = ('link', 'group_link', 'inner_link', 'trace', 'file')
TEXT = 'file'  # This file is searched in the folders of data, too.
VARIABLE = 'GOSSIPJAX_DATA'
_MAY_DIFFER = 'results from here on may differ from those without the change.'


def of(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
  """`digests` as 'files' and `modules` as 'modules'."""
  return {'files': digests(config), 'modules': modules(config)}


def digests(config: Mapping[str, Any]) -> dict[str, str]:
  """SHA-256 of each file that a config names, by its name in the config.

  Args:
    config: with its variants. Most names are paths. The name of a text, and of
      any file below `task`, is searched in `data.dir` and $GOSSIPJAX_DATA
      first; if it is a folder, all of its .txt files count.
  """
  data_folders = [config.get('data', {}).get('dir'), os.environ.get(VARIABLE)]
  found = {}
  named = {(k, text) for k, text in _texts(config) if k in KEYS and text}
  roots = [*filter(None, data_folders), '.']
  named |= {(TEXT, text) for text in _of_tasks(config) if _is_file(text, roots)}
  if (TEXT, SHAKESPEARE.name) in named:  # Loading verifies it anywhere.
    named.remove((TEXT, SHAKESPEARE.name))
    found = {f'{SHAKESPEARE.name}/{k}': v for k, v in SHAKESPEARE.files.items()}
  for key, name in sorted(named):
    for root in roots if key == TEXT else ['.']:
      place = pathlib.Path(root).expanduser() / pathlib.Path(name).expanduser()
      if place.exists():
        files = sorted(place.glob('*.txt')) if place.is_dir() else [place]
        found |= {
          str(pathlib.Path(name) / path.relative_to(place)): digest(path)
          for path in files
          if path.is_file()
        }
        break
  return found


def modules(config: Mapping[str, Any]) -> dict[str, str]:
  """SHA-256 of the file of each module that a config names, by its name.

  Args:
    config: with its variants; every 'module:function' in it counts. Modules
      that such a module imports do not count.
  """
  found = {}
  for _, text in _texts(config):
    name, colon, _ = text.partition(':')
    if not colon or not all(map(str.isidentifier, name.split('.'))):
      continue
    with contextlib.suppress(ImportError, ValueError):  # No such module.
      spec = importlib.util.find_spec(name)
      if spec and spec.origin and pathlib.Path(spec.origin).is_file():
        found[name] = digest(pathlib.Path(spec.origin))
  return found


def _texts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
  """Yields the keys of texts, at any depth and in lists, and the texts."""
  for key, value in config.items():
    if isinstance(value, Mapping):
      yield from _texts(value)
    elif isinstance(value, list | tuple):
      for part in value:
        yield from _texts({key: part})
    elif isinstance(value, str):
      yield key, value


def _of_tasks(config: Mapping[str, Any]) -> Iterator[str]:
  """Yields the texts among the arguments of tasks, also in variants."""
  for key, value in config.items():
    if isinstance(value, Mapping):
      texts = (text for k, text in _texts(value) if k != 'name' and text)
      yield from texts if key == 'task' else _of_tasks(value)


def _is_file(text: str, roots: Iterable[str]) -> bool:
  # A text may be no path: the name is too long, or '~' names no user.
  with contextlib.suppress(OSError, RuntimeError, ValueError):
    name = pathlib.Path(text).expanduser()
    places = (pathlib.Path(root).expanduser() / name for root in roots)
    return any(place.is_file() for place in places)
  return False


def changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
  """Names of files that are missing now, or whose contents have changed."""
  return [name for name in then if now.get(name) != then[name]]


def other_modules(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
  """A warning if modules of the user's own have changed; '' if not.

  This is not an error, since changing a comment changes the file, too.

  Args:
    then, now: config.json of the run, and what it would be now.
  """
  unlike = changed(then.get('modules', {}), now['modules'])
  text = f'{", ".join(unlike)} changed after this run began; {_MAY_DIFFER}'
  return text if unlike else ''


def other_versions(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
  """A warning if a run goes on with other versions, or on another machine.

  Args:
    then, now: as `workdir.provenance` returns them.

  Returns:
    '' if commit, Python, processor, cores, packages, and the devices and
    settings of `machine.reported` are the same.
  """
  was, here = _versions(then), _versions(now)
  unlike = [name for name in here if name in was and was[name] != here[name]]
  if not unlike:
    return ''
  text = ', '.join(f'{name} {was[name]} (now {here[name]})' for name in unlike)
  return f'This run began with {text}; {_MAY_DIFFER}'


def _versions(provenance: Mapping[str, Any]) -> dict[str, Any]:
  names = ('commit', 'python', 'processor', 'cores')
  found = {key: provenance[key] for key in names if key in provenance}
  found |= dict(provenance.get('versions') or {})
  return found | machine.reported(provenance)
