"""Pictures of comparisons: what their legends say."""

from matplotlib.figure import Figure

from gossipjax.comparison import figures
from gossipjax.results import reader
from tests.support import workdirs
from tests.support.workdirs import record

NAMES = ['dense', '_mine']  # Matplotlib hides labels that begin with _.


def names(figure: Figure) -> list[str]:
  (legend,) = figure.legends
  figure.canvas.draw()
  return [text.get_text() for text in legend.get_texts()]


def test_every_run_is_in_the_legend(tmp_path, monkeypatch):
  drawn = []
  monkeypatch.setattr(
    Figure, 'savefig', lambda self, *_, **__: drawn.append(self)
  )
  variants = {name: {'strategy': {'name': 'topk'}} for name in NAMES}
  folder = workdirs.claim(tmp_path / 'a', workdirs.config(**variants))
  for name in NAMES:
    workdirs.run(folder, name, [record(s) for s in (1, 2, 4)])
  figures.draw(folder, reader.summary(folder), reader.read(folder))
  assert drawn
  for figure in drawn:
    assert [n for n in names(figure) if n != 'target'] == NAMES
