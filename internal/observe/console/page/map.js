// Who talks to whom, and how much: clients, resources, webhooks.

import { list } from './api.js';
import { el, ms, rate, resource, svg, table, time } from './dom.js';

const most = 22; // of each column

export function map(main, _, signal) {
  const picture = el('div', { class: 'scroll' });
  const t = table('Clients and resources', [
    { name: 'client', of: r => r.client ?? '' }, { name: 'resource', of: resource }, { name: 'per second', of: r => r.perSecond, number: true, show: rate },
    { name: 'p99', of: r => ms(r.p99), number: true, show: time }, { name: 'failed/s', of: r => r.failedPerSecond ?? 0, number: true, show: rate, class: r => r.failedPerSecond > 0 && 'bad' },
  ], { sort: 2, empty: 'No requests in the last minute.' });
  main.append(el('h1', {}, 'Who talks to whom'), el('p', { class: 'about' }, 'In the last minute: clients and controllers on the left, what they ask for, and the webhooks and policies that are asked about it. The thicker a line, the more requests; red ones have failures.'),
    picture, el('h2', {}, 'As a table'), t.node);
  return async () => {
    const [asked, hooks] = await Promise.all(['ClientResource', 'ResourceWebhook'].map(by => list('trafficstats', { fields: { by }, limit: 500 }, signal)));
    t.set(asked.items);
    picture.replaceChildren(draw(asked.items, hooks.items));
  };
}

function draw(asked, hooks) {
  const edges = [...asked.map(r => ({ from: [0, r.client ?? ''], to: [1, resource(r)], r })), ...hooks.map(r => ({ from: [1, resource(r)], to: [2, r.webhook ?? ''], r }))];
  // The busiest names of each column, from top to bottom.
  const sums = [new Map(), new Map(), new Map()];
  for (const e of edges) {
    for (const [column, name] of [e.from, e.to]) sums[column].set(name, (sums[column].get(name) ?? 0) + e.r.perSecond);
  }
  const places = sums.map(s => new Map([...s].sort((a, b) => b[1] - a[1]).slice(0, most).map(([name], n) => [name, n])));
  const rows = Math.max(1, ...places.map(p => p.size)), row = 24, x = [220, 470, 780], w = 1000;
  const at = ([column, name]) => places[column].has(name) ? [x[column], places[column].get(name) * row + 34] : null;
  const lines = edges.map(e => {
    const a = at(e.from), b = at(e.to);
    if (!a || !b) return null;
    const from = a[0] + (e.from[0] === 1 ? 205 : 4), to = b[0] - 4, half = (from + to) / 2;
    return svg('path', { class: e.r.failedPerSecond > 0 ? 'edge bad' : 'edge', 'stroke-width': (1 + Math.log2(1 + e.r.perSecond)).toFixed(1),
      d: `M${from},${a[1] - 4} C${half},${a[1] - 4} ${half},${b[1] - 4} ${to},${b[1] - 4}` },
    svg('title', {}, `${e.from[1]} → ${e.to[1]}: ${rate(e.r.perSecond)} a second, p99 ${time(ms(e.r.p99))}`));
  });
  const short = text => text.length > 28 ? text.slice(0, 27) + '…' : text;
  const names = places.flatMap((p, column) => [...p.keys()].map(name => svg('text', { x: x[column], y: places[column].get(name) * row + 34, 'text-anchor': column === 0 ? 'end' : 'start' }, short(name), svg('title', {}, name))));
  const heads = ['clients', 'resources', 'webhooks and policies'].map((text, n) => svg('text', { x: x[n], y: 12, 'text-anchor': n === 0 ? 'end' : 'start', 'font-weight': 'bold' }, text));
  return svg('svg', { viewBox: `0 0 ${w} ${rows * row + 34}`, role: 'img', 'aria-label': 'Clients, resources and webhooks, and how much they talk; the same is in the table below' }, lines, names, heads);
}
