"""Trains a model under one or several communication strategies.

    python -m gossipjax run --config=configs/quickstart.py
    python -m gossipjax run --config=configs/cifar10.py:gtopk \\
        --config.workers=4

Leaves records, tables and figures in --workdir (default: runs/NAME-TIME).
A config is a Python file of yours:

    from gossipjax.config import defaults

    def get_config():
      config = defaults.get_config()  # All-reduce, 8 workers, an MLP on digits.
      config.steps = 100
      config.variants = defaults.variants(dense='all_reduce', sparse='topk')
      return config

The command line can change every key of the config, as in --config.steps=50.
"""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
from absl import flags
from ml_collections import ConfigDict, config_flags

from gossipjax import executors
from gossipjax.commands import command_line, console, same_everywhere
from gossipjax.comparison import progress
from gossipjax.comparison.compare import compare
from gossipjax.config.variants import variants
from gossipjax.distributed import allocator, processes, shared_folder
from gossipjax.engine import ray_cluster
from gossipjax.errors import UserError
from gossipjax.results import inputs, machine, provenance, reservation
from gossipjax.training import inner
from gossipjax.training.run import devices

LONG_S = 60  # Shortest training after which to show how to be faster.


def start(words: Sequence[str]) -> None:
  """Runs `run` with the words that follow it on the command line."""

  def begin(argv, interrupted):
    main(argv, interrupted, command_line.rerun_command(words))

  command_line.start(
    __doc__,
    define_flags,
    begin,
    words,
    again='--resume',
    shared=[processes.__name__, ray_cluster.__name__],
  )


def define_flags() -> None:
  """Defines the flags; a function, since commands share some flag names."""
  config_flags.DEFINE_config_file(
    'config',
    None,
    'Config file, or FILE.py:NAME for the strategy NAME with its settings.',
  )
  flags.DEFINE_string('workdir', None, 'Where results go.')
  flags.DEFINE_bool('resume', False, 'Continue the run in --workdir.')
  flags.DEFINE_bool(
    'audit',
    False,
    'Compare the counted bytes with those of the compiled program.',
  )


def main(
  argv: Sequence[str], interrupted: Callable[[], bool], command: str
) -> None:
  """Trains and prints the answer and the table.

  Raises:
    UserError: the flags or the config are not usable.
  """
  del argv
  given = flags.FLAGS
  if given.resume and given.workdir is None:
    raise UserError('--resume needs --workdir, the folder of the run.')
  config, name = command_line.config()
  if not processes.distributed():
    executors.emulate(devices(run for _, run in variants(config)))
  else:
    _check_together(given)
    _emulate_worker(config)
  _check_address(config)
  if processes.distributed():
    same_everywhere.check(_given(config))
  folder = console.workdir(name)
  processes.meter()  # Refuses an unknown interface, or too few processes.
  shared_folder.check(folder)
  if given.resume:
    processes.run_in_first(lambda: reservation.require_folder(folder))
  command_line.name_unused_gpus()
  began = time.monotonic()
  with progress.Bar() as bar:
    summary = compare(
      config,
      folder,
      given.resume,
      given.audit,
      watch=bar.show,
      interrupted=interrupted,
      command=command,
    )
  if processes.is_first():
    progress.show(summary, folder)
    if any(run['executor'] != 'vmap' for run in summary['runs']):
      _say_how_to_be_faster(time.monotonic() - began)


def _check_together(given: flags.FlagValues) -> None:
  """Refuses flags with which several processes cannot train."""
  if given.workdir is None:
    raise UserError(
      'Several processes need --workdir, a folder that all of them see.'
    )
  if given.audit:
    raise UserError(
      '--audit compiles for one process; leave it out, or run the same config '
      'in one process, without `launch` and --distributed.'
    )


def _given(config: ConfigDict) -> dict[str, Any]:
  """What must be the same in all processes: the config, its files, flags, and
  the code and settings that change what a training computes."""
  names = ('workdir', 'resume', 'num_processes')
  values = {f'--{name}': flags.FLAGS[name].value for name in names}
  # The name of an interface may differ between hosts.
  values['--interface'] = (
    'NAME' if flags.FLAGS['interface'].value else 'nothing'
  )
  code, plain = provenance.of_this_process(), json.loads(config.to_json())
  return {
    'config': plain,
    **values,
    'commit': code['commit'],
    'versions': code['versions'],
    'settings': machine.numerics(),
    **{
      f'{kind.removesuffix("s")} {name}': digest[:12]  # Enough to differ.
      for kind, digests in inputs.of(plain).items()
      for name, digest in digests.items()
    },
  }


def _check_address(config: ConfigDict) -> None:
  """Refuses --address where no variant would use it."""
  engines = [run.get('engine') for _, run in variants(config)]
  if ray_cluster.address() and not any(engines):
    raise UserError(
      '--address names a Ray cluster, which only config.engine=ray uses; set '
      'that, or leave --address out.'
    )


def _emulate_worker(config: ConfigDict) -> None:
  """Emulates the devices of the worker of this process, if it has several."""
  several = max(inner.devices(run) for _, run in variants(config))
  if several > 1:
    executors.emulate(several)


def _say_how_to_be_faster(seconds: float) -> None:
  """Shows a hint after a long training on emulated devices."""
  emulated = jax.default_backend() == 'cpu' and jax.device_count() > 1
  if emulated and seconds > LONG_S and (hint := allocator.hint()):
    console.say(hint)
