// The planes below the server, by use, and the servers that share them.

import { denied, list, read } from './api.js';
import { ago, bytes, card, clock, copied, count, el, hash, link, quoted, rate, table } from './dom.js';

const number = (name, of, more = {}) => ({ name, of, number: true, show: count, ...more });

// speed measures what counters grow by, between two answers. What is not the same as before counts anew.
function speed(fields, same) {
  let before = new Map(), at = 0, rates = new Map();
  const none = Object.fromEntries(fields.map(f => [f, 0]));
  return items => {
    const now = performance.now(), seconds = (now - at) / 1000;
    if (at && seconds > 0.5) {
      rates = new Map(items.map(i => {
        const b = before.get(i.metadata.name);
        return [i.metadata.name, b && same(b, i) ? Object.fromEntries(fields.map(f => [f, Math.max(0, i[f] - b[f]) / seconds])) : none];
      }));
    }
    if (!at || seconds > 0.5) { before = new Map(items.map(i => [i.metadata.name, i])); at = now; }
    return i => rates.get(i.metadata.name) ?? none;
  };
}

const planeSpeed = () => speed(['requests', 'refused'], (a, b) => a.server === b.server);
const serverSpeed = () => speed(['requests', 'refused', 'passed', 'passedFailed'], (a, b) => a.started && a.started === b.started);

export function planes(main, params, signal) {
  return params.name ? one(main, params, signal) : all(main, params, signal);
}

// serversTable shows the servers that share the planes; nothing if there is only one.
function serversTable(signal) {
  const measure = serverSpeed(), node = el('div', { hidden: true });
  let of = measure([]);
  const known = s => Boolean(s.started), figure = (name, field, more = {}) => ({ name, of: s => s[field] ?? 0, number: true, cell: s => known(s) ? count(s[field]) : '–', ...more });
  const perSecond = (name, field, more = {}) => ({ name, of: s => of(s)[field], number: true, cell: s => known(s) ? rate(of(s)[field]) : '–', ...more });
  const t = table('Servers', [
    { name: 'server', of: s => s.metadata.name, cell: s => el('span', {}, link(hash('planes', { server: s.metadata.name }), s.metadata.name), s.answers ? ' (this one)' : '') },
    { name: 'state', of: s => s.state, cell: s => stateOf(s), class: s => ['Away', 'Unreachable'].includes(s.state) && 'bad' },
    number('planes awake', s => s.awake), perSecond('requests/s', 'requests'), perSecond('refused/s', 'refused', { class: s => of(s).refused > 0 && 'bad' }),
    perSecond('passed on/s', 'passed'), perSecond('failed/s', 'passedFailed', { about: 'Requests that were passed on and not answered', class: s => of(s).passedFailed > 0 && 'bad' }), figure('watches', 'watches'),
    number('moved here', s => s.moved, { about: 'Planes that came to it in the last hour' }), number('taken over', s => s.takenOver, { about: 'Planes that it took in the last hour from servers that were gone', class: s => s.takenOver > 0 && 'bad' }),
    { name: 'memory', of: s => s.memory ?? 0, number: true, cell: s => s.memory ? bytes(s.memory) : '–' }, { name: 'up', of: s => s.started ? Date.now() - Date.parse(s.started) : 0, number: true, cell: s => s.started ? ago(s.started) : '–' },
    { name: 'machine', of: s => s.host ?? '' },
  ]);
  node.append(el('h2', {}, 'Servers'), t.node, el('h2', {}, 'Planes of all servers'));
  return { node, async read() {
    let items = [];
    try { items = (await list('planeservers', { limit: 500 }, signal)).items; } catch (e) { if (!denied(e)) throw e; }
    of = measure(items);
    node.hidden = items.length < 2;
    t.set(items.toSorted((a, b) => (a.state === 'Running') - (b.state === 'Running'))); // those with which something is wrong first
    return items;
  } };
}

// stateOf says how a server is, and since when.
function stateOf(s) {
  const since = s.since ? ` since ${clock(s.since).slice(0, 8)} UTC (${ago(s.since)})` : '';
  if (s.state === 'Away' && !s.since) return `Away, ${count(s.named)} ${s.named === 1 ? 'plane names' : 'planes name'} it`;
  return s.state + since + (s.error ? `: ${s.error}` : '');
}

// planesTable shows planes, with their servers if there are several.
function planesTable(of, fleet) {
  const columns = [
    { name: 'plane', of: p => p.metadata.name, cell: p => link(hash('planes', { name: p.metadata.name }), p.metadata.name) }, { name: 'state', of: p => p.state }, fleet && { name: 'server', of: p => p.server ?? '' },
    { name: 'requests/s', of: p => of(p).requests, number: true, show: rate }, { name: 'refused/s', of: p => of(p).refused, number: true, show: rate, class: p => of(p).refused > 0 && 'bad' },
    number('requests', p => p.requests), number('refused', p => p.refused, { class: p => p.refused > 0 && 'bad' }), number('watches', p => p.watches),
    { name: 'seats in use', of: p => p.seatsInUse, number: true, cell: p => p.seats ? `${p.seatsInUse} of ${p.seats}` : String(p.seatsInUse) }, number('waiting', p => p.waiting, { class: p => p.waiting > 0 && 'bad' }),
    number('objects', p => p.objects), { name: 'bytes', of: p => p.bytes, number: true, show: bytes }, number('wakes', p => p.wakes), fleet && number('moves', p => p.moves ?? 0, { about: 'From one server to another in the last hour' }),
  ].filter(Boolean);
  return table('Planes', columns, { sort: columns.findIndex(c => c.name === 'requests'), empty: 'There are none.' });
}

// choice is a select whose options may change while it is used.
function choice(label, all, value, changed) {
  const node = el('select', { 'aria-label': label, onchange: changed });
  let shown = null;
  const set = options => {
    if (shown === options.join(' ')) return;
    const now = shown === null ? value ?? '' : node.value;
    shown = options.join(' ');
    node.replaceChildren(...['', ...new Set([...options, now].filter(Boolean))].map(o => el('option', { value: o }, o || all)));
    node.value = now;
  };
  set([]);
  return { node, set, get value() { return node.value; } };
}

function all(main, params, signal) {
  const measure = planeSpeed(), text = el('input', { type: 'search', 'aria-label': 'Filter planes', placeholder: 'Filter planes', autocomplete: 'off', oninput: () => draw() });
  const state = choice('State', 'Awake and asleep', '', () => draw()), server = choice('Server', 'All servers', params.server, () => draw()), note = el('p', { class: 'dim', role: 'status' });
  const servers = serversTable(signal), place = el('div');
  let items = [], few = false, fleet = null, t = null, rates = measure([]);
  state.set(['Awake', 'Asleep']);
  main.append(el('h1', {}, 'Planes'), el('p', { class: 'about' }, 'The control planes below this server, and below those that share its etcd; those with most requests first. Sums begin with the start of the server that has the plane; objects and bytes are as they were last counted.'),
    servers.node, el('p', {}, text, ' ', state.node, ' ', server.node), place, note);
  server.node.hidden = true;
  const draw = () => {
    if (!t) return;
    const wanted = text.value.trim().toLowerCase();
    const rows = items.filter(p => p.metadata.name.toLowerCase().includes(wanted) && (!state.value || p.state === state.value) && (!server.value || p.server === server.value));
    t.set(rows);
    note.textContent = `${count(rows.length)} of ${count(items.length)} shown, ${count(items.filter(p => p.state === 'Awake').length)} awake.${few ? ' There are more; these are the 100 that are used most.' : ''}`;
  };
  return async () => {
    const used = () => list('planestats', { limit: 500, fields: few ? { costliest: 'true', server: server.value } : {} }, signal);
    let page = await used();
    if (!few && page.metadata.continue) {
      few = true;
      page = await used();
    }
    items = page.items;
    const running = await servers.read(), several = running.length > 1;
    rates = measure(items);
    if (several !== fleet) {
      fleet = several;
      t = planesTable(p => rates(p), fleet);
      place.replaceChildren(t.node);
      server.node.hidden = !fleet && !params.server;
    }
    server.set(running.map(s => s.metadata.name));
    draw();
  };
}

const limits = { requestsPerSecond: 'The limit of requests a second', watches: 'The limit of watches', storage: 'The limits of objects and bytes', seats: 'Too many requests waited for a seat', start: 'It could not be woken' };

function one(main, params, signal) {
  const cards = el('div', { class: 'cards' }), measure = planeSpeed();
  const t = table('Refused by', [{ name: 'refused because of', of: r => r[0] }, { name: 'times', of: r => r[1], number: true, show: count, class: r => r[1] > 0 && 'bad' }]);
  main.append(el('h1', {}, 'Plane ', params.name), el('p', { class: 'bar' }, link(hash('planes'), 'All planes'), ' · ', link(hash('object', { group: 'planes.kanzen.io', resource: 'planes', name: params.name }), 'Its object and limits'), ' ',
    copied('Copy as kanzen kubeconfig', `kanzen kubeconfig --plane ${quoted(params.name)}`)), cards, el('h2', {}, 'Refused since its server started'), t.node);
  return async () => {
    const p = await read('planestats/' + encodeURIComponent(params.name), {}, signal), now = measure([p])(p);
    cards.replaceChildren(card('state', p.state), p.server ? card('server', p.server) : '', p.moves ? card('moves in the last hour', count(p.moves)) : '', card('requests a second', rate(now.requests)), card('refused a second', rate(now.refused), now.refused > 0 ? 'bad' : ''), card('requests', count(p.requests)),
      card('watches', count(p.watches)), card(p.seats ? `of ${p.seats} seats in use` : 'seats in use', count(p.seatsInUse)), card('wait for a seat', count(p.waiting), p.waiting > 0 ? 'bad' : ''), card('objects', count(p.objects)), card('bytes', bytes(p.bytes)), card('wakes', count(p.wakes)));
    t.set(Object.entries(limits).map(([key, name]) => [name, p.refusedBy?.[key] ?? 0]));
  };
}
