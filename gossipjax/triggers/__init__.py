"""Triggers: when a worker starts an exchange of its model, or of a layer.

Every function exported here that returns a Trigger is a `trigger.name` of a
config; adaptive_gossip uses them.

controls   fixed, random: decide without looking at the parameters
drift      relative_drift, target_interval: distance from the last exchange
published  norm_slope (EventGraD), step_size (SPARQ-SGD)
trigger    the type Trigger, limits on the steps between exchanges, norms
"""

from gossipjax.triggers.controls import fixed, random
from gossipjax.triggers.drift import relative_drift, target_interval
from gossipjax.triggers.published import norm_slope, step_size
from gossipjax.triggers.trigger import Trigger

__all__ = [
  'Trigger',
  'fixed',
  'norm_slope',
  'random',
  'relative_drift',
  'step_size',
  'target_interval',
]
