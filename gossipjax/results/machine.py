"""Checks whether a run may go on here: processes, devices and settings of JAX.

Differences are reported or refused: seconds on different devices cannot be
added up, and another random generator draws other numbers.
"""

import os
from collections.abc import Mapping
from typing import Any

import jax

# With other values JAX draws other numbers, or computes with other types.
_REFUSED = (
  'jax_enable_x64',
  'jax_threefry_partitionable',
  'jax_default_prng_impl',
)
# Changes how results are rounded.
_REPORTED = ('jax_default_matmul_precision',)
_VARIABLE = 'XLA_FLAGS'


def settings() -> dict[str, Any]:
  """Settings of JAX in this process that change what a training computes."""
  names = (
    name for name in (*_REFUSED, *_REPORTED) if hasattr(jax.config, name)
  )
  found = {name: getattr(jax.config, name) for name in names}
  return found | {_VARIABLE: os.environ.get(_VARIABLE) or 'unset'}


def numerics() -> dict[str, str]:
  """The settings with which a training computes other numbers, as text."""
  found = settings()
  return {name: str(found[name]) for name in _REFUSED if name in found}


def obstacle(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
  """Why a run cannot go on in this process; '' if it can.

  Args:
    then: config.json of the run. Keys that it lacks, since an older version
      wrote it, are not compared.
    now: as `workdir.provenance` returns it.
  """
  if (processes := then.get('processes', 1)) != now['processes']:
    return (
      f'was begun by {processes} processes, on which its seconds depend; '
      f'continue it with {processes}, not {now["processes"]}.'
    )
  was, here = devices(then), devices(now)
  if was and here and was != here and not _modelled(then, here):
    return (
      f'was begun on {was}, on which its seconds depend; continue it on '
      f'{was}, not {here}, or name another folder.'
    )
  before, found = then.get('settings', {}), now.get('settings', {})
  for name in (n for n in _REFUSED if n in before and n in found):
    if before[name] != found[name]:
      return (
        f'was begun with {name}={before[name]}, and {name}={found[name]} '
        f'computes other numbers; set {name.upper()}={before[name]}, or name '
        'another folder.'
      )
  return ''


def reported(provenance: Mapping[str, Any]) -> dict[str, Any]:
  """By name, the devices and settings whose change is reported, not refused."""
  found = provenance.get('settings', {})
  known = {
    name: found[name] for name in (*_REPORTED, _VARIABLE) if name in found
  }
  return known | ({'devices': on} if (on := devices(provenance)) else {})


def devices(provenance: Mapping[str, Any]) -> str:
  """Number and kind of the devices, such as '8 cpu'; '' if not known."""
  if not {'devices', 'device_kind'} <= provenance.keys():
    return ''
  return f'{len(provenance["devices"])} {provenance["device_kind"]}'


def _modelled(then: Mapping[str, Any], here: str) -> bool:
  """Whether the devices do not affect the seconds: in virtual time, and if a
  CPU emulates them, see results/total_time.py."""
  config = then.get('config', {})
  runs = [config, *(config.get('variants') or {}).values()]
  emulated = then['device_kind'] == 'cpu' and here.endswith(' cpu')
  virtual = any(run.get('cluster') for run in runs)
  return emulated or (virtual and not any(run.get('engine') for run in runs))
