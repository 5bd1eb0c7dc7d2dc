// The state of the server's parts.

import { list } from './api.js';
import { bytes, card, count, el, form, hash, ms, now, resource, svg, table, time } from './dom.js';

const number = (name, of, more = {}) => ({ name, of, number: true, show: count, ...more });
const size = (name, of) => ({ name, of, number: true, show: bytes });

export function watches(main, params, signal) {
  const t = table('Watches', [
    { name: 'resource', of: resource }, { name: 'namespace', of: r => r.namespace ?? '' }, { name: 'selector', of: r => [r.labelSelector, r.fieldSelector].filter(Boolean).join(' ') },
    { name: 'user', of: r => r.impersonated || r.user || '' }, { name: 'client', of: r => r.userAgent ?? '' }, { name: 'from', of: r => r.sourceIP ?? '' },
    number('events', r => r.events), size('bytes', r => r.bytes),
    { name: 'lag', of: r => ms(r.lag), number: true, show: time, class: r => ms(r.lag) > 1000 && 'bad', about: 'For how long the client has not read what is being sent' },
    { name: 'age', of: r => now() - Date.parse(r.began), number: true, show: time },
  ], { sort: 8, empty: 'Nobody watches anything.' });
  return pages(main, t, signal, 'Watches', 'Who follows what, and who does not read what it is sent.', 'watches',
    form([{ name: 'as', label: 'User' }, { name: 'resource', label: 'Resource' }, { name: 'group', label: 'Group' }, { name: 'namespace', label: 'Namespace' }], params, 'Filter',
      values => { location.hash = hash('watches', values); }), { as: params.as, resource: params.resource, group: params.group, namespace: params.namespace });
}

// pages shows a list of which there may be very many, a page at a time.
function pages(main, t, signal, title, about, name, head, fields) {
  let from = '', next = '';
  const move = to => async () => { from = to(); await update(); };
  const forward = el('button', { type: 'button', hidden: true, onclick: move(() => next) }, 'Next page');
  const first = el('button', { type: 'button', hidden: true, onclick: move(() => '') }, 'First page');
  main.append(el('h1', {}, title), el('p', { class: 'about' }, about), head ?? '', t.node, first, forward);
  const update = async () => {
    const page = await list(name, { fields, limit: 200, from }, signal);
    next = page.metadata.continue ?? '';
    t.set(page.items);
    forward.hidden = !next;
    first.hidden = !from;
  };
  return update;
}

export function levels(main, _, signal) {
  const t = table('Priority levels', [
    { name: 'level', of: r => r.metadata.name }, { name: 'seats in use', of: r => r.seatsInUse, cell: r => bar(r.seatsInUse, r.exempt ? 0 : r.seats) },
    number('nominal', r => r.nominal, { about: 'Seats of its own; others may have lent or borrowed the difference' }), number('executing', r => r.executing),
    number('waiting', r => r.waiting, { class: r => r.waiting > 0 && 'bad' }), { name: 'queues', of: r => r.queues, number: true, show: count }, number('busy queues', r => r.activeQueues),
    number('dispatched', r => r.dispatched), number('rejected', r => r.rejected, { class: r => r.rejected > 0 && 'bad' }), number('timed out', r => r.timedOut),
  ], { sort: 1, empty: 'The server has no priority and fairness.' });
  main.append(el('h1', {}, 'Priority levels'), el('p', { class: 'about' }, 'A request takes seats of its level, or waits in one of its queues. The sums are since the server started.'), t.node);
  return async () => t.set((await list('prioritylevels', { limit: 500 }, signal)).items);
}

function bar(n, of) {
  const w = 120, part = of > 0 ? Math.min(1, n / of) : 0;
  return svg('svg', { viewBox: `0 0 ${w + 90} 16`, width: w + 90, height: 16, role: 'img', 'aria-label': of ? `${n} of ${of}` : `${n}, without a bound` },
    svg('rect', { class: 'axis', x: 0, y: 3, width: w, height: 10, fill: 'none' }), svg('rect', { class: part > .8 ? 'bad' : 'bar', x: 0, y: 3, width: (part * w).toFixed(1), height: 10 }),
    svg('text', { x: w + 6, y: 12 }, of ? `${n} of ${of}` : String(n)));
}

export function storage(main, _, signal) {
  const cards = el('div');
  const t = table('Storage by resource', [
    { name: 'resource', of: r => r.metadata.name }, { name: 'in memory', of: r => r.loaded ? 'yes' : 'no' }, number('objects', r => r.objects), size('bytes', r => r.bytes),
    number('watchers', r => r.watchers), number('changes', r => r.events, { about: 'Since the server started' }), number('kept events', r => r.window, { about: 'For watches that begin in the past' }),
    number('unreadable', r => r.unreadable ?? 0, { class: r => r.unreadable > 0 && 'bad' }),
  ], { sort: 3 });
  main.append(el('h1', {}, 'Storage'), cards, el('h2', {}, 'By resource'), el('p', { class: 'about' }, 'The 100 that need most memory. What nobody has asked for is not in memory.'), t.node);
  return async () => {
    const [stores, views] = await Promise.all([list('datastores', {}, signal), list('views', { fields: { costliest: 'true' }, limit: 200 }, signal)]);
    cards.replaceChildren(...stores.items.map(d => el('section', {}, el('h2', {}, d.metadata.name), d.error ? el('p', { class: 'bad' }, d.error) : null, el('div', { class: 'cards' },
      card('one question takes', time(ms(d.latency))), card(d.quota ? `of ${bytes(d.quota)}` : 'allocated', bytes(d.bytes)),
      card('free inside, for a defragmentation', d.bytes ? `${Math.round(100 * (d.bytes - d.inUse) / d.bytes)} %` : '0'), card('revision', count(d.revision)),
      card('revisions behind', count(Math.max(0, d.revision - d.seen))), card('compacted up to', count(d.compacted))))));
    t.set(views.items);
  };
}

export function definitions(main, params, signal) {
  const columns = [
    { name: 'definition', of: r => r.metadata.name }, { name: 'versions', of: r => (r.versions ?? []).join(', ') }, number('objects', r => r.objects), size('bytes', r => r.bytes),
    number('watchers', r => r.watchers), size('definition', r => r.definitionBytes), { name: 'compiled', of: r => (r.compiled ?? []).join(', '), about: 'Versions whose schema was needed' },
    { name: 'state', of: r => r.established ? r.loaded ? 'in use' : 'not used yet' : 'not served', class: r => !r.established && 'bad' },
  ];
  const fields = params.group ? { group: params.group } : params.all ? {} : { costliest: 'true' };
  return pages(main, table('Custom resource definitions', columns, { sort: params.all || params.group ? null : 3, empty: 'There are none.' }), signal, 'Custom resource definitions',
    'The 100 that need most memory, or all by name. One that nobody uses costs no more than its own bytes.', 'definitions',
    form([{ name: 'group', label: 'Group' }, { name: 'all', label: 'Which', options: ['', 'all'] }], params, 'Show', values => { location.hash = hash('definitions', values); }), fields);
}

export function controllers(main, _, signal) {
  const t = table('Controllers', [
    { name: 'queue', of: r => r.metadata.name }, number('waiting', r => r.waiting, { class: r => r.waiting > 100 && 'bad' }), number('working', r => r.working), number('added', r => r.added),
    number('retries', r => r.retries), { name: 'mean wait', of: r => ms(r.meanWait), number: true, show: time }, { name: 'mean work', of: r => ms(r.meanWork), number: true, show: time },
    { name: 'oldest under way', of: r => ms(r.longest), number: true, show: time },
  ], { sort: 3, empty: 'There are no queues.' });
  main.append(el('h1', {}, 'Controllers'), el('p', { class: 'about' }, 'The work queues of the controllers in the server, since it started.'), t.node);
  return async () => t.set((await list('controllers', { limit: 500 }, signal)).items);
}
