"""Reserves a workdir for one config and for one process at a time."""

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.results import inputs, lock, machine, more_steps, workdir
from gossipjax.training.durable_files import make, partials, write


def require_folder(folder: pathlib.Path) -> None:
  """Checks that the folder of a run to be resumed exists.

  Raises:
    UserError: the folder does not exist.
  """
  if not folder.exists():
    raise UserError(
      f'--workdir={folder} does not exist, so there is nothing to '
      '--resume; leave that out, or name the folder of the run.'
    )


@contextlib.contextmanager
def reserved(
  folder: pathlib.Path,
  config,
  resume: bool,
  higher: Sequence[str] = (),
  command: str = '',
  check: Callable[[], None] = lambda: None,
  kind: str = 'run',
) -> Iterator[list[str]]:
  """Reserves the folder of a comparison: creates it, or checks its contents.

  Args:
    folder: the workdir; inside the context no other process writes into it.
    config: a ConfigDict; written to config.json with `workdir.provenance`.
    resume: whether the folder may hold this comparison already. It may then
      also have fewer seeds, or fewer steps if `more_steps.obstacle` finds none.
    higher: names of scores of which large values are good; written too.
    command: the command that repeats the comparison; written too.
    check: called before anything is written, if the folder holds a comparison.
    kind: the command of the folder, run, tune or advise; written too.

  Yields:
    Sentences to be shown: what has changed since the comparison began.

  Raises:
    UserError: the folder holds something else, or this comparison although
      `resume` is False; it cannot be created; another process writes into it;
      or a file that the config names has changed. No file is overwritten.
  """
  wanted = json.loads(config.to_json())
  _check(folder, config, resume, kind)
  try:
    make(folder)
  except OSError as error:
    raise UserError(
      f'The folder {folder} cannot be created: {error.strerror}.'
    ) from error
  with lock.hold(folder):
    _check(folder, config, resume, kind)  # Another process may have begun.
    now = {**inputs.of(wanted), **workdir.provenance()}
    if (folder / workdir.CONFIG).exists():
      warnings = _check_inputs(folder, now)
      check()
      if (then := workdir.claimed(folder))['config'] != wanted:  # More of it.
        now = then | {'config': wanted, 'command': command}
        workdir.reopen(folder)
        write(folder / workdir.CONFIG, json.dumps(now, indent=2))
      yield warnings
    else:
      claim = {'config': wanted, 'higher_is_better': list(higher), **now}
      claim |= {'command': command, 'kind': kind}
      write(folder / workdir.CONFIG, json.dumps(claim, indent=2))
      yield []


def _check(folder: pathlib.Path, config: Any, resume: bool, kind: str) -> None:
  path = folder / workdir.CONFIG
  if folder.exists() and not folder.is_dir():
    raise UserError(f'{folder} is a file; name a folder.')
  if path.exists():
    _check_kind(folder, kind)
    _check_same(folder, config, resume, extendable=kind != 'tune')
    return
  # An earlier process may have been stopped while it wrote config.json.
  ours = partials(path) | {folder / name for name in lock.FILES}
  if folder.exists() and {*folder.iterdir()} - ours:
    raise UserError(
      f'The folder {folder} is not empty and holds no run; name another folder.'
    )


def _check_kind(folder: pathlib.Path, kind: str) -> None:
  found = workdir.kind(folder, workdir.claimed(folder))
  if found != kind:
    raise UserError(
      f'{folder} is a folder of `{found}`, not of `{kind}`; name '
      'another folder.'
    )


def _check_same(
  folder: pathlib.Path, config: Any, resume: bool, extendable: bool
) -> None:
  """Refuses another config; if `extendable`, more steps are no other one."""
  wanted = defaults.filled(json.loads(config.to_json()))
  found = defaults.filled(workdir.claimed(folder)['config'])
  if resume and extendable and more_steps.only(found, wanted):
    if why := more_steps.obstacle(config, found):
      raise UserError(
        f'The folder {folder} holds a run of config.steps={found["steps"]}, '
        f'which cannot go on to {wanted["steps"]}: {why}; name another folder.'
      )
  elif found != wanted and not (
    resume and more_steps.more_seeds(found, wanted)
  ):
    unlike = [*differences(found, wanted, 'config')]
    longer = {**found, 'steps': wanted['steps']}
    both = more_steps.more_seeds(longer, wanted) and more_steps.only(
      found, {**wanted, 'seeds': found['seeds']}
    )
    both = resume and extendable and both
    hint = ', or add steps and seeds one after the other' * both
    raise UserError(
      f'The folder {folder} holds a run of another config (they differ in '
      f'{", ".join(unlike)}); name another folder{hint}.'
    )
  if not resume:
    raise UserError(
      f'The folder {folder} already holds a run of this config; '
      '--resume (in Python, resume=True) continues it, another folder starts a '
      'new run.'
    )


def _check_inputs(folder: pathlib.Path, now: dict[str, Any]) -> list[str]:
  """Refuses changed files and machines; returns warnings of other changes."""
  then = workdir.claimed(folder)
  if changed := inputs.changed(then.get('files', {}), now['files']):
    raise UserError(
      f'{", ".join(changed)}: not the file with which the run in {folder} '
      'began; restore it, or name another folder.'
    )
  if why := machine.obstacle(then, now):
    raise UserError(f'The run in {folder} {why}')
  warnings = inputs.other_modules(then, now), inputs.other_versions(then, now)
  return list(filter(None, warnings))


def differences(a: Any, b: Any, key: str) -> Iterator[str]:
  """Yields the dotted keys in which two configs differ."""
  if not isinstance(a, dict) or not isinstance(b, dict):
    yield key
    return
  for k in sorted({*a, *b}):
    if a.get(k) != b.get(k):
      yield from differences(a.get(k), b.get(k), f'{key}.{k}'.lstrip('.'))
