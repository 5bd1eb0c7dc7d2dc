// An hour of what the server did and had, in charts with one unit each.

import { denied, list } from './api.js';
import { bytes, el, rate, svg, time } from './dom.js';

// Each chart has the series whose names begin with one of its parts. stacked ones add up to a whole.
const charts = [
  { title: 'Requests a second', of: ['requests'], stacked: true, show: rate },
  { title: 'Latency', of: ['latency'], show: seconds },
  { title: 'Refused and failed a second', of: ['answers'], show: rate, bad: true },
  { title: 'Changes a second', of: ['writes'], show: rate },
  { title: 'A question to the database', of: ['store'], show: seconds },
  { title: 'Seats', of: ['seats'], show: whole },
  { title: 'Memory', of: ['memory'], show: bytes },
  { title: 'Processors', of: ['processor'], show: v => v.toFixed(2) },
  { title: 'Answers, bytes a second', of: ['traffic'], show: bytes },
  { title: 'Watches', of: ['watches'], show: whole },
  { title: 'Database', of: ['size'], show: bytes },
];

function seconds(v) { return time(v * 1000); }

function whole(v) { return v >= 10 || Number.isInteger(v) ? Math.round(v).toLocaleString('en') : v.toFixed(1); }

const width = 440, height = 120, left = 62, bottom = 16, top = 6;

// section makes the charts, or some of them. It returns its node and a func that refreshes them; the hover line is at the same time in all.
// Who drags over one chooses a range of time, which onrange is told.
export function section(signal, { titles, range = null, onrange } = {}) {
  const drawn = charts.filter(c => !titles || titles.includes(c.title)).map(c => chart(c, range)), node = el('section', { class: 'charts', hidden: true, 'aria-label': 'The last hour' }, drawn.map(c => c.node));
  let next = 0;
  for (const c of drawn) {
    c.onmove = at => drawn.forEach(other => other.point(at));
    c.onbrush = (a, b) => drawn.forEach(other => other.brush(a, b));
    c.onrange = onrange;
  }
  return { node, async update() {
    if (Date.now() < next) return;
    next = Date.now() + 4500; // there is a new value every five seconds
    let items;
    try {
      ({ items } = await list('timeseries', { limit: 100 }, signal));
    } catch (e) {
      if (denied(e)) return; // the rest of the page may be told
      throw e;
    }
    if (!items.length) { node.hidden = true; return; }
    node.hidden = false;
    for (const c of drawn) c.set(items.filter(s => c.of.includes(s.metadata.name.split('.')[0])));
  } };
}

function chart({ title, of, stacked, show, bad }, range) {
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img' }), legend = el('p', { class: 'legend' });
  const node = el('figure', {}, el('figcaption', {}, title), picture, legend);
  let series = [], from = 0, end = 0, step = 5000, count = 0, most = 1, at = null, brushed = null;
  const x = n => left + (count > 1 ? n * (width - left - 4) / (count - 1) : 0), y = v => top + (1 - v / most) * (height - top - bottom);
  const colour = n => bad ? `b${n % 2}` : `s${n % 8}`;

  function draw() {
    count = series[0]?.values.length ?? 0;
    node.hidden = !count;
    if (!count) return;
    const shown = series.map(s => ({ name: s.metadata.name.split('.')[1], values: s.values })).filter(s => !stacked || s.values.some(v => v > 0));
    const sums = shown.map(s => s.values);
    if (stacked) for (let n = 1; n < sums.length; n++) sums[n] = sums[n].map((v, i) => v + sums[n - 1][i]);
    most = nice(Math.max(...sums.flat(), 0), show === bytes);
    const parts = [];
    for (const v of [0, most / 2, most]) parts.push(svg('line', { class: 'axis', x1: left, x2: width - 4, y1: y(v), y2: y(v) }), svg('text', { x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, show(v)));
    for (const [n, label] of ticks()) parts.push(svg('line', { class: 'axis', x1: x(n), x2: x(n), y1: height - bottom, y2: height - bottom + 4 }), svg('text', { x: x(n), y: height - 2, 'text-anchor': 'middle' }, label));
    sums.forEach((v, n) => {
      const line = v.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`);
      if (stacked) {
        const below = n ? sums[n - 1].map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).reverse() : [`${x(count - 1)},${y(0)}`, `${x(0)},${y(0)}`];
        parts.unshift(svg('polygon', { class: `area ${colour(n)}`, points: [...line, ...below].join(' ') }));
      } else parts.push(svg('polyline', { class: `curve ${colour(n)}`, points: line.join(' ') }));
    });
    const [a, b] = brushed ?? (range && count ? [(range.from - from) / step, (range.to - from) / step].map(n => Math.min(Math.max(n, 0), count - 1)) : [0, 0]);
    if (a !== b) parts.push(svg('rect', { class: 'brush', x: Math.min(x(a), x(b)).toFixed(1), width: Math.abs(x(b) - x(a)).toFixed(1), y: top, height: height - top - bottom }));
    if (at !== null) parts.push(svg('line', { class: 'now', x1: x(at), x2: x(at), y1: top, y2: height - bottom }));
    picture.replaceChildren(...parts);
    const n = at ?? count - 1;
    picture.setAttribute('aria-label', `${title}, the last ${Math.round(count * step / 6e4)} minutes; now ${shown.map(s => `${s.name} ${show(s.values[count - 1])}`).join(', ')}`);
    legend.replaceChildren(el('span', { class: 'dim' }, at === null ? 'now' : new Date(from + n * step).toTimeString().slice(0, 8)), ...shown.flatMap((s, i) => [' ', el('span', { class: `key ${colour(i)}` }), ` ${s.name} ${show(s.values[n])}`]));
  }

  // ticks are full quarters of an hour, or five minutes if there is less.
  function ticks() {
    const minutes = count * step / 6e4, every = (minutes > 25 ? 15 : minutes > 4 ? 5 : 1) * 6e4, out = [];
    for (let t = Math.ceil(from / every) * every; t <= end; t += every) {
      const n = (t - from) / step;
      if (x(n) > left + 12 && x(n) < width - 18) out.push([n, new Date(t).toTimeString().slice(0, 5)]);
    }
    return out;
  }

  const self = { node, of, set(all) {
    series = all;
    if (all.length) {
      end = Date.parse(all[0].end);
      step = Number.parseFloat(all[0].step) * 1000;
      from = end - (all[0].values.length - 1) * step;
    }
    draw();
  }, point(n) { at = n === null || n >= count ? null : n; draw(); }, brush(a, b) { brushed = a === null ? null : [a, b]; draw(); } };
  listen(picture, self, e => {
    const box = picture.getBoundingClientRect(), n = Math.round(((e.clientX - box.left) / box.width * width - left) / (width - left - 4) * (count - 1));
    return Math.min(Math.max(n, 0), count - 1);
  }, n => new Date(from + n * step).toISOString().slice(0, 19) + 'Z');
  return self;
}

// listen follows the pointer over a chart, and what it drags over. whereOf says at which value the pointer is, timeOf of when that is.
function listen(picture, self, whereOf, timeOf) {
  let began = null;
  picture.addEventListener('pointermove', e => {
    const n = whereOf(e);
    if (began !== null) self.onbrush?.(began, n);
    self.onmove?.(n);
  });
  picture.addEventListener('pointerleave', () => { if (began === null) self.onmove?.(null); });
  const end = () => { began = null; self.onbrush?.(null); };
  picture.addEventListener('pointercancel', end);
  picture.addEventListener('pointerdown', e => {
    if (e.button !== 0 || e.pointerType === 'touch') return; // a finger scrolls
    began = whereOf(e);
    if (e.isTrusted) picture.setPointerCapture(e.pointerId);
    e.preventDefault();
  });
  picture.addEventListener('pointerup', e => {
    if (began === null) return;
    const [a, b] = [began, whereOf(e)].sort((x, y) => x - y);
    end();
    if (b > a) self.onrange?.(timeOf(a - 1), timeOf(b)); // a value is that of the time before it
  });
}

// nice is a round number that is not smaller: 1, 2 or 5 of a power of ten, or a power of two of bytes.
function nice(v, binary) {
  if (v <= 0) return 1;
  if (binary) return 2 ** Math.ceil(Math.log2(v));
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map(n => n * unit).find(n => n >= v * 0.999999);
}
