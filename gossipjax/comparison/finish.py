"""Writes the files of all runs of a comparison together, at its end."""

import pathlib
from typing import Any

from ml_collections import ConfigDict

from gossipjax.comparison import report_files
from gossipjax.errors import UserError, missing
from gossipjax.results import workdir


def write(
  folder: pathlib.Path,
  config: ConfigDict,
  summaries: list[dict[str, Any]],
  higher: list[str],
  command: str,
) -> dict[str, Any]:
  """Writes the files of all runs together; returns their summary."""
  if (summary := _earlier(folder)) is None:
    summary = {
      'config': config.to_dict(),
      'runs': summaries,
      'higher_is_better': higher,
      'command': command,
      **workdir.provenance(),
    }
    began = workdir.claimed(folder).get('commit', summary['commit'])
    if began != summary['commit']:
      summary['commit'] = f'{began}, then {summary["commit"]}'
    workdir.write_summary(folder, summary)
  write = report_files.write_table if missing('report') else report_files.write
  write(folder)
  return summary


def _earlier(folder: pathlib.Path) -> dict[str, Any] | None:
  """The summary of an earlier call; None if it is damaged, or if a training
  went on since then, which removes it."""
  try:
    return workdir.summary(folder)
  except UserError:
    return None
