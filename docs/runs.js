// The page of all runs: filters rows, sorts them, draws their front.
(() => {
const told = JSON.parse(document.getElementById('runs-data').textContent);
const by = id => document.getElementById(id);
const sorted = {key: 'seconds', up: true};
const MEASURED = 'measured';  // Of the choices of a step's computing.
const HEADINGS = {strategy: 'strategy', workers: 'workers', score: 'score',
                  perStep: 'sent per step', bytes: 'sent in all',
                  seconds: 'total seconds', computing: 'computing',
                  communication: 'communication', steps: 'steps', seeds: 'seeds',
                  commit: 'commit'};

function readable(value, unit) {
  if (value === null || value === undefined) return '';
  if (unit === '%') return `${(100 * value).toFixed(2)} %`;
  if (unit === 'B') {
    const [scale, prefix] = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'],
                             [1, '']].find(([s]) => value >= s) ?? [1, ''];
    return `${+(value / scale).toPrecision(3)} ${prefix}B`;
  }
  const plain = value >= 1000 ? Math.round(value).toLocaleString('en')
                              : +value.toPrecision(3);
  return unit ? `${plain} ${unit}` : `${plain}`;
}

// Seconds of a whole run, and their parts; undefined if not known.
function costs(row) {
  const communication = row.seconds[by('link').value];
  if (row.virtual_s) return {seconds: row.virtual_s};
  const chosen = by('computing').value;
  const step = chosen === MEASURED ? row.step_s : +chosen;
  if (step === null) return {communication};
  const computing = step * row.steps;
  return {seconds: computing + communication, computing, communication};
}

const unitOf = row => /accuracy/.test(row.score) ? '%' : '';

// What is shown of a row, as a number to sort by and as text.
function cells(row) {
  const {seconds, computing, communication} = costs(row);
  const time = value => [value ?? Infinity, readable(value, 's')];
  const metric = row.score.replace('test_', 'held-out ');
  return {
    strategy: [row.strategy, row.strategy],
    workers: [row.workers, `${row.workers}`],
    score: [row.higher ? row.value : -row.value,
            `${readable(row.value, unitOf(row))} ${metric}`],
    perStep: [row.bytes_per_step, readable(row.bytes_per_step, 'B')],
    bytes: [row.bytes, readable(row.bytes, 'B')],
    seconds: [seconds ?? Infinity, readable(seconds, 's')
              + (row.virtual_s ? ' (virtual)' : '')],
    computing: time(computing),
    communication: time(communication),
    steps: [row.steps, readable(row.steps)],
    seeds: [row.seeds.length, row.seeds.join(', ')],
    commit: [row.commit, row.commit.slice(0, 8)],
  };
}

function shown() {
  const all = value => value === '';
  return told.rows.filter(row =>
      row.workload === by('workload').value
      && (all(by('workers').value) || `${row.workers}` === by('workers').value));
}

function element(name, text = '', attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  return made;
}

function computed(row) {
  if (row.virtual_s || row.step_s === null) return [];
  const step = readable(1000 * row.step_s, 'ms');
  const rest = row.coded ? '' : ', without what the strategy adds';
  return [element('p', `A step computes for ${step}, measured${rest}.`)];
}

function table(rows) {
  const made = element('table');
  const head = made.createTHead().insertRow();
  for (const [key, heading] of Object.entries(HEADINGS)) {
    const cell = element('th', '', {'data-key': key});
    const button = element('button', heading, {type: 'button'});
    button.onclick = () => {
      sorted.up = sorted.key === key ? !sorted.up : key !== 'score';
      sorted.key = key;
      draw();
    };
    if (sorted.key === key) {
      cell.ariaSort = sorted.up ? 'ascending' : 'descending';
    }
    cell.append(button);
    head.append(cell);
  }
  const body = made.createTBody();
  const value = row => cells(row)[sorted.key][0];
  const order = (a, b) => typeof a === 'string' ? a.localeCompare(b) : a - b;
  rows.sort((a, b) => (sorted.up ? 1 : -1) * order(value(a), value(b)));
  for (const row of rows) {
    const line = body.insertRow();
    for (const [key, [, text]] of Object.entries(cells(row))) {
      const cell = line.insertCell();
      cell.textContent = text;
      cell.dataset.label = HEADINGS[key];
    }
    const more = element('details');
    more.append(element('summary', row.strategy),
                element('pre', row.command), ...computed(row),
                element('pre', JSON.stringify(row.config, null, 1)));
    line.cells[0].replaceChildren(more);
  }
  return made;
}

// The rows that nobody beats in both, from the cheapest on.
function front(points) {
  let best = -Infinity;
  return [...points].sort((a, b) => a.x - b.x || b.y - a.y)
      .filter(p => p.y > best && (best = p.y) !== undefined);
}

function svg(name, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  if (text !== undefined) made.textContent = text;
  return made;
}

// Where the label of a point is inside the plot and meets no other one;
// undefined if that is nowhere near.
function place(text, x, y, plot, taken) {
  const wide = 7 * text.length, high = 12;
  for (const below of [0, 1, -1, 2, -2]) {
    for (const side of ['end', 'start']) {  // No point is left of the front.
      const at = side === 'end' ? x - 6 : x + 6, base = y - 4 + high * below;
      const from = side === 'end' ? at - wide : at, to = from + wide;
      const inside = from >= plot.left && to <= plot.right
          && base - high >= plot.top && base <= plot.bottom;
      if (inside && !taken.some(other => other.from < to && from < other.to
                                && Math.abs(other.base - base) < high)) {
        taken.push({from, to, base});
        return {x: at, y: base, 'text-anchor': side};
      }
    }
  }
}

// Round values of an even axis, at most so many.
function evenly(low, high, most) {
  const least = (high - low) / most, ten = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(m => m * ten).find(s => s >= least);
  const first = Math.ceil(low / step), many = Math.floor(high / step) - first;
  return Array.from({length: many + 1}, (_, i) => (first + i) * step);
}

// Round values of a logarithmic axis, about so many.
function decades(low, high, most) {
  const first = Math.floor(Math.log10(low)), last = Math.log10(high);
  const tens = Array.from({length: Math.ceil(last) - first + 1},
                          (_, i) => 10 ** (first + i));
  const within = digits => tens.flatMap(ten => digits.map(d => d * ten))
      .filter(x => x >= low && x <= high);
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    const found = within(digits);
    if (found.length > 1 && found.length <= most + 1) return found;
  }
  const whole = within([1]), each = Math.ceil(whole.length / most);
  if (whole.length < 2) return evenly(low, high, most);
  return whole.filter((_, i) => i % each === 0);
}

function picture(rows) {
  const cost = by('cost').value, width = by('front').clientWidth || 600;
  const height = 320, left = 70, right = 20, bottom = 45, top = 12;
  const points = rows.map(row => {
    const found = cells(row);
    const text = `${row.strategy}: ${found.score[1]}, ${found[cost][1]}`;
    return {row, text, x: found[cost][0], y: found.score[0]};
  }).filter(p => p.x > 0 && isFinite(p.x));
  if (!points.length) return element('p');
  const range = (values, wide) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const rest = (high - low || Math.abs(high) || 1) * wide;
    return [low - rest, high + rest];
  };
  const [x0, x1] = range(points.map(p => Math.log10(p.x)), 0.06);
  const [y0, y1] = range(points.map(p => p.y), 0.08);
  const px = x => left + (Math.log10(x) - x0) / (x1 - x0)
      * (width - left - right);
  const py = y => top + (y1 - y) / (y1 - y0) * (height - top - bottom);
  const made = svg('svg', {width, height, role: 'img',
                           'aria-label': 'score against cost'});
  const unit = cost === 'bytes' ? 'B' : 's', row = points[0].row;
  const many = width < 500 ? 2 : 4;
  for (const x of decades(10 ** x0, 10 ** x1, many)) {
    made.append(
        svg('line', {x1: px(x), x2: px(x), y1: top, y2: height - bottom,
                     stroke: '#ddd'}),
        svg('text', {x: px(x), y: height - bottom + 16,
                     'text-anchor': 'middle'}, readable(x, unit)));
  }
  for (const y of evenly(y0, y1, 5)) {
    made.append(
        svg('line', {x1: left, x2: width - right, y1: py(y), y2: py(y),
                     stroke: '#ddd'}),
        svg('text', {x: left - 6, y: py(y) + 4, 'text-anchor': 'end'},
            readable(row.higher ? y : -y, unitOf(row))));
  }
  const best = front(points);
  made.append(svg('polyline', {
    points: best.map(p => `${px(p.x)},${py(p.y)}`).join(' '),
    fill: 'none', stroke: '#ff7f0e', 'stroke-width': 1.5}));
  const plot = {left, right: width, top: 0, bottom: height - bottom};
  const taken = [];
  for (const p of [...points.filter(p => !best.includes(p)), ...best]) {
    const on = best.includes(p), name = p.row.strategy;
    const dot = svg('circle', {cx: px(p.x), cy: py(p.y), r: on ? 4 : 3,
                               fill: on ? '#ff7f0e' : '#888'});
    dot.append(svg('title', {}, p.text));  // Shown under the pointer.
    made.append(dot);
    const found = on && place(name, px(p.x), py(p.y), plot, taken);
    if (found) made.append(svg('text', {...found, class: 'name'}, name));
  }
  const axis = cost === 'bytes' ? 'bytes sent by one worker'
      : row.virtual_s ? 'virtual seconds'
      : `seconds: computing (${by('computing').value === MEASURED
          ? 'measured' : 'as set'}), communication on ${by('link').value}`;
  made.append(svg('text', {x: (left + width - right) / 2, y: height - 6,
                           'text-anchor': 'middle'}, axis));
  return made;
}

function draw() {
  const rows = shown();
  by('nothing').hidden = rows.length > 0;
  by('front').replaceChildren(picture(rows));
  by('runs-table').replaceChildren(table(rows));
}

// Measured is no choice where nothing was measured.
function suit() {
  const choice = by('computing');
  const known = shown().some(row => row.step_s !== null);
  choice.options[0].disabled = !known;
  if (!known && choice.value === MEASURED) choice.value = '0.01';
  draw();
}

function options(id, values, names = values) {
  by(id).replaceChildren(...values.map((value, i) =>
      element('option', names[i], {value})));
  by(id).onchange = draw;
}

const names = key => [...new Set(told.rows.map(row => row[key]))];
options('workload', names('workload'));
options('workers', ['', ...names('workers').sort((a, b) => a - b)],
        ['all', ...names('workers').sort((a, b) => a - b)]);
options('link', told.links);
options('computing', [MEASURED, '0.001', '0.01', '0.1', '1', '0'],
        ['as measured', '1 ms', '10 ms', '100 ms', '1 s', 'nothing']);
by('link').value = '1gbe';
by('cost').onchange = draw;
by('workload').onchange = suit;
addEventListener('resize', draw);
suit();
document.body.dataset.ready = 'yes';
})();
