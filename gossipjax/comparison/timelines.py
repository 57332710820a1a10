"""Virtual time in a comparison: columns, sentences, bars of workers."""

import json
import pathlib
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

FILE = 'timeline.json'
COLORS = {'compute': 'C0', 'wait': '0.85', 'transfer': 'C1'}
MOST_WORKERS = 16  # Bars of a panel.
STEPS = 20  # Gradients of the fastest worker that a picture shows.


def summarise(config, last: dict[str, Any]) -> dict[str, Any]:
  """What is left of a run in virtual time, from its last record.

  `ended` is a sentence if it did not run to its last step, or if it did and
  should not have.
  """
  target, step = config.cluster.target_accuracy, last['step']
  reached = 0 < target <= (last['test_accuracy'] or 0)
  ended = ''
  if last.get('lost_worker') is not None:
    ended = f'waited for worker {last["lost_worker"]} until the time-out'
  elif reached:
    ended = f'reached {target:g} at {last["virtual_s"]:.4g} s'
  elif target:
    ended = f'never reached {target:g} in {step} steps'
  return {
    'virtual_s': last['virtual_s'],
    'ended': ended,
    'target_s': last['virtual_s'] if reached else None,
    'staleness': last['staleness'],
    'waiting_s': max(last['waiting_s']),
    'link_utilisation': last['link_utilisation'],
  }


def cells(run: dict[str, Any], runs: list[dict[str, Any]]) -> dict[str, str]:
  """Columns of a run, if any of the comparison has them."""
  if not any('virtual_s' in other for other in runs):
    return {}
  if 'virtual_s' not in run:
    return dict.fromkeys(HEADINGS, '')
  found = (
    f'{run["virtual_s"]:.4g} s',
    f'{run["staleness"]:.2f}',
    f'{100 * run["waiting_s"] / run["virtual_s"]:.1f} %',
    f'{100 * run["link_utilisation"]:.1f} %',
  )
  return dict(zip(HEADINGS, found, strict=True))


HEADINGS = ('virtual time', 'staleness', 'longest wait', 'busiest link')
NOTE = """
Virtual time is modelled from the cluster of the config; the bytes that it
carries and the learning are real. Staleness: versions of the model between a
gradient and its use, at the end. Longest wait: of any worker, over all time.
Communication is the transfers of the worker with most. Where there is a server,
held-out figures are those of its model.
"""


def note(summary: dict[str, Any]) -> str:
  """Behind the table, with how runs ended that ended early."""
  runs = [run for run in summary['runs'] if 'virtual_s' in run]
  ends = [f'- {run["name"]} {run["ended"]}.' for run in runs if run['ended']]
  return '\n'.join([NOTE, *ends, '']) if runs else ''


def draw(folder: pathlib.Path, summary: dict[str, Any]) -> None:
  """Writes timeline.png, a bar per worker, if there was virtual time."""
  names = [run['name'] for run in summary['runs'] if 'virtual_s' in run]
  if not names:
    return
  spans = {
    name: json.loads((folder / name / FILE).read_text()) for name in names
  }
  until = min(_shown(found) for found in spans.values())
  rows = -(-len(names) // 2)
  figure = Figure(figsize=(13, 0.6 + 1.9 * rows), layout='constrained')
  panels = figure.subplots(rows, 2, sharex=True, squeeze=False).flat
  for axes, name in zip(panels, names, strict=False):
    _bars(axes, spans[name])
    axes.set(title=name, xlim=(0, until))
  for axes in panels[len(names) :]:
    axes.axis('off')
  for axes in panels[max(0, len(names) - 2) : len(names)]:
    axes.set_xlabel('virtual seconds')
    axes.tick_params(labelbottom=True)
  figure.legend(
    handles=[Patch(color=c, label=k) for k, c in COLORS.items()],
    loc='outside right upper',
    frameon=False,
  )
  figure.savefig(folder / 'timeline.png', dpi=110)


def _shown(spans: list) -> float:
  """Until when: some gradients of whoever is fastest."""
  ends = {}
  for worker, kind, _, end in spans:
    if kind == 'compute':
      ends.setdefault(worker, []).append(end)
  return min((times[:STEPS][-1] for times in ends.values()), default=1.0)


def _bars(axes: Axes, spans: list) -> None:
  for kind, color in COLORS.items():
    for worker in range(MOST_WORKERS):
      bars = [
        (start, end - start)
        for who, what, start, end in spans
        if (who, what) == (worker, kind)
      ]
      axes.broken_barh(bars, (worker - 0.4, 0.8), color=color, linewidth=0)
  workers = min(MOST_WORKERS, 1 + max((s[0] for s in spans), default=0))
  axes.set(ylim=(workers - 0.5, -0.5), ylabel='worker')
  axes.spines[['top', 'right']].set_visible(False)
