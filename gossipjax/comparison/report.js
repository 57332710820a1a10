// report.html: chooses axes, hides lines, sorts tables.
const content = JSON.parse(document.getElementById('data').textContent);
const by = id => document.getElementById(id);
const chosen = {x: by('cost'), y: by('score')};

// A value of a column, or a tick of its axis, with its unit: to three digits, a
// score to four, a tick to as many as tell it from its neighbors. Steps, and all
// but bytes below a million, are rounded behind the point only.
function readable(value, key, ticks = []) {
  const order = number => Math.floor(Math.log10(Math.abs(number)));
  const gaps = ticks.filter(tick => tick !== value)
      .map(tick => Math.abs(tick - value));
  const apart = order(value) - order(Math.min(...gaps)) + 2;
  const unit = !(key in content.costs) || key === 'step' ? ''
      : key.endsWith('_s') ? 's' : 'B';
  const small = key === 'step' || (unit !== 'B' && Math.abs(value) < 1e6);
  const digits = Math.min(
      15, Math.max(unit ? 3 : 4, apart, small ? order(value) + 1 : 0));
  const short = number => +number.toPrecision(digits);
  if (/^(test|worker0)_accuracy$/.test(key)) return `${short(100 * value)} %`;
  if (value === 0 || !unit || (unit === 's' && Math.abs(value) >= 1e-3)) {
    return `${short(value)} ${unit}`.trim();
  }
  const scales = unit === 'B'
      ? [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']]
      : [[1e-3, 'm'], [1e-6, 'µ'], [1e-9, 'n']];
  const [scale, prefix] = scales.find(([s]) => Math.abs(value) >= s)
      ?? scales.at(-1);
  return `${short(value / scale)} ${prefix}${unit}`;
}

// Ticks of a logarithmic axis: 1, 2 and 5 of each decade, of many decades only
// some powers of ten; of a range with few of these, multiples of a round step.
function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const between = each => each.filter(tick => low <= tick && tick <= high);
  const powers = (first, last) => Array.from(
      {length: Math.floor(last) - Math.floor(first) + 1},
      (_, i) => +`1e${Math.floor(first) + i}`);
  if (decades > 0.8) {
    const every = Math.ceil(decades / 9);
    const digits = decades < 2.5 ? [1, 2, 5] : [1];
    return between(powers(Math.log10(low), Math.log10(high))
        .filter((_, i) => i % every === 0)
        .flatMap(power => digits.map(digit => digit * power)));
  }
  const least = Math.log10((high - low) / 6);
  const step = powers(least, least + 1)
      .flatMap(power => [power, 2 * power, 5 * power])
      .find(step => step >= 10 ** least);
  const rounded = value => +value.toPrecision(12);
  return between(Array.from(
      {length: 8}, (_, i) => rounded((Math.ceil(low / step) + i) * step)));
}

function draw(plot, model) {
  const [x, y] = [chosen.x.value, chosen.y.value];
  const points = content.lines.map(([run, line]) => {
    const log = by('logx').checked, logy = by('logy').checked;
    const known = line.step.map((_, i) => i).filter(i =>
        line[y][i] !== null && line[x][i] !== null
        && (line[x][i] > 0 || !log) && (line[y][i] > 0 || !logy));
    const data = {x: known.map(i => line[x][i]), y: known.map(i => line[y][i]),
                  run: known.map(() => run)};
    const sd = known.map(i => line[`${y} sd`]?.[i] ?? 0);
    data.low = data.y.map((value, i) => value - sd[i]);
    data.high = data.y.map((value, i) => value + sd[i]);
    for (const key of Object.keys(line).filter(k => !k.endsWith(' sd'))) {
      data[key] = known.map(i => line[key][i] === null
          ? 'not evaluated' : readable(line[key][i], key));
    }
    return data;
  });
  points.forEach((data, i) => {
    model(`dots${i}`).glyph.size = data.x.length > 60 ? 2 : 5;
    const {x, low, high, ...rest} = data;
    if (model(`band${i}`)) model(`band${i}`).data_source.data = {x, low, high};
    model(`line${i}`).data_source.data = {x, ...rest};
  });
  for (const [axis, key, log] of [[plot.below[0], x, by('logx').checked],
                                  [plot.left[0], y, by('logy').checked]]) {
    const side = axis === plot.below[0] ? 'x' : 'y';
    const kind = log ? 'Log' : 'Linear';
    const Ticker = Bokeh.Models.get(log ? 'CustomJSTicker' : 'BasicTicker');
    plot[`${side}_scale`] = new (Bokeh.Models.get(`${kind}Scale`))();
    axis.ticker = new Ticker(log ? {
      args: {logTicks},
      major_code: 'return logTicks(cb_data.start, cb_data.end)',
    } : {});
    axis.formatter.args = {axis: key, readable};
    axis.axis_label = content.costs[key] ?? content.scores[key];
  }
  const target = model('target'), aimed = content.target?.score === y;
  target.data_source.data = {y: aimed ? [content.target.value] : []};
  by('target').hidden = !aimed;
  by('empty').hidden = points.some(data => data.x.length);
}

function hide(model) {
  document.querySelectorAll('#runs input').forEach((box, i) => {
    for (const glyph of ['line', 'dots', 'band']) {
      const drawn = model(`${glyph}${i}`);
      if (drawn) drawn.visible = box.checked;
    }
  });
}

// '4.04 MB', '92.9 ± 0.3 %', '1,234', '0.57 x', '7 in 60 steps' or 'at most
// 9.5 s' as a number, hours as seconds; of words undefined.
function sortable(text) {
  const [, number, unit] = new RegExp(
      '^(?:at most |at least |[<>] ?)?([-+]?\\d[\\d.,]*(?:e[-+]?\\d+)?)'
      + '(?: ± [\\d.,e+-]+)?(?: (%|x|s|min|h|d|[kMGT]?B))?'
      + '(?: in .*| measured|, .*)?$').exec(text) ?? [];
  const scale = {kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12,
                 min: 60, h: 3600, d: 86400}[unit] ?? 1;
  return number && scale * number.replaceAll(',', '');
}

function sort(heading) {
  const up = heading.ariaSort !== 'ascending';
  heading.parentElement.querySelectorAll('th').forEach(h => {
    h.ariaSort = 'none';
  });
  heading.ariaSort = up ? 'ascending' : 'descending';
  const body = heading.closest('table').tBodies[0];
  const rows = [...body.rows].map(row => {
    const text = row.cells[heading.cellIndex].textContent;
    return {row, text, number: sortable(text)};
  });
  const sign = up ? 1 : -1;
  // Cells without a number are last in both directions.
  const order = (a, b) => (a.number === undefined) - (b.number === undefined)
      || sign * (a.number - b.number || a.text.localeCompare(b.text));
  body.append(...rows.sort(order).map(({row}) => row));
}

document.querySelectorAll('th button').forEach(button => {
  button.onclick = () => sort(button.parentElement);
});

Bokeh.embed.embed_item(content.chart, 'chart').then(() => {
  const doc = Bokeh.documents[0];
  const model = name => doc.get_model_by_name(name);
  const plot = model('chart');
  if (innerWidth < 600) plot.height = 340;
  const again = () => draw(plot, model);
  const suitX = () => {
    by('logx').checked = chosen.x.value !== 'step';
  };
  const suitY = () => {
    const y = chosen.y.value;
    by('logy').checked = y.endsWith('loss') && content.lines.every(
        ([, line]) => line[y].every(value => value === null || value > 0));
  };
  for (const [choice, suit] of [[chosen.x, suitX], [chosen.y, suitY]]) {
    choice.onchange = () => {
      suit();
      again();
    };
    suit();
  }
  by('logx').onchange = by('logy').onchange = again;
  by('runs').onchange = () => hide(model);
  for (const [id, value] of [['all', true], ['none', false]]) {
    by(id).onclick = () => {
      document.querySelectorAll('#runs input').forEach(box => {
        box.checked = value;
      });
      hide(model);
    };
  }
  again();
  hide(model);  // A browser that goes back keeps boxes as they were.
  document.body.dataset.ready = 'yes';
});
