// The planes below the server, by use.

import { list, read } from './api.js';
import { bytes, card, copied, count, el, hash, link, quoted, rate, table } from './dom.js';

const number = (name, of, more = {}) => ({ name, of, number: true, show: count, ...more });

// speed measures what counters grow by, between two answers.
function speed() {
  let before = new Map(), at = 0, rates = new Map();
  return items => {
    const now = performance.now(), seconds = (now - at) / 1000;
    if (at && seconds > 0.5) rates = new Map(items.map(p => { const b = before.get(p.metadata.name); return [p.metadata.name, b ? { requests: Math.max(0, p.requests - b.requests) / seconds, refused: Math.max(0, p.refused - b.refused) / seconds } : null]; }));
    if (!at || seconds > 0.5) { before = new Map(items.map(p => [p.metadata.name, p])); at = now; }
    return p => rates.get(p.metadata.name) ?? { requests: 0, refused: 0 };
  };
}

export function planes(main, params, signal) {
  return params.name ? one(main, params, signal) : all(main, signal);
}

function all(main, signal) {
  const measure = speed(), text = el('input', { type: 'search', 'aria-label': 'Filter planes', placeholder: 'Filter planes', autocomplete: 'off', oninput: () => draw() });
  const state = el('select', { 'aria-label': 'State', onchange: () => draw() }, ['', 'Awake', 'Asleep'].map(o => el('option', { value: o }, o || 'Awake and asleep'))), note = el('p', { class: 'dim', role: 'status' });
  let items = [], few = false, of = () => ({ requests: 0, refused: 0 });
  const t = table('Planes', [
    { name: 'plane', of: p => p.metadata.name, cell: p => link(hash('planes', { name: p.metadata.name }), p.metadata.name) }, { name: 'state', of: p => p.state },
    { name: 'requests/s', of: p => of(p).requests, number: true, show: rate }, { name: 'refused/s', of: p => of(p).refused, number: true, show: rate, class: p => of(p).refused > 0 && 'bad' },
    number('requests', p => p.requests), number('refused', p => p.refused, { class: p => p.refused > 0 && 'bad' }), number('watches', p => p.watches),
    { name: 'seats in use', of: p => p.seatsInUse, number: true, cell: p => p.seats ? `${p.seatsInUse} of ${p.seats}` : String(p.seatsInUse) }, number('waiting', p => p.waiting, { class: p => p.waiting > 0 && 'bad' }),
    number('objects', p => p.objects), { name: 'bytes', of: p => p.bytes, number: true, show: bytes }, number('wakes', p => p.wakes),
  ], { sort: 4, empty: 'There are none.' });
  main.append(el('h1', {}, 'Planes'), el('p', { class: 'about' }, 'The control planes below this server, those with most requests first. Sums are of this server since it started; objects and bytes are as they were last counted.'), el('p', {}, text, ' ', state), t.node, note);
  const draw = () => {
    const wanted = text.value.trim().toLowerCase(), rows = items.filter(p => p.metadata.name.toLowerCase().includes(wanted) && (!state.value || p.state === state.value));
    t.set(rows);
    note.textContent = `${count(rows.length)} of ${count(items.length)} shown, ${count(items.filter(p => p.state === 'Awake').length)} awake.${few ? ' There are more; these are the 100 that are used most.' : ''}`;
  };
  return async () => {
    let page = await list('planestats', { limit: 500, fields: few ? { costliest: 'true' } : {} }, signal);
    if (!few && page.metadata.continue) {
      few = true;
      page = await list('planestats', { limit: 500, fields: { costliest: 'true' } }, signal);
    }
    items = page.items;
    of = measure(items);
    draw();
  };
}

const limits = { requestsPerSecond: 'The limit of requests a second', watches: 'The limit of watches', storage: 'The limits of objects and bytes', seats: 'Too many requests waited for a seat', start: 'It could not be woken' };

function one(main, params, signal) {
  const cards = el('div', { class: 'cards' }), measure = speed();
  const t = table('Refused by', [{ name: 'refused because of', of: r => r[0] }, { name: 'times', of: r => r[1], number: true, show: count, class: r => r[1] > 0 && 'bad' }]);
  main.append(el('h1', {}, 'Plane ', params.name), el('p', { class: 'bar' }, link(hash('planes'), 'All planes'), ' · ', link(hash('object', { group: 'planes.kanzen.io', resource: 'planes', name: params.name }), 'Its object and limits'), ' ',
    copied('Copy as kanzen kubeconfig', `kanzen kubeconfig --plane ${quoted(params.name)}`)), cards, el('h2', {}, 'Refused since the server started'), t.node);
  return async () => {
    const p = await read('planestats/' + encodeURIComponent(params.name), {}, signal), now = measure([p])(p);
    cards.replaceChildren(card('state', p.state), card('requests a second', rate(now.requests)), card('refused a second', rate(now.refused), now.refused > 0 ? 'bad' : ''), card('requests', count(p.requests)),
      card('watches', count(p.watches)), card(p.seats ? `of ${p.seats} seats in use` : 'seats in use', count(p.seatsInUse)), card('wait for a seat', count(p.waiting), p.waiting > 0 ? 'bad' : ''), card('objects', count(p.objects)), card('bytes', bytes(p.bytes)), card('wakes', count(p.wakes)));
    t.set(Object.entries(limits).map(([key, name]) => [name, p.refusedBy?.[key] ?? 0]));
  };
}
