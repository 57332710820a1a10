"""Forecasts of the seconds per step on a link: tables, figures, advice."""

import math

import numpy as np
import pytest

from gossipjax import network
from gossipjax.advice import advise
from gossipjax.advice.bandwidth_figure import draw
from gossipjax.advice.forecast import break_even, rows
from tests.support.advice import DENSE, LINK, chance, forecast, known


@pytest.mark.parametrize(
  ('mine', 'edge'),
  [
    (forecast('half', 500, select_s=0.25), 500 / 0.25),
    (forecast('small', 10), np.inf),
    (forecast('large', 2000), 0.0),
    (forecast('quick', 2000, rounds=0), np.nan),
  ],
)
def test_break_even_is_the_bandwidth_of_equal_step_times(mine, edge):
  assert break_even(mine, DENSE, LINK) == pytest.approx(
    edge, rel=1e-6, nan_ok=True
  )


def test_a_row_splits_a_step_into_its_parts():
  row = rows([DENSE, forecast('half', 500, 0.25)], LINK)[1]
  assert row['seconds per step'] == pytest.approx(1 + 0.25 + 0.1 + 0.05)
  assert row['communication, s (model)'] == pytest.approx(0.15)
  assert row['share of computing'] == '71 %'
  assert row['faster than all-reduce'] == 'below 2 kB/s'


def test_only_faster_strategies_are_advised_and_the_riskiest_is_last():
  slow = forecast('half', 500, select_s=0.25)
  little = forecast('little', 980)  # It saves 0.2 % of a step.
  assert advise.faster([DENSE, slow, little], LINK) == []
  bad = forecast('small', 10, chance=chance(*[known('small', 0, math.inf)] * 3))
  good = forecast('other', 20)  # Untried: its risk is 1/2.
  assert advise.faster([DENSE, bad, good], LINK) == [good, bad]


def test_the_figure_has_a_line_per_strategy_and_the_link():
  figure = draw([DENSE, forecast('_half', 500, 0.25)], LINK)
  (axes,), (legend,) = figure.axes, figure.legends
  labels = [text.get_text() for text in legend.get_texts()]
  assert labels == ['all_reduce', '_half']
  assert len(axes.lines) == 3
  seconds = axes.lines[1].get_ydata()
  assert (np.diff(seconds) < 0).all()  # More bandwidth, less time.


def test_an_infinitely_fast_link_is_drawn_at_the_edge(tmp_path):
  figure = draw([DENSE], network.Link(0.0, math.inf))
  (axes,) = figure.axes
  assert 'infinite' in axes.texts[0].get_text()
  assert math.isfinite(axes.get_xlim()[1])
  figure.savefig(tmp_path / 'figure.png')
