"""report.html, opened in a real browser."""

import json
import pathlib
import shutil

import pytest

from gossipjax.comparison import report, scores
from gossipjax.results import reader, workdir
from tests.support import workdirs
from tests.support.workdirs import record

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
FLAGS = (
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
)
COSTS = (
  'total_s',
  'bytes_sent',
  'step',
  'comm_1gbe_s',
  'comm_wan_s',
  'train_s',
)
EVIL = '<script>window.evil=1<!--'
IMAGE = '<img src=x onerror="window.evil=1">'

pytestmark = pytest.mark.skipif(
  CHROMIUM is None, reason='needs chromium; .ci/run installs it'
)


@pytest.fixture(scope='module')
def browser():
  from playwright.sync_api import sync_playwright

  with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    yield browser
    browser.close()


class Opened:
  """A report in a tab, with its requests, its errors and its warnings."""

  def __init__(self, browser, path, width=1280):
    self.requests, self.complaints = [], []
    self.tab = browser.new_page(viewport={'width': width, 'height': 900})
    self.tab.on('request', lambda r: self.requests.append(r.url))
    self.tab.on('pageerror', lambda e: self.complaints.append(str(e)))
    self.tab.on(
      'console',
      lambda m: (
        self.complaints.append(m.text)
        if m.type in ('error', 'warning')
        else None
      ),
    )
    self.tab.goto(f'file://{path}')
    self.tab.wait_for_selector('body[data-ready]', timeout=60_000)

  def model(self, name, what):
    """Property `what` of the Bokeh model with this name, as JSON."""
    return self.tab.evaluate(
      '([name, what]) => new Function("m", `return m.${what}`)('
      'Bokeh.documents[0].get_model_by_name(name))',
      [name, what],
    )


@pytest.fixture
def opened(browser):
  tabs = []

  def open_(path, **kwargs):
    tabs.append(Opened(browser, path, **kwargs))
    return tabs[-1]

  yield open_
  for tab in tabs:
    tab.tab.close()
    assert tab.complaints == []
    assert len(tab.requests) == 1 and tab.requests[0].startswith('file:')


def comparison(
  folder: pathlib.Path, runs: dict[str, list], audit: list = (), **config
) -> pathlib.Path:
  """Writes a finished comparison with these records by run, and with these
  rows of an audit for each run; returns the path of its report."""
  variants = {
    name: {'strategy': {'name': 'topk', 'density': 0.01 * i}}
    for i, name in enumerate(runs)
  }
  config = workdirs.config(**variants) | config
  workdirs.claim(folder, config)
  summaries = []
  for name, records in runs.items():
    workdirs.run(folder, name, records)
    last = records[-1]
    summaries.append(
      {
        **{k: max(v) if isinstance(v, list) else v for k, v in last.items()},
        'name': name,
        'steps': last['step'],
        'audit': audit,
      }
    )
  summary = {'config': config, 'runs': summaries, **workdir.provenance()}
  report.write(folder, summary, reader.read(folder))
  return folder / 'report.html'


@pytest.fixture(scope='module')
def two(tmp_path_factory):
  return comparison(
    tmp_path_factory.mktemp('two') / 'a',
    {
      'dense': [record(s) for s in (1, 2, 4)],
      'sparse': [
        record(s, test_accuracy=0.9 / s, bytes_sent=[s, 1200 * s])
        for s in (1, 2, 4)
      ],
    },
  )


def test_lines_follow_the_chosen_axes(opened, two):
  page = opened(two)
  # Total seconds: train_s over two workers, plus communication on the link.
  assert page.model('line1', 'data_source.data.x') == [1, 2, 4]
  assert page.model('chart', 'below[0].axis_label') == (
    'total seconds on 1gbe (model)'
  )
  assert page.model('chart', 'x_scale.type') == 'LogScale'
  page.tab.select_option('#cost', 'step')
  assert page.model('line1', 'data_source.data.x') == [1, 2, 4]
  assert page.model('line1', 'data_source.data.y') == [0.9, 0.45, 0.225]
  page.tab.select_option('#cost', 'bytes_sent')
  assert page.model('line1', 'data_source.data.x') == [1200, 2400, 4800]
  assert page.model('chart', 'below[0].axis_label') == 'bytes sent (logical)'
  page.tab.select_option('#cost', 'comm_wan_s')
  assert page.model('line1', 'data_source.data.x') == [2, 4, 8]
  page.tab.select_option('#score', 'test_loss')
  assert page.model('line0', 'data_source.data.y') == [1, 0.5, 0.25]
  assert page.model('chart', 'left[0].axis_label') == 'held-out loss'


def test_names_that_are_numbers_keep_their_lines(opened, tmp_path):
  names = ['dense', '8', '2']
  page = opened(
    comparison(
      tmp_path / 'a',
      {
        name: [record(s, train_loss=i - 1.0) for s in (1, 2)]
        for i, name in enumerate(names)
      },
    )
  )
  page.tab.select_option('#score', 'train_loss')
  assert not page.tab.is_checked('#logy')  # A loss is not above 0.
  for i, name in enumerate(names):
    data = page.model(f'line{i}', 'data_source.data')
    assert {*data['run']} == {name} and {*data['y']} == {i - 1.0}


def test_all_links_and_scores_can_be_chosen_the_configured_link_first(
  opened, two
):
  page = opened(two)
  assert page.tab.eval_on_selector_all(
    '#cost option', 'all => all.map(o => o.value)'
  ) == [*COSTS]
  for cost in COSTS:
    page.tab.select_option('#cost', cost)
    for score in (*scores.ACCURACY, *scores.LOSSES, *report.OTHERS):
      page.tab.select_option('#score', score)
      assert page.tab.is_hidden('#empty')


def test_zeros_are_not_drawn_on_a_logarithmic_axis_and_a_note_says_so(
  opened, two
):
  page = opened(two)
  page.tab.select_option('#score', 'consensus_distance')  # All zeros.
  assert page.tab.is_hidden('#empty')
  page.tab.check('#logy')
  assert page.model('chart', 'y_scale.type') == 'LogScale'
  assert page.tab.is_visible('#empty')


@pytest.mark.parametrize(
  'low, high, ticks',
  [
    (0.007, 0.25, [0.01, 0.02, 0.05, 0.1, 0.2]),
    (2.2, 9.1, [4, 6, 8]),
    (0.91, 0.9312, [0.91, 0.915, 0.92, 0.925, 0.93]),
    (30, 4e7, [100, 1e3, 1e4, 1e5, 1e6, 1e7]),
    (1, 1e27, [1, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e21, 1e24, 1e27]),
  ],
)
def test_a_logarithmic_axis_has_labels_throughout(
  opened, two, low, high, ticks
):
  page = opened(two)
  found = page.tab.evaluate(
    """([low, high]) => {
      const plot = Bokeh.documents[0].get_model_by_name('chart');
      return plot.below[0].ticker.get_ticks(low, high, plot.x_range).major;
    }""",
    [low, high],
  )
  assert found == pytest.approx(ticks)


def test_numbers_keep_the_digits_that_count_and_only_costs_have_units(
  opened, two
):
  page = opened(two)
  texts = {
    ('step', 1125): '1125',
    ('step', 1_234_567): '1234567',
    ('test_loss', 2.30259): '2.303',
    ('test_accuracy', 0.92346): '92.35 %',
    ('test_bytes_per_token', 3.2): '3.2',
    ('test_latency_s', 0.0003): '0.0003',
    ('bytes_sent', 123_456): '123 kB',
    ('total_s', 1234.4): '1234 s',
    ('total_s', 0.0005): '500 µs',
  }
  for (key, value), text in texts.items():
    given = [value, key]
    assert page.tab.evaluate('given => readable(...given)', given) == text
  page.tab.select_option('#score', 'test_loss')
  ticks = lambda side, given: page.model(
    'chart', f'{side}[0].formatter.doFormat({given}, {{loc: 0}})'
  )
  assert ticks('left', [2.3, 2.305, 2.31]) == ['2.3', '2.305', '2.31']
  page.tab.select_option('#cost', 'bytes_sent')
  assert ticks('below', [2_302_500, 2_305_000]) == ['2.3025 MB', '2.305 MB']


def test_wire_bytes_are_shown_where_they_were_counted(opened, two, tmp_path):
  assert opened(two).tab.locator('#cost option[value=wire_bytes]').count() == 0
  page = opened(
    comparison(
      tmp_path / 'a',
      {'dense': [record(s, wire_bytes=[3000 * s, 10]) for s in (1, 2)]},
    )
  )
  assert '3 kB' in page.tab.inner_text('#results')
  page.tab.select_option('#cost', 'wire_bytes')
  assert page.model('line0', 'data_source.data.x') == [3000, 6000]


def test_hiding_a_run_removes_its_line_and_rescales_the_chart(opened, two):
  page = opened(two)
  high = page.model('chart', 'y_range.end')
  page.tab.uncheck('#runs label:has-text("sparse") input')
  assert page.model('line1', 'visible') is False
  assert page.model('dots1', 'visible') is False
  assert page.model('line0', 'visible') is True
  page.tab.wait_for_function(
    'high => Bokeh.documents[0].get_model_by_name("chart").y_range.end < high',
    arg=high,
  )
  page.tab.click('#none')
  assert page.model('line0', 'visible') is False
  page.tab.click('#all')
  assert page.model('line1', 'visible') is True


def tooltip_text(tab) -> str:
  """Text of the tooltip of the only point, in the middle of the chart."""
  box = tab.evaluate("""() => {
    const view = Bokeh.index.find_one(
        Bokeh.documents[0].get_model_by_name('chart'));
    const {x, y} = view.el.getBoundingClientRect();
    const inner = view.frame.bbox;
    return [x + inner.x_center, y + inner.y_center]}""")
  tab.mouse.move(*box)
  tab.get_by_text('held-out accuracy:').wait_for()
  # Bokeh draws the tooltip in a shadow DOM: no outer element has its text.
  return tab.locator('.bk-tooltip-content').inner_text()


def test_the_tooltip_of_a_point_shows_its_values(opened, tmp_path):
  name = IMAGE
  records = [record(2, bytes_sent=[5_000_000, 1])]
  # The target equals the point's score, so the point is in the middle.
  page = opened(comparison(tmp_path / 'a', {name: records}, target=0.5))
  text = tooltip_text(page.tab)
  for part in (name, '5 MB', 'held-out accuracy', '0.5', '4 s'):
    assert part in text
  assert page.tab.evaluate('window.evil') is None


def test_the_table_sorts_by_number_and_on_a_second_click_in_reverse(
  opened, tmp_path
):
  page = opened(
    comparison(
      tmp_path / 'a',
      {
        name: [record(4, bytes_sent=[sent, 0])]
        for name, sent in (('kilo', 9_000), ('mega', 4_000_000), ('few', 800))
      },
    )
  )
  texts = 'all => all.map(cell => cell.textContent)'
  names = lambda: page.tab.eval_on_selector_all(
    '#results td:first-child', texts
  )
  assert names() == ['kilo', 'mega', 'few']
  page.tab.click('#results th:has-text("sent in all") button')
  assert names() == ['few', 'kilo', 'mega']
  page.tab.click('#results th:has-text("sent in all") button')
  assert names() == ['mega', 'kilo', 'few']
  page.tab.click('#results th:has-text("run") button')
  assert names() == ['few', 'kilo', 'mega']


@pytest.mark.parametrize(
  'ordered',
  [
    ['9.02 ± 0.1 s', '10.5 ± 0.2 s', '101 ± 3 s', '9,234 ± 1,009 s', 'never'],
    ['7 in 60 steps', '60 in 60 steps', '100 in 300 steps'],
    ['9.8 ± 1 %', '90.57 ± 3.3 %, 1 of 3 seeds diverged', '100 %', 'diverged'],
    ['0.235 s', '2.01 s', '1,234 s', '', 'never'],
    ['500 B', 'at most 67.3 kB', '2 TB', '1e+03 TB'],
    ['3.2 s', 'at most 9.5 s', '12 s', 'at most 110 s', '> 3 h', 'not reached'],
    ['at most 0.9 x', '1.2 x', 'at least 3 x', '10 x', ''],
    ['9.31 s measured', '12.5 s measured'],
    ['0.8939 ± 7.1e-06', '9.5 ± 0.2', '10.1 ± 3e-05'],
    ['0.9 ± 0.1, 1 of 3 seeds diverged', '1.2 ± 0.1', '10.3 ± 1e+02'],
  ],
)
def test_cells_sort_by_their_number_and_cells_without_one_come_last(
  opened, two, ordered
):
  page = opened(two)
  found = page.tab.evaluate(
    """cells => {
      const table = document.querySelector('#results');
      const [heading, body] = [table.querySelector('th'), table.tBodies[0]];
      body.replaceChildren(...cells.map(cell => {
        const row = document.createElement('tr');
        row.insertCell().textContent = cell;
        return row;
      }));
      return [1, 2].map(() => {
        heading.querySelector('button').click();
        return [...body.rows].map(row => row.textContent);
      });
    }""",
    ordered[::-1],
  )
  numbers = [cell for cell in ordered if set(cell) & set('0123456789')]
  words = ordered[len(numbers) :]
  assert found == [ordered, numbers[::-1] + words[::-1]]


def test_the_audit_table_lists_bytes_between_and_within_workers(
  opened, tmp_path
):
  row = {'step': 0, 'worker': 0, 'compiled': 1200, 'ledger': 900}
  audit = [
    {**row, 'kinds': {'all-reduce': 1200}, 'reason': 'widened'},
    {**row, 'kinds': {'all-gather': 1200}, 'reason': '', 'within': True},
  ]
  tables = {}
  for devices in (2, 0):
    runs = {'dense': [record(4)]}
    folder = tmp_path / str(devices)
    rows = audit if devices else audit[:1]
    path = comparison(folder, runs, rows, devices_per_worker=devices)
    cells = 'all => all.map(cell => cell.textContent.trim())'
    found = opened(path).tab.eval_on_selector_all('#audit :is(th, td)', cells)
    tables[devices] = found
  assert tables[2] == [
    *('run', 'step', 'where bytes are sent', 'logical', 'compiled'),
    *('collectives', 'reason'),
    *('dense', '0', 'between workers', '900', '1,200'),
    *('all-reduce 1,200', 'widened'),
    *('dense', '0', 'within a worker', '900', '1,200', 'all-gather 1,200', ''),
  ]
  assert 'where bytes are sent' not in tables[0] and 'collectives' in tables[0]


def test_the_page_begins_with_the_run_that_reaches_the_target_first(
  opened, two
):
  page = opened(two)
  text = page.tab.inner_text('#answer')
  assert text.startswith('First to held-out accuracy 74.25 % on 1gbe: ')
  assert 'never' not in page.tab.inner_text('#answered')
  top = lambda what: page.tab.locator(what).bounding_box()['y']
  assert top('#answer') < top('#cost') < top('#results')


def test_the_target_line_is_drawn_only_for_the_score_of_the_target(opened, two):
  page = opened(two)
  drawn = lambda: page.model('target', 'data_source.data.y')
  assert drawn() == pytest.approx([0.7425])
  assert page.tab.is_visible('#target')
  page.tab.select_option('#score', 'test_loss')
  assert drawn() == [] and page.tab.is_hidden('#target')


@pytest.mark.parametrize('score, target', [('accuracy', 0.97), ('loss', 0.01)])
def test_a_target_that_no_run_reached_is_inside_the_chart(
  opened, tmp_path, score, target
):
  records = [record(s) for s in (2, 3, 4)]
  config = {'target': target, 'target_score': score}
  page = opened(comparison(tmp_path / 'a', {'dense': records}, **config))
  low, high = (page.model('chart', f'y_range.{at}') for at in ('start', 'end'))
  assert low < target < high


def test_no_table_is_cut_off_at_1280_pixels(opened, tmp_path):
  seconds = {'virtual_s': 4.0, 'staleness': 0.25, 'link_utilisation': 0.5}
  seconds |= {'exchanges': 4, 'waiting_s': [0.5, 0.1], 'compute_s': [1.0, 2.0]}
  sent = {'wire_bytes': [300_000_000, 10], 'bytes_local': [10, 10]}
  wide = record(4, **sent, **seconds)
  page = opened(
    comparison(
      tmp_path / 'a',
      {f'a_variant_with_a_{"very_" * i}long_name': [wide] for i in (0, 1, 6)},
    )
  )
  widths = '[...document.querySelectorAll(".wide")].map('
  widths += 'w => w.scrollWidth - w.clientWidth)'
  assert set(page.tab.evaluate(widths)) == {0}
  assert page.tab.locator('#results th').count() > 15
  wraps = 'getComputedStyle(document.querySelector("#results th")).overflowWrap'
  assert page.tab.evaluate(wraps) == 'normal'  # No word is broken.


def test_the_chart_opens_with_the_score_of_the_target(opened, tmp_path):
  records = [record(s, test_loss=1 / s) for s in (1, 2, 4)]
  page = opened(
    comparison(tmp_path / 'a', {'dense': records}, target_score='loss')
  )
  assert page.tab.input_value('#score') == 'test_loss'
  assert page.model('chart', 'y_scale.type') == 'LogScale'


def test_versions_commit_and_differing_settings_are_shown(opened, two):
  page = opened(two)
  text = page.tab.inner_text('body')
  for name, version in workdir.provenance()['versions'].items():
    assert name in text and version in text
  assert workdir.provenance()['commit'].split()[0] in text
  # strategy.name is the same in both, so it is omitted.
  assert page.tab.inner_text('#differences tr:nth-child(2)').split('\t')[1] == (
    'strategy.density = 0.01'
  )


@pytest.mark.parametrize(
  'evil', [EVIL, IMAGE, '</script>' + EVIL, '{{ 7 * 7 }}', '$$\\alpha$$']
)
def test_text_with_markup_is_shown_as_text(opened, tmp_path, evil):
  name = evil.replace('/', '')  # It also names a folder.
  page = opened(
    comparison(
      tmp_path / 'a',
      {name: [record(1)], 'other': [record(1)]},
      task={'name': evil},
      link='1gbe',
      data={'dir': evil},
    )
  )
  assert page.tab.evaluate('window.evil') is None
  assert page.tab.inner_text('h1') == f'{evil}, 2 workers'
  assert name in page.tab.inner_text('#runs')
  assert name in page.tab.inner_text('#results')
  page.tab.click('summary')
  assert json.dumps(evil) in page.tab.inner_text('details pre')


@pytest.mark.parametrize(
  'link', [IMAGE + '.json', '/a/link.json', 'a}b{c.json']
)
def test_the_tooltip_shows_the_file_name_of_a_link_as_text(
  opened, tmp_path, link
):
  seconds = {link: 0.25, '1gbe': 0.5}
  page = opened(
    comparison(tmp_path / 'a', {'x': [record(1, comm_s=seconds)]}, link=link)
  )
  text = tooltip_text(page.tab)
  assert f'communication seconds on {link} (model)' in text
  assert '0.25 s' in text and '???' not in text
  assert page.tab.evaluate('window.evil') is None


def test_only_the_scripts_of_the_report_are_executed(opened, two):
  page = opened(two)
  page.tab.evaluate("""() => {
    document.body.insertAdjacentHTML('beforeend',
      '<img src=x onerror="window.evil=1">');
  }""")
  page.tab.wait_for_timeout(500)
  assert page.tab.evaluate('window.evil') is None
  assert any(
    'Content Security Policy' in message for message in page.complaints
  )
  page.complaints.clear()
  page.requests[:] = page.requests[:1]


def test_long_runs_are_thinned_for_drawing_and_a_note_says_so(
  opened, two, tmp_path, monkeypatch
):
  assert opened(two).tab.locator('#thinned').count() == 0
  monkeypatch.setattr(report, 'MOST_POINTS', 100)
  page = opened(
    comparison(
      tmp_path / 'a',
      {
        'long': [
          record(s, **({} if s % 10 == 0 else {'test_loss': None}))
          for s in range(1, 1001)
        ]
      },
    )
  )
  assert '900 of 1000 are left out' in page.tab.inner_text('#thinned')
  steps = page.model('line0', 'data_source.data.x')
  assert len(steps) == 100 and steps[0] == 1 and steps[-1] == 1000
  page.tab.select_option('#score', 'test_loss')
  assert len(page.model('line0', 'data_source.data.x')) >= 50


def test_records_without_an_evaluation_leave_no_gap_in_the_line(
  opened, tmp_path
):
  page = opened(
    comparison(
      tmp_path / 'a',
      {
        'run': [
          record(s, **({} if s % 2 == 0 else {'test_accuracy': None}))
          for s in range(1, 7)
        ]
      },
    )
  )
  assert page.model('line0', 'data_source.data.x') == [2, 4, 6]
  page.tab.select_option('#score', 'train_loss')
  assert page.model('line0', 'data_source.data.x') == [1, 2, 3, 4, 5, 6]


def test_phones_scroll_only_vertically_and_print_omits_the_controls(
  opened, two
):
  page = opened(two, width=390)
  assert page.tab.evaluate('document.documentElement.scrollWidth') == 390
  answered = page.tab.locator('#answered').bounding_box()
  assert answered['x'] + answered['width'] <= 390
  page.tab.emulate_media(media='print')
  assert page.tab.is_hidden('#cost') and page.tab.is_visible('#results')
  assert len(page.tab.pdf()) > 1000


def test_twenty_runs_of_a_thousand_records_are_small_and_open_quickly(
  browser, tmp_path
):
  records = [record(s, train_loss=1 / (s + 0.123)) for s in range(1, 1001)]
  path = comparison(tmp_path / 'a', {f'run{i}': records for i in range(20)})
  assert path.stat().st_size < 6e6
  tab = browser.new_page()
  tools = tab.context.new_cdp_session(tab)
  # CPU time, not wall time: this machine may be busy with other work.
  tools.send('Performance.enable', {'timeDomain': 'threadTicks'})
  tab.goto(f'file://{path}')
  tab.wait_for_selector('body[data-ready]', timeout=60_000)
  spent = {
    m['name']: m['value']
    for m in tools.send('Performance.getMetrics')['metrics']
  }
  tab.close()
  assert 0.1 < spent['TaskDuration'] < 2
