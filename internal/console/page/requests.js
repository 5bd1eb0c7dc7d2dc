// Requests, the way of one of them, and what was done to an object.

import { Forgotten, list as listOf, read } from './api.js';
import { bytes, clip, clock, count, el, form, hash, link, moment, ms, resource, svg, table, time } from './dom.js';

const fields = [
  { name: 'as', label: 'User' }, { name: 'user', label: 'Asked by' }, { name: 'verb', label: 'Verb', options: ['', 'get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'] },
  { name: 'resource', label: 'Resource' }, { name: 'group', label: 'Group' }, { name: 'namespace', label: 'Namespace' }, { name: 'name', label: 'Name' },
  { name: 'code', label: 'Code', size: 4 }, { name: 'kept', label: 'Kept as', options: ['', 'Write', 'Refused', 'Error', 'Slow', 'Sample'] },
];

const who = r => r.impersonated ? `${r.impersonated} (by ${r.user})` : r.user ?? '';
const target = r => r.resource ? `${resource(r)}${r.subresource ? '/' + r.subresource : ''} ${[r.namespace, r.name].filter(Boolean).join('/')}` : r.path ?? '';
const objectOf = r => hash('object', { group: r.group, resource: r.resource, namespace: r.namespace, name: r.name });

export function list(main, params, signal) {
  const t = table('Requests', [
    { name: 'time', of: r => r.time, cell: r => link(hash('request', { name: r.metadata.name }), clock(r.time)) },
    { name: 'took', of: r => ms(r.duration), number: true, show: time }, { name: 'code', of: r => r.code, number: true, class: r => r.code >= 400 && 'bad' },
    { name: 'verb', of: r => r.verb }, { name: 'of', of: target, cell: r => r.resource && r.name ? link(objectOf(r), target(r)) : clip(target(r)) },
    { name: 'user', of: who }, { name: 'client', of: r => (r.userAgent ?? '').split(' ')[0] }, { name: 'kept as', of: r => r.kept },
  ], { empty: 'No such request is kept.' });
  let pages = 1, more = '';
  const button = el('button', { type: 'button', hidden: true, onclick: async () => { pages = Math.min(pages + 1, 5); await update(); } }, 'Older ones');
  main.append(el('h1', {}, 'Requests'),
    el('p', { class: 'about' }, 'The newest first: every write, refusal, error and slow request, and a sample of the reads.'),
    form(fields, params, 'Filter', values => { location.hash = hash('requests', values); }), t.node, button);
  const update = async () => {
    const chosen = Object.fromEntries(fields.map(f => [f.name, params[f.name]]));
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

// value shows the JSON of a field as people read it: the API escapes what could be markup.
function value(json) {
  try { return JSON.stringify(JSON.parse(json)); } catch { return json; }
}

// changes are the fields that a write has changed.
function changes(c) {
  if (!c.fields?.length) return el('span');
  return el('div', { class: 'scroll' }, el('table', { 'aria-label': 'Changed fields' }, c.fields.map(f => el('tr', {}, el('td', {}, el('code', {}, f.path)),
    el('td', {}, f.hidden ? el('span', { class: 'dim' }, 'hidden') : [f.old ? el('del', {}, value(f.old)) : '', f.old && f.new ? ' → ' : '', f.new ? el('ins', {}, value(f.new)) : f.old ? '' : 'changed'])))),
    c.moreFields ? el('p', { class: 'dim' }, `and ${count(c.moreFields)} more fields`) : null);
}

export function object(main, params, signal) {
  const line = el('ol', { class: 'timeline', 'aria-label': 'What was done to the object, the newest first' }), note = el('p', { class: 'dim' });
  main.append(el('h1', {}, 'Object ', params.name ? target(params) : ''), form([{ name: 'group', label: 'Group' }, { name: 'resource', label: 'Resource' }, { name: 'namespace', label: 'Namespace' }, { name: 'name', label: 'Name' }],
    params, 'Show', values => { location.hash = hash('object', values); }), note, line);
  let before;
  return async () => {
    if (!params.resource || !params.name) { note.textContent = 'Name a resource (configmaps) and an object: who made it, who changed which field and when, what was refused.'; return; }
    const h = await read('history', { group: params.group, resource: params.resource, namespace: params.namespace, name: params.name }, signal);
    const entries = h.status.entries ?? [];
    note.textContent = !entries.length ? 'Nothing is known of it: nobody has written it while this server remembers.' : h.status.forgotten ? `${h.status.forgotten} older entries were forgotten.` : '';
    const now = JSON.stringify(entries);
    if (now === before) return; // nothing has happened; the focus stays
    before = now;
    line.replaceChildren(...entries.toReversed().map(e => el('li', { class: e.code >= 400 ? 'refused' : undefined },
      el('div', {}, link(hash('request', { name: 'r' + e.request }), moment(e.last)), e.count > 1 ? ` ${e.count} times since ${moment(e.first)}` : ''),
      el('div', {}, el('b', {}, e.code >= 400 ? `${e.verb} refused (${e.code} ${e.reason ?? ''})` : e.operation || e.verb), e.subresource ? ` ${e.subresource}` : '', ' by ', clip(who(e)), e.userAgent ? ' with ' : '', clip(e.userAgent ?? '')),
      (e.refusedFields ?? []).length ? el('div', { class: 'bad' }, 'because of ', e.refusedFields.join(', ')) : null,
      (e.steps ?? []).map(s => el('div', { class: s.result === 'Allowed' ? 'dim' : 'bad' }, `${s.kind} ${s.name}: ${s.result}${s.changed ? ', changed it' : ''}${s.ignored ? ', ignored' : ''}`)),
      changes(e))));
  };
}
