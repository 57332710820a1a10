"""The config of a pilot."""

from ml_collections import ConfigDict

from gossipjax.advice import periods
from gossipjax.advice.halving import Pilot

POINTS = 10  # Evaluations of a pilot.


def config_of(base: ConfigDict, pilot: Pilot) -> ConfigDict:
  """Returns the config of a pilot: a short training with the whole schedule.

  The stages of a strategy, a switch or a warm-up, are shortened with it.

  Args:
    base: config of the variant, at full length.
    pilot: the pilot to train.
  """
  found = base.copy_and_resolve_references()
  share = pilot.steps / base.steps
  every = max(1, pilot.steps // POINTS)
  found.update(
    steps=pilot.steps,
    seed=pilot.seed,
    log_every=every,
    eval_every=every,
    checkpoint_every=0,
  )
  found.split.holdout = 'validation'
  if found.get('overlap'):
    found.overlap = False  # It changes no result.
  found.optimizer.learning_rate = pilot.candidate.rate
  found.strategy.update(periods.shortened(base.strategy, share))
  schedule = base.optimizer.get('schedule', '')
  schedule_steps = base.optimizer.get('schedule_steps')
  if schedule_steps or not isinstance(schedule, str) or ':' in schedule:
    # Any argument of this schedule may count steps, or is for other steps.
    with found.optimizer.unlocked():
      found.optimizer.schedule_steps = schedule_steps or base.steps
    return found
  if found.optimizer.get('warmup_steps'):
    found.optimizer.warmup_steps = round(share * base.optimizer.warmup_steps)
  if found.optimizer.get('boundaries'):
    found.optimizer.boundaries = tuple(
      round(share * step) for step in base.optimizer.boundaries
    )
  return found
