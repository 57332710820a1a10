"""Writes workdirs as comparisons leave them, with given records."""

import json
import pathlib
from typing import Any

from gossipjax.results import reader, record_file, workdir
from gossipjax.training.record import Record


def record(step: int, **given: Any) -> dict[str, Any]:
  """A record of two workers; fields not given have values of that step."""
  return record_file.to_dict(
    Record(
      **{
        'step': step,
        'train_loss': 1 / step,
        'test_loss': 1 / step,
        'test_accuracy': 1 - 1 / step,
        'worker0_loss': 1 / step,
        'worker0_accuracy': 1 - 1 / step,
        'consensus_distance': 0.0,
        'bytes_sent': [10 * step, 20 * step],
        'bytes_received': [15 * step, 15 * step],
        'messages': [step, 2 * step],
        'wire_bytes': None,
        'comm_s': {'1gbe': 0.5 * step, 'wan': 2.0 * step},
        'wall_s': 2.0 * step,
        'train_s': 1.0 * step,
        'examples_per_s': 32.0,
        **given,
      }
    )
  )


def config(seed: int = 0, **variants: dict[str, Any]) -> dict[str, Any]:
  """The parts of a config that readers need; a variant is a dict of changes."""
  return {
    'workers': 2,
    'steps': 4,
    'batch_size': 16,
    'seed': seed,
    'link': '1gbe',
    'task': {'name': 'digits'},
    'optimizer': {'name': 'sgd', 'learning_rate': 0.1},
    'strategy': {'name': 'all_reduce'},
    'variants': variants,
  }


def claim(
  folder: pathlib.Path, config: dict[str, Any], **changed: Any
) -> pathlib.Path:
  """Makes the folder of a comparison that has not begun."""
  folder.mkdir()
  (folder / 'config.json').write_text(
    json.dumps({'config': config, **workdir.provenance(), **changed})
  )
  return folder


def run(
  folder: pathlib.Path,
  name: str,
  records: list[dict[str, Any]],
  finished: bool = True,
  **summary: Any,
) -> pathlib.Path:
  """Writes a variant into the folder; returns the file of its records."""
  (folder / name).mkdir()
  lines = folder / name / 'records.jsonl'
  lines.write_text(''.join(json.dumps(r) + '\n' for r in records))
  if finished:
    (folder / name / 'summary.json').write_text(
      json.dumps({'name': name, **summary})
    )
  return lines


def finish(folder: pathlib.Path, **given: Any) -> dict[str, Any]:
  """Returns the content of summary.json for a comparison's finished variants.

  Args:
    folder: from `claim`, with the variants that `run` wrote.
    **given: further fields of an entry, by name of the variant.
  """
  found = reader.summary(folder)
  runs = [run | given.get(run['name'], {}) for run in found['runs']]
  return found | {'runs': runs}
