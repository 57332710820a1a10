"""Seconds of a run, computing and communication together.

If workers run in one process, they share this machine. The measured computing
seconds are then divided by the number of devices that share it, as if each
device were such a machine, and the modelled seconds of the link are added. With
several processes, all seconds are measured; in virtual time, all are modelled.
"""

from typing import Any

import numpy as np

from gossipjax.results.reader import Run
from gossipjax.training import inner

MODELLED, MEASURED, VIRTUAL = 'modelled', 'measured', 'virtual'
COLUMNS = ('total_s', 'computing_s', 'communication_s')


def kind(run: Run) -> str:
  """How the seconds of a run are known: MODELLED, MEASURED or VIRTUAL."""
  if 'virtual_s' in run.records:
    # With an engine, real processes took this time.
    return MEASURED if run.config.get('engine') else VIRTUAL
  wire = run.records.get('wire_bytes', np.array([np.nan]))
  counted = not np.isnan(wire).all()
  return MEASURED if counted or run.processes > 1 else MODELLED


def sharing(run: Run) -> int:
  """The number of workers' devices that share one device of this machine."""
  devices = run.config['workers'] * inner.devices(run.config)
  executor = (run.summary or {}).get('executor') or run.config.get('executor')
  emulated = any('cpu' in device.lower() for device in run.devices)
  one_each = len(run.devices) >= devices and executor != 'vmap'
  return 1 if one_each and not emulated else devices


def link_name(config: dict) -> str:
  """The name of `config.link` in the columns of records."""
  return _name(config['link'])


def link_title(config: dict) -> str:
  """Describes the link: `link_name` and the name of `config.group_link`, if
  there is one; or that `config.cluster` has a link of its own."""
  if has_own_link(config):
    return "the cluster's link"
  group = config.get('group_link')
  within = f', {_name(group)} within groups' if group else ''
  return link_name(config) + within


def has_own_link(config: dict) -> bool:
  """Whether `config.cluster` changes the link of `config.link`."""
  cluster = config.get('cluster') or {}
  changes = (cluster.get(key) for key in ('latency_s', 'bytes_per_s'))
  one_way = cluster.get('full_duplex') is False
  return one_way or any(value is not None for value in changes)


def _name(link: Any) -> str:
  return link if isinstance(link, str) else 'custom'


def columns(run: Run) -> dict[str, np.ndarray]:
  """COLUMNS of a run's records, f64[records], since the start of the run.

  `computing_s` and `communication_s` are NaN where they were measured
  together. In virtual time `computing_s` is that of the busiest worker.
  Exchanges between the devices of a worker count as communication, too;
  exchanges that are hidden by computing (config.overlap) do not.
  """
  records = run.records
  nothing = np.full(len(records['step']), np.nan)
  if (known := kind(run)) == VIRTUAL:
    total = records['virtual_s'].astype(float)
    # With cluster.first a late gradient, still computed, is counted whole.
    computing = np.minimum(records.get('compute_s', nothing), total)
    parts = computing, total - computing
  elif known == MEASURED:
    clock = records.get('virtual_s', records['train_s'])
    total, parts = clock.astype(float), (nothing, nothing)
  else:
    computing = records['train_s'] / sharing(run)
    link = link_name(run.config)
    seconds = records.get(f'comm_{link}_s', nothing)
    seconds = seconds - np.nan_to_num(records.get(f'hidden_{link}_s', 0.0))
    seconds = seconds + np.nan_to_num(records.get('inner_s', 0.0))
    total, parts = computing + seconds, (computing, seconds)
  return dict(zip(COLUMNS, (total, *parts), strict=True))
