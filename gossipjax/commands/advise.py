"""Recommends a strategy for a config and a link by kept runs and short trials.

    python -m gossipjax advise --config=configs/cifar10.py --workers=16 \\
        --link=10gbe
    python -m gossipjax advise --config=my_config.py --minutes=15 --tune \\
        --latency-s=0.0001 --bytes-per-s=2e8

First it shows kept runs of your model, or of the nearest one; --known=WORKDIR
adds runs of your own. Then it spends --minutes on pilots: it trains your config
for a few steps, at several learning rates, under all-reduce and the strategies
whose steps are faster on the link, and scores them on validation data. The
better half, at least two beside all-reduce, then trains for longer. It
recommends the strategy with the lowest expected seconds to the target, which is
config.target_share of all-reduce's best score, if that saves more than 5 %. It
names the strategies that it dropped or did not try. Kept runs, all of them and
those most like yours, give the probability of reaching the target, and the
number of steps. The same command again resumes.

The seconds that a step computes are measured on this machine for one worker;
--table shows them. The link is modelled; --link may be a JSON file with
latency_s and bytes_per_s. The forecast assumes that communication and computing
do not overlap. --tune writes tuned.py, a config of the best pilots for `run`.
"""

import shlex
from collections.abc import Callable, Sequence

from absl import flags
from ml_collections import ConfigDict, config_flags

from gossipjax import network
from gossipjax.advice import advise, known_table, known_workdirs
from gossipjax.advice.forecast import Forecast, rows
from gossipjax.commands import advise_pilots, command_line, console
from gossipjax.comparison import units
from gossipjax.comparison.certainty import NOISE
from gossipjax.comparison.targets import share_of
from gossipjax.config.variants import variants
from gossipjax.errors import UserError, check_minutes, require


def start(words: Sequence[str]) -> None:
  """Runs `advise` with the words that follow it on the command line."""

  def begin(argv, interrupted):
    main(argv, interrupted, words)

  command_line.start(
    __doc__, define_flags, begin, words, again='the same command'
  )


def define_flags() -> None:
  """Defines the flags; a function, since commands share some flag names."""
  config_flags.DEFINE_config_file(
    'config', None, 'Config file: model, data, strategies.'
  )
  flags.DEFINE_integer('workers', None, "How many; default: the config's.")
  flags.DEFINE_string('link', None, "Preset or JSON file; default: config's.")
  flags.DEFINE_float(
    'latency_s',
    None,
    'Latency of the link, seconds per round of messages; with --bytes_per_s.',
  )
  flags.DEFINE_float(
    'bytes_per_s',
    None,
    'Bandwidth of the link, bytes a second; with --latency_s.',
  )
  flags.DEFINE_float(
    'minutes',
    5.0,
    'Minutes of short trainings (pilots); 0: none, only what is known.',
  )
  flags.DEFINE_multi_string(
    'known', [], 'A workdir of your own runs; several are possible.'
  )
  flags.DEFINE_string(
    'workdir', None, 'Folder of the pilots; the same one continues them.'
  )
  flags.DEFINE_bool('tune', False, 'Leave tuned.py, a config for `run`.')
  flags.DEFINE_bool('table', False, 'Show the seconds of a step.')
  flags.DEFINE_bool('plot', False, 'Draw seconds per step against bandwidth.')
  flags.DEFINE_string('out', 'advice.png', 'The figure of --plot.')


def main(
  argv: Sequence[str], interrupted: Callable[[], bool], words: Sequence[str]
) -> None:
  """Prints what is known, what was tried, and what to use.

  Raises:
    UserError: the flags or the config are not usable.
  """
  del argv
  given = flags.FLAGS
  _check_flags(given)
  config, name = command_line.config()
  link = _put_link(config)
  if given.workers is not None:
    config.workers = given.workers
  advise.check(config)
  _tell_unused(config)
  command_line.prepare_devices([config] if given.minutes > 0 else [])
  known = known_workdirs.with_kept(given.known, share_of(config))
  within = f', within groups {_link_text(link.group)}' if link.group else ''
  print(
    f'{name}, {config.workers} workers, batches of {config.batch_size}; '
    f'link: {_link_text(link)}{within}\n'
  )
  advise_pilots.show(*known_table.nearest_runs(known, config, given.known))
  on_vmap = ConfigDict({**config, 'executor': 'vmap'})  # One worker computes.
  forecasts = advise.forecasts(on_vmap, known, console.say, interrupted)
  _show_steps(forecasts, link)
  better = advise.faster(forecasts, link)
  if not better:
    left_out = len(advise.runs(config)) - len(forecasts)
    print(_none_faster(forecasts, link, left_out))
    return
  again = f'python -m gossipjax advise {shlex.join(words)}'
  if given.minutes > 0:
    advise_pilots.attempt(config, name, forecasts, link, interrupted, again)
  else:
    print(advise_pilots.untried(forecasts, link, again, 5))


def _none_faster(
  forecasts: list[Forecast], link: network.Link, left_out: int
) -> str:
  """What to do if no measured step is faster than that of all-reduce."""
  step = units.duration(forecasts[0].step_s(link))
  text = (
    f'Use all-reduce: on this link nothing is faster than its {step} a step by '
    f'more than {100 * NOISE:.0f} %.'
  )
  if len(forecasts) == 1:
    text = 'Use all-reduce: the config has no other strategy.'
  if len(forecasts) == 1 and left_out:
    text = 'Nothing is tried; set a shorter period, or more config.steps.'
  return text + ' No tuned.py is written.' * flags.FLAGS.tune


def _check_flags(given: flags.FlagValues) -> None:
  if given.plot:
    require('report')
    from gossipjax.advice import bandwidth_figure  # Needs matplotlib.

    bandwidth_figure.check(given.out)
  check_minutes(given.minutes)
  if given.tune and given.minutes <= 0:
    raise UserError('--tune needs pilots; give them time, such as --minutes=5.')


def _tell_unused(config: ConfigDict) -> None:
  """Says that `advise` ignores config.target and config.overlap, if given."""
  if target := config.get('target'):
    console.say(
      f'advise does not use config.target={target:g}; its target is '
      f'{share_of(config):g} of the best score of all-reduce, '
      'config.target_share.'
    )
  if any(run.get('overlap') for _, run in variants(config)):
    console.say(
      'advise forecasts and tries every strategy without config.overlap; those '
      'that it adds are without it in tuned.py, too.'
    )


def _put_link(config: ConfigDict) -> network.Link:
  """Returns the link to advise on, and makes it the link of the config."""
  given = flags.FLAGS
  numbers = given.latency_s, given.bytes_per_s
  link = advise.chosen_link(given.link, *numbers, config)
  with config.ignore_type(), config.unlocked():
    if given.latency_s is not None:
      config.link = ConfigDict(
        {'latency_s': link.latency_s, 'bytes_per_s': link.bytes_per_s}
      )
    else:
      config.link = given.link or config.link
  return link


def _link_text(link: network.Link) -> str:
  return f'{link.latency_s:.3g} s, {units.size(link.bytes_per_s)}/s'


def _show_steps(forecasts: list[Forecast], link: network.Link) -> None:
  """Shows the seconds of a step as a table and as a figure, if requested."""
  given = flags.FLAGS
  if given.table or given.minutes <= 0:
    advise_pilots.show('Seconds of a step', rows(forecasts, link))
    for line in advise.warnings(forecasts):
      print(f'{line}\n')
  if given.plot:
    from gossipjax.advice import bandwidth_figure

    bandwidth_figure.draw(forecasts, link).savefig(given.out, dpi=120)
    print(f'Seconds per step against bandwidth: {given.out}\n')
