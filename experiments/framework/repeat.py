"""Repeats a kept run and says whether the result is the same.

    python -m experiments.framework.repeat fashion 82058db6195033cf

The first argument names the file in experiments/runs, the second is the digest
of the run. A key leaves out empty values (`single_run.key_of`); `config_of`
restores them.
"""

from collections.abc import Mapping
from typing import Any

from absl import app
from ml_collections import ConfigDict

from experiments.framework import own_process, single_run
from experiments.framework.result_store import ResultStore
from gossipjax.commands import command_line, console
from gossipjax.config import defaults
from gossipjax.errors import UserError


def config_of(key: Mapping[str, Any]) -> ConfigDict:
  """Returns the config that has this key.

  Raises:
    UserError: the defaults have changed, so that no config has this key.
  """
  given = key['config']
  found = defaults.get_config()
  with found.ignore_type(), found.unlocked():
    for name in found:
      if name not in single_run.WITHOUT_EFFECT:
        part = given.get(name)
        found[name] = _filled(_plain(part), _default(name, part))
  rebuilt = single_run.key_of(found, key.get('probe', ''))
  if rebuilt['config'] != given:
    raise UserError('The defaults have changed since this run was kept.')
  return found


def _default(name: str, part: Any) -> Any:
  """The default of a config key; only the keys of an optimizer's own name."""
  if name == 'optimizer':
    own = defaults.optimizer(part['name'], part['learning_rate'])
    return own.to_dict()
  return single_run.default(name, part)


def _plain(value: Any) -> Any:
  return dict(value) if isinstance(value, Mapping) else value


def _filled(given: Any, default: Any) -> Any:
  """Returns the given values; missing ones are empty, whatever the default."""
  if isinstance(default, Mapping) and (given is None or type(given) is dict):
    given = given or {}
    names = dict.fromkeys([*default, *given])
    return ConfigDict(
      {
        name: _filled(_plain(given.get(name)), default.get(name))
        for name in names
      },
      sort_keys=False,
    )
  if isinstance(given, list):  # JSON has no tuples.
    return tuple(_filled(item, None) for item in given)
  if given is not None:
    return ConfigDict(given) if isinstance(given, dict) else given
  return default if default is None else type(default)()


def main(argv: list[str], interrupted: Any) -> None:
  """The command line."""
  del interrupted
  if len(argv) != 3:
    raise UserError('repeat needs a file of experiments/runs and a digest.')
  line = ResultStore().lines(argv[1]).get(argv[2])
  if line is None:
    raise UserError(f'experiments/runs/{argv[1]}.jsonl has no run {argv[2]}.')
  key = line['key']
  result, seconds, _ = own_process.in_a_process(
    config_of(key), key.get('probe', '')
  )
  same = result == line['result']
  last = result['records'][-1] if result['records'] else {}
  print(f'{last}\n{"The same" if same else "Not the same"}, {seconds:.0f} s.')


if __name__ == '__main__':
  app.run(
    console.guarded(main, again=None),
    flags_parser=lambda argv: command_line.parse(argv, positional=2),
  )
