"""Figures of comparisons: legends, axes and labels."""

import pytest
from matplotlib.figure import Figure

from gossipjax.comparison import chart, figures, report, timelines, units
from gossipjax.results import reader
from tests.support import workdirs
from tests.support.workdirs import record

NAMES = ['dense', '_mine']  # Matplotlib hides labels that begin with _.


def legend_labels(figure: Figure) -> list[str]:
  (legend,) = figure.legends
  figure.canvas.draw()
  return [text.get_text() for text in legend.get_texts()]


@pytest.fixture
def drawn(monkeypatch):
  """The figures that the test saves."""
  found = []
  monkeypatch.setattr(
    figures, 'save', lambda figure, *_, **__: found.append(figure)
  )
  return found


def test_every_run_is_in_the_legend(tmp_path, drawn):
  variants = {name: {'strategy': {'name': 'topk'}} for name in NAMES}
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(**variants))
  for name in NAMES:
    workdirs.run(folder, name, [record(s) for s in (1, 2, 4)])
  figures.draw(folder, reader.summary(folder), reader.read(folder))
  assert drawn
  for figure in drawn:
    assert [n for n in legend_labels(figure) if n != 'target'] == NAMES


def test_a_run_that_diverged_before_its_first_score_is_in_the_legend_only(
  tmp_path, drawn
):
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(good={}, bad={}))
  unscored = {'test_accuracy': None, 'test_loss': None}
  mae = lambda s: record(s, **unscored, scores={'test_mae': 1 / s})
  workdirs.run(folder, 'good', [mae(1), mae(2), mae(4)])
  workdirs.run(folder, 'bad', [record(s, **unscored) for s in (1, 2)])
  figures.draw(folder, reader.summary(folder), reader.read(folder))
  names = [figure.axes[0].get_ylabel() for figure in drawn]
  (figure,) = (f for f, name in zip(drawn, names, strict=True) if 'mae' in name)
  assert legend_labels(figure)[:2] == ['good', 'bad']
  good, bad = figure.axes[0].lines[:2]
  assert (len(good.get_xdata()), len(bad.get_xdata())) == (3, 0)


def test_figures_and_the_report_give_a_run_the_same_color(tmp_path, drawn):
  """Also if the run before it diverged before its first record."""
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(bad={}, good={}))
  workdirs.run(folder, 'bad', [], diverged='The loss is NaN.', steps=0)
  last = record(4)
  end = {k: max(v) if isinstance(v, list) else v for k, v in last.items()}
  workdirs.run(folder, 'good', [record(2), last], **end, steps=4)
  summary, runs = reader.summary(folder), reader.read(folder)
  figures.draw(folder, summary, runs)
  good = drawn[0].axes[0].lines[1]
  assert (good.get_label(), good.get_color()) == ('good', 'C1')
  color = f'border-top-color: {chart.COLORS[1]}"></i>good'
  assert color in report.page(summary, runs)


@pytest.mark.parametrize('last, scale', [(0.25, 'log'), (-0.5, 'linear')])
def test_a_loss_has_a_logarithmic_axis_if_it_is_positive(
  tmp_path, drawn, last, scale
):
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(dense={}))
  losses = {1: 1.0, 2: 0.5, 4: last}
  records = [record(s, train_loss=x, test_loss=x) for s, x in losses.items()]
  workdirs.run(folder, 'dense', records)
  figures.draw(folder, reader.summary(folder), reader.read(folder))
  axes = {figure.axes[0].get_ylabel(): figure.axes[0] for figure in drawn}
  for name in ('training loss', 'held-out loss'):
    assert axes[name].get_yscale() == scale
    assert len(axes[name].lines[0].get_ydata()) == 3


@pytest.mark.parametrize(
  'sent, labels',
  [
    ([0, 38_000, 400_000], ['0 B', '10 kB', '100 kB']),
    ([0, 1_540_000, 15_400_000], ['0 B', '1 MB', '10 MB']),
    ([0, 3_000, 5 * 10**9], ['0 B', '1 kB', '100 kB', '10 MB', '1 GB']),
  ],
)
def test_an_axis_of_bytes_from_0_skips_decades_without_data(
  tmp_path, drawn, sent, labels
):
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(dense={}))
  steps = zip((1, 2, 4), sent, strict=True)
  records = [record(step, bytes_sent=[b, b]) for step, b in steps]
  workdirs.run(folder, 'dense', records)
  figures.draw(folder, reader.summary(folder), reader.read(folder))
  axes = drawn[0].axes[1]
  drawn[0].canvas.draw()
  low, high = axes.get_xlim()
  ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
  assert axes.get_xscale() == 'symlog'
  assert [t.get_text() for x, t in ticks if low <= x <= high] == labels
  assert not len(axes.get_xticks(minor=True))


@pytest.mark.filterwarnings('error')
def test_an_axis_of_bytes_is_linear_if_nothing_was_sent(tmp_path, drawn):
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(alone={}))
  records = [record(s, bytes_sent=[0, 0]) for s in (1, 2, 4)]
  workdirs.run(folder, 'alone', records)
  figures.draw(folder, reader.summary(folder), reader.read(folder))
  axes = drawn[0].axes[1]
  drawn[0].canvas.draw()
  assert axes.get_xscale() == 'linear'
  assert [text.get_text() for text in axes.get_xticklabels()] == ['0 B']


@pytest.mark.parametrize(
  'unit, low, high, label',
  [
    ('', 2.3021, 2.3036, '2.3022'),
    ('', 0, 12_000, '6,000'),
    ('', 0.001, 0.013, '0.004'),
    ('s', 12_345.1, 12_345.9, '12,345.5 s'),
    ('B', 2.3021e6, 2.3036e6, '2.3022 MB'),
    ('%', 0.93011, 0.93019, '93.015 %'),
  ],
)
def test_neighboring_ticks_have_different_labels(unit, low, high, label):
  figure = Figure()
  axes = figure.subplots()
  axes.set_ylim(low, high)
  units.ticks(axes.yaxis, unit)
  figure.canvas.draw()
  labels = [text.get_text() for text in axes.get_yticklabels()]
  assert label in labels and len({*labels}) == len(labels)


@pytest.mark.parametrize('stem', ['strategy', 'a_name_of_about_' + 'm' * 50])
def test_a_figure_has_room_for_the_legend_of_many_runs(tmp_path, drawn, stem):
  names = [f'{stem}_{i}' for i in range(24)]
  folder = workdirs.claim(
    tmp_path / 'a', workdirs.config(**{name: {} for name in names})
  )
  for name in names:
    workdirs.run(folder, name, [record(1), record(2)])
  figures.draw(folder, reader.summary(folder), reader.read(folder))
  figure = drawn[0]
  figure.draw_without_rendering()  # Places the legend.
  place = figure.legends[0].get_window_extent()
  assert place.x0 >= 0 and place.x1 <= figure.bbox.x1
  panels = [axes.get_window_extent().x1 for axes in figure.axes]
  assert 3 * figure.dpi < panels[0] < panels[-1] < place.x0
  assert place.y0 >= 0 and place.y1 <= figure.bbox.y1


def test_a_starved_worker_does_not_shorten_the_timelines(tmp_path, drawn):
  """It computes one gradient, the other worker thirty: twenty are shown."""
  spans = [(0, 'compute', 0.0, 0.3), (0, 'wait', 0.3, 9.0)]
  spans += [(1, 'compute', 0.2 * i, 0.2 * i + 0.2) for i in range(30)]
  timelines.draw(tmp_path, {'a': spans, 'few': [(0, 'compute', 0.0, 7.0)]})
  (figure,) = drawn
  assert figure.axes[0].get_xlim() == pytest.approx((0, 4.0))
  assert figure.axes[0].get_xlabel() == 'virtual seconds (the beginning only)'
  stalled = [(0, 'compute', 0.0, 0.1), (0, 'wait', 0.1, 9.0)]
  timelines.draw(tmp_path, {'stalled': stalled, 'a': spans})
  assert drawn.pop().axes[0].get_xlim() == pytest.approx((0, 4.0))
  few = [(0, 'compute', 0.0, 3.0), (1, 'compute', 0.0, 2.0)]
  timelines.draw(tmp_path, {'few': few})
  assert drawn[1].axes[0].get_xlim() == pytest.approx((0, 3.0))
  assert drawn[1].axes[0].get_xlabel() == 'virtual seconds'
  assert drawn[1].axes[0].get_ylabel() == 'worker'
  assert drawn[1].axes[0].get_yticks().tolist() == [0, 1]
  many = [(i, 'compute', 0.0, 1.0) for i in range(24)]
  timelines.draw(tmp_path, {'many': many})
  label = drawn[2].axes[0].get_ylabel()
  assert label == 'worker (the first 16 of 24)'
  assert drawn[2].axes[0].get_yticks().tolist() == [*range(0, 16, 2)]


def test_the_title_of_a_timeline_is_inside_the_figure(tmp_path, drawn):
  name = 'a_variant_' + '_with_more_and_'.join('abcdefghi')
  timelines.draw(tmp_path, {name: [(0, 'compute', 0.0, 1.0)], 'b': []})
  (figure,) = drawn
  figure.draw_without_rendering()
  title = figure.axes[0].title
  assert title.get_text().replace('\n', '') == name
  place = title.get_window_extent()
  assert place.x0 >= 0 and place.x1 <= figure.bbox.x1 / 2
