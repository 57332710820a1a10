"""Plots of points: names do not overlap, missing values leave gaps."""

import itertools
import math

from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from experiments import fronts
from experiments.framework import figures, points


def test_names_of_close_points_cover_no_point_and_no_other_name():
  axes = Figure(figsize=(8, 5)).subplots()
  crowd = {f'method {i}': (1 + 0.02 * (i % 4), 0.01 * i) for i in range(12)}
  axes.plot(*zip(*crowd.values(), strict=True), '.')
  axes.set(xlim=(0, 3), ylim=(-1, 1))
  points.write_names(axes, crowd)
  named = [t for t in axes.texts if isinstance(t, Annotation) and t.get_text()]
  assert [t.get_text() for t in named] == [*crowd]
  boxes = [Text.get_window_extent(t) for t in named]
  for box, other in itertools.combinations(boxes, 2):
    assert not box.overlaps(other)
  for place in axes.transData.transform([*crowd.values()]):
    assert not any(box.contains(*place) for box in boxes)


def test_a_name_without_room_is_left_out():
  axes = Figure(figsize=(1, 1)).subplots()
  points.write_names(axes, {'a name wider than its panel': (0.5, 0.5)})
  assert not axes.texts


def test_rows_without_a_value_keep_their_name():
  column = 'held-out accuracy %'
  rows = [
    {'workload': 'w', 'method': 'a', 'workers': 8, column: 90.0, 'error': 0.1},
    {'workload': 'w', 'method': 'b', 'workers': 8, column: None, 'error': None},
    {'workload': 'w', 'method': 'a', 'workers': 32, column: 91, 'error': None},
  ]
  found = points.by_workload(rows, 'method', 'workers', {column: 'error'})
  (axes,) = found.axes
  assert [label.get_text() for label in axes.get_yticklabels()] == ['a', 'b']
  assert [c.get_label() for c in axes.containers] == ['8 workers', '32 workers']
  assert [len(c.lines[0].get_xdata()) for c in axes.containers] == [1, 1]


def row(
  strategy: str, accuracy: float | None, sent: float, front: bool = False
):
  return {
    'workload': 'fashion',
    'strategy': strategy,
    'held-out accuracy %': accuracy,
    fronts.PATH: sent,
    fronts.FRONT: front,
  }


def test_a_score_far_below_the_front_is_written_beside_its_name():
  rows = [
    row('topk', 92.0, 1e4, True),
    row('all_reduce', 92.6, 1e6, True),
    row('random_k', 55.0, 1e4),
    row('diverged', None, 1e5),
  ]
  (axes,) = fronts.figure(rows, [], []).axes
  assert {text.get_text() for text in axes.texts} == {
    'topk',
    'all_reduce',
    'random_k (55.0)',
  }
  assert axes.get_ylim()[0] > 90


def test_a_figure_with_an_empty_front_is_drawn(tmp_path):
  fronts.figure([row('topk', 92.0, 1e4)], [], []).savefig(tmp_path / 'a.png')
  fronts.figure([row('topk', math.nan, math.nan)], [], []).savefig(
    tmp_path / 'b.png'
  )


def test_equal_curves_share_a_line_and_missing_values_are_gaps():
  axes = Figure().subplots()
  found = {'a': ([1, 2], [3.0, None]), 'b': ([1, 2], [3.0, None])}
  figures.curves(axes, found | {'c': ([1, 2], [3.0, 4.0])})
  (both, other) = axes.get_lines()
  assert (both.get_label(), other.get_label()) == ('a\nb', 'c')
  assert math.isnan(both.get_ydata(orig=False)[1])
