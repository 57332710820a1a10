"""The page of all kept runs, opened in a real browser."""

import json
import re
import shutil

import pytest

from experiments.framework import repeat, runs_page
from experiments.framework.result_store import ResultStore, but_seed
from experiments.framework.single_run import key_of
from gossipjax.config import defaults, resolve

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
ROW = {
  'workload': 'digits',
  'workers': 8,
  'score': 'test_accuracy',
  'higher': True,
  'steps': 100,
  'seeds': [0],
  'virtual_s': None,
  'step_s': 0.02,
  'coded': True,
  'commit': 'abcdef0123456789',
  'config': {'task': {'name': '</script><b>'}},
  'command': 'python run.py --config=configs/quickstart.py',
}


def row(strategy, value, sent, seconds, **given):
  return (
    ROW
    | {
      'strategy': strategy,
      'value': value,
      'bytes': sent,
      'bytes_per_step': sent / 100,
      'seconds': {'1gbe': seconds, 'wan': 100 - seconds},
    }
    | given
  )


ROWS = [
  row('dense', 0.93, 4_000_000, 30.0),
  row('sparse', 0.92, 90_000, 3.0),
  row('poor', 0.50, 100_000, 5.0),
  row('four', 0.91, 100_000, 5.0, workers=4),
  row(
    'text',
    2.0,
    9_000,
    1.0,
    workload='text',
    score='test_loss',
    higher=False,
    step_s=None,
  ),
  *(
    row(
      f'strategy_{i}', 0.9 - 1 / (i + 2), 1e5 * i, 1.0 + i % 40, workload='many'
    )
    for i in range(200)
  ),
]


@pytest.fixture(scope='module')
def path(tmp_path_factory):
  """The page as a file without the theme that mkdocs puts around it."""
  folder = tmp_path_factory.mktemp('runs')
  for name in runs_page.ASSETS:
    shutil.copy(runs_page.DOCS / name, folder)
  body = runs_page.page(ROWS).partition('# All runs')[2]
  (folder / 'runs.html').write_text(
    f'<!DOCTYPE html><meta charset="utf-8"><body>{body}</body>'
  )
  return folder / 'runs.html'


@pytest.fixture(scope='module')
def browser():
  if CHROMIUM is None:
    pytest.skip('needs chromium; .ci/run installs it')
  from playwright.sync_api import sync_playwright

  with sync_playwright() as playwright:
    opened = playwright.chromium.launch(
      executable_path=CHROMIUM, args=['--headless', '--no-sandbox']
    )
    yield opened
    opened.close()


@pytest.fixture(params=[1280, 390])
def tab(browser, path, request):
  errors = []
  tab = browser.new_page(viewport={'width': request.param, 'height': 900})
  tab.on('pageerror', lambda error: errors.append(str(error)))
  tab.goto(f'file://{path}')
  tab.wait_for_selector('body[data-ready]')
  yield tab
  tab.close()
  assert not errors


def names(tab):
  return tab.eval_on_selector_all(
    '#runs-table tbody summary', 'all => all.map(s => s.textContent)'
  )


def test_rows_are_filtered_and_sorted_and_nothing_is_cut_off(tab):
  width = tab.viewport_size['width']
  assert tab.evaluate('document.documentElement.scrollWidth') <= width
  assert names(tab) == ['sparse', 'poor', 'four', 'dense']  # By seconds.
  tab.select_option('#link', 'wan')
  assert names(tab) == ['dense', 'poor', 'four', 'sparse']
  tab.click('#runs-table th[data-key=score] button')
  assert names(tab) == ['dense', 'sparse', 'four', 'poor']
  tab.click('#runs-table th[data-key=bytes] button')
  assert names(tab)[0] == 'sparse' and names(tab)[-1] == 'dense'
  tab.select_option('#workers', '4')
  assert names(tab) == ['four']
  tab.select_option('#workload', 'text')
  assert tab.is_visible('#nothing')
  tab.select_option('#workers', '')
  assert names(tab) == ['text']


def test_the_pareto_front_is_drawn_and_a_row_shows_its_command(tab):
  points = tab.get_attribute('#front polyline', 'points').split()
  assert len(points) == 2  # sparse and dense; the others are dominated.
  tab.click('#runs-table summary:has-text("dense")')
  details = tab.inner_text('#runs-table details[open]')
  assert ROW['command'] in details and '</script><b>' in details
  assert 'abcdef01' in tab.inner_text('#runs-table')


def test_only_the_front_has_names_which_are_apart_and_inside_the_plot(tab):
  tab.select_option('#workload', 'many')
  titles = 'all => all.map(title => title.textContent)'
  shown = tab.eval_on_selector_all('#front circle title', titles)
  assert len(shown) == 200 and any('strategy_7: ' in text for text in shown)
  boxes = tab.eval_on_selector_all(
    '#front .name',
    """all => all.map(text => {
      const {x, y, width, height} = text.getBBox();
      return [x, x + width, y, y + height];
    })""",
  )
  assert 1 < len(boxes) < 41  # A point of each cost, at most.
  width, height = (
    float(tab.get_attribute('#front svg', name)) for name in ('width', 'height')
  )
  for i, (left, right, top, bottom) in enumerate(boxes):
    assert left >= 0 and right <= width and top >= -3 and bottom < height - 40
    for other in boxes[:i]:
      apart_x = right <= other[0] or other[1] <= left
      assert apart_x or abs(top - other[2]) > 11


def test_total_seconds_are_computing_plus_communication(tab):
  cells = lambda: dict(
    zip(
      tab.locator('#runs-table th').all_inner_texts(),
      tab.locator('#runs-table tbody tr:first-child td').all_inner_texts(),
      strict=True,
    )
  )
  cell = lambda name: next(v for k, v in cells().items() if k.startswith(name))
  assert cell('total seconds') == '5 s'  # 100 steps of 20 ms, and 3 s.
  assert (cell('computing'), cell('communication')) == ('2 s', '3 s')
  assert 'seconds: computing (measured)' in tab.text_content('#front')
  tab.select_option('#computing', '0')
  assert cell('total seconds') == '3 s'
  tab.select_option('#computing', 'measured')
  tab.select_option('#workload', 'text')  # Its step_s is None.
  assert tab.input_value('#computing') == '0.01'
  assert cell('total seconds') == '2 s'
  assert 'computing (as set)' in tab.text_content('#front')


def test_steps_and_bytes_per_step_are_means_over_seeds(tmp_path):
  kept = ResultStore(tmp_path)
  for seed, steps in enumerate((100, 300)):
    config = defaults.get_config('all_reduce')
    config.seed = seed
    end = {'step': steps, 'most_bytes_sent': 600_000, 'test_accuracy': 0.9}
    result = {'records': [end], 'comm_s': {}}
    kept.add('digits', key_of(config), result, 1.0, {'commit': ''})
  row = runs_page.rows(kept)[-1]
  assert (row['seeds'], row['steps']) == ([0, 1], 200)
  assert row['bytes_per_step'] == pytest.approx((6_000 + 2_000) / 2)


def test_every_kept_run_is_on_the_page_and_its_config_is_restored():
  kept, seeds = ResultStore(), {}
  for kind in kept.kinds():
    for line in kept.lines(kind).values():
      config, result = line['key'].get('config', {}), line['result']
      if 'strategy' in config and not result['diverged']:
        group = json.dumps([kind, but_seed(config)], sort_keys=True)
        seeds.setdefault(group, set()).add(config.get('seed', 0))
  shown = {}
  for row in runs_page.rows():
    if found := re.search(r'repeat (\S+) (\w+)', row['command']):
      key = kept.lines(found[1])[found[2]]['key']
      group = json.dumps([found[1], but_seed(key['config'])], sort_keys=True)
      shown[group] = {*row['seeds']}
      config = repeat.config_of(key)
      assert key_of(config)['config'] == key['config']
      failures = config.cluster.get('failures', ())
      assert type(failures) is tuple  # config.cluster needs one.
  assert shown == seeds


@pytest.mark.parametrize('name', resolve.STRATEGIES)
def test_a_config_is_restored_from_its_key(name):
  config = defaults.get_config(name)
  config.optimizer.nesterov = False
  config.optimizer.momentum = 0.0
  config.split.holdout = 'validation'
  config.cluster = defaults.cluster(latency_s=0.0)
  assert repeat.config_of(key_of(config)).cluster.latency_s == 0.0
  assert key_of(repeat.config_of(key_of(config))) == key_of(config)
