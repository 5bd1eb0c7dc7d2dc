// Requests, and the way of one of them.

import { Forgotten, list as listOf, read } from './api.js';
import { section } from './charts.js';
import { bytes, clip, clock, count, el, form, hash, link, moment, ms, now, svg, table, time } from './dom.js';
import { changes, objectOf, target, who } from './timeline.js';

const fields = [
  { name: 'as', label: 'User' }, { name: 'user', label: 'Asked by' }, { name: 'verb', label: 'Verb', options: ['', 'get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'] },
  { name: 'resource', label: 'Resource' }, { name: 'group', label: 'Group' }, { name: 'namespace', label: 'Namespace' }, { name: 'name', label: 'Name' },
  { name: 'code', label: 'Code', size: 4 }, { name: 'kept', label: 'Kept as', options: ['', 'Write', 'Refused', 'Error', 'Slow', 'Sample'] },
];
const own = { name: 'own', label: 'Of this page', options: ['', 'too'], none: 'left out' };
const range = [{ name: 'from', label: 'From', size: 20 }, { name: 'to', label: 'To', size: 20 }];

// Bounds of how far back a range of time is looked for.
const perPage = 500, mostPages = 20, mostRows = 1000;

export function list(main, params, signal) {
  const t = table('Requests', [
    { name: 'time', of: r => r.time, cell: r => link(hash('request', { name: r.metadata.name }), clock(r.time)) },
    { name: 'took', of: r => ms(r.duration), number: true, show: time }, { name: 'code', of: r => r.code, number: true, class: r => r.code >= 400 && 'bad' },
    { name: 'verb', of: r => r.verb }, { name: 'of', of: target, cell: r => r.resource && r.name ? link(objectOf(r), target(r)) : clip(target(r)) },
    { name: 'user', of: who }, { name: 'client', of: r => (r.userAgent ?? '').split(' ')[0] }, { name: 'kept as', of: r => r.kept },
  ], { empty: 'No such request is kept.' });
  let pages = 1, more = '';
  const button = el('button', { type: 'button', hidden: true, onclick: async () => { pages = Math.min(pages + 1, 5); await update(); } }, 'Older ones');
  const hour = section(signal, { titles: ['Requests a second', 'Latency', 'Refused and failed a second'], range: spanOf(params), onrange: (from, to) => { location.hash = hash('requests', { ...params, from, to }); } });
  const note = el('p', { class: 'note', role: 'status', hidden: true });
  main.append(el('h1', {}, 'Requests'),
    el('p', { class: 'about' }, 'The newest first: every write, refusal, error and slow request, and a sample of the reads. Drag over a chart to see the requests of that time.'), hour.node,
    form([...fields, own, ...range], params, 'Filter', values => { location.hash = hash('requests', values); }), note, t.node, button);
  const chosen = { ...Object.fromEntries(fields.map(f => [f.name, params[f.name]])), console: params.own ? '' : 'false' }, span = spanOf(params);
  if (span?.wrong) return async () => { note.hidden = false; note.textContent = `${span.wrong} is no time. Times look like 2026-01-31T15:04:05Z.`; };
  let over = false; // what lies in the past does not change
  const update = async () => {
    await hour.update();
    if (span) {
      if (over) return;
      const { items, further } = await between(chosen, span, signal);
      over = span.to < Date.now() - 60_000;
      t.set(items);
      note.hidden = false;
      note.replaceChildren(`${count(items.length)} requests began from ${moment(span.from)} to ${moment(span.to)}. ${further} `, link(hash('requests', { ...params, from: '', to: '' }), 'Of any time'));
      return;
    }
    let items = [];
    more = '';
    for (let n = 0; n < pages; n++) {
      const page = await listOf('requests', { fields: chosen, limit: 200, from: more }, signal);
      items = items.concat(page.items);
      more = page.metadata.continue ?? '';
      if (!more) break;
    }
    t.set(items);
    button.hidden = !more || pages >= 5;
  };
  return update;
}

// spanOf is the range of time that parameters choose; null if they choose none.
function spanOf({ from, to }) {
  if (!from && !to) return null;
  const out = { from: from ? Date.parse(from) : 0, to: to ? Date.parse(to) : now() };
  if (Number.isNaN(out.from)) out.wrong = from; else if (Number.isNaN(out.to)) out.wrong = to;
  return out;
}

// between returns the requests of a range of time. They come in the order in which they ended, so one that began in the range may stand a
// little before those that began after it.
async function between(fields, { from, to }, signal) {
  const items = [];
  let next = '';
  for (let n = 0; n < mostPages; n++) {
    const page = await listOf('requests', { fields, limit: perPage, from: next }, signal);
    for (const r of page.items) { const t = Date.parse(r.time); if (t >= from && t <= to) items.push(r); }
    if (items.length >= mostRows) return { items: items.slice(0, mostRows), further: `The newest ${count(mostRows)} are shown.` };
    next = page.metadata.continue ?? '';
    const last = page.items.at(-1);
    if (!next || last && Date.parse(last.time) + ms(last.duration) < from) return { items, further: '' };
  }
  return { items, further: `Looked through the newest ${count(perPage * mostPages)} requests; there may be older ones.` };
}

// parts says to which part of the server a layer belongs.
const parts = { authentication: 'chain', impersonation: 'chain', authorization: 'chain', 'apf-queue-wait': 'chain', etcd: 'store',
  'transform-response-object': 'engine', 'serialize-response-object': 'engine', 'decode-response-object': 'engine', 'response-write': 'client' };

// spans are what is known of where a request was, by when it came there.
function spans(r) {
  const out = (r.layers ?? []).filter(l => !(l.name.endsWith('-webhook') && r.steps?.length)).map(l => ({ part: parts[l.name] ?? 'engine', name: l.name, after: l.after === undefined ? null : ms(l.after), took: ms(l.duration) }));
  for (const s of r.steps ?? []) {
    out.push({ part: 'admission', name: `${s.kind} ${s.name}${s.phase ? ' (' + s.phase + ')' : ''}`, after: ms(s.after), took: ms(s.duration),
      note: [s.result !== 'Allowed' && s.result, s.ignored && 'ignored', s.changed && 'changed the object'].filter(Boolean).join(', '), bad: s.result !== 'Allowed' });
  }
  return out.sort((a, b) => (a.after ?? Infinity) - (b.after ?? Infinity) || b.took - a.took);
}

function waterfall(r) {
  const total = Math.max(ms(r.duration), 1e-6), all = spans(r), left = 380, w = 560, row = 20;
  return svg('svg', { viewBox: `0 0 ${left + w + 150} ${(all.length + 1) * row + 6}`, role: 'img', 'aria-label': 'Where the request was, and for how long' },
    [{ part: 'request', name: `${r.verb} ${target(r)}`, after: 0, took: total }, ...all].map((s, n) => {
      const x = left + (s.after ?? 0) / total * w, y = n * row;
      const label = `${s.part}: ${s.name}`;
      return svg('g', {}, svg('title', {}, `${label}: ${time(s.took)}${s.after === null ? '' : ' from ' + time(s.after) + ' on'}${s.note ? ', ' + s.note : ''}`),
        svg('text', { x: 0, y: y + 14 }, label.length > 58 ? label.slice(0, 57) + '…' : label),
        svg('rect', { class: s.bad ? 'bad' : s.part === 'admission' ? 'bar2' : 'bar', x: Math.min(x, left + w - 1).toFixed(1), y: y + 4, height: 12, width: Math.max(1, Math.min(s.took / total * w, left + w - x)).toFixed(1) }),
        svg('text', { x: left + w + 8, y: y + 14 }, time(s.took)));
    }));
}

export function one(main, params, signal) {
  main.append(el('h1', {}, 'Request ', params.name ?? ''));
  const body = el('div');
  main.append(body);
  let known = false; // it does not change
  return async () => {
    if (known) return;
    let r;
    try { r = await read('requests/' + encodeURIComponent(params.name ?? ''), {}, signal); } catch (e) {
      if (!(e instanceof Forgotten)) throw e;
      known = true;
      body.replaceChildren(el('p', {}, 'This request is not kept any more, or never was: newer ones have taken its place. What it did to an object may still be in the history of that object. ',
        link(hash('requests'), 'Requests that are kept')));
      return;
    }
    known = true;
    const facts = { time: moment(r.time), took: time(ms(r.duration)), answer: `${r.code} ${r.reason ?? ''}`, 'refused for': (r.fields ?? []).join(', '), user: who(r), client: r.userAgent, from: r.sourceIP, 'audit ID': r.auditID,
      'kept as': `${r.kept}${r.weight > 1 ? ', stands for ' + r.weight : ''}`, bytes: `${bytes(r.requestBytes ?? 0)} sent, ${bytes(r.responseBytes ?? 0)} answered`, 'dry run': r.dryRun ? 'yes' : '' };
    body.replaceChildren(
      el('p', {}, el('b', {}, `${r.verb} `), r.resource && r.name ? link(objectOf(r), target(r)) : clip(target(r))),
      el('h2', {}, 'Its way'), el('div', { class: 'scroll' }, waterfall(r)),
      el('p', { class: 'about' }, 'A bar begins where the request came there first, and is as long as the sum of its visits. What took less than 20 µs in admission is left out.'),
      el('h2', {}, 'Facts'), el('table', {}, Object.entries(facts).filter(([, v]) => v).map(([k, v]) => el('tr', {}, el('th', { scope: 'row' }, k), el('td', {}, clip(String(v)))))),
      ...(r.changes?.length ? [el('h2', {}, 'What it changed'), ...r.changes.map(c => el('section', {}, el('p', {}, `${c.operation} `, link(objectOf(c), target(c))), changes(c)))] : []),
      ...(r.moreChanges ? [el('p', { class: 'dim' }, `and ${count(r.moreChanges)} more`)] : []));
  };
}
