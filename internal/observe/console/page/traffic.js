// How much is asked for, how long it takes, and who delays it.

import { list } from './api.js';
import { section } from './charts.js';
import { findings } from './findings.js';
import { breakable, bytes, card, count, el, hash, link, ms, rate, resource, table, time } from './dom.js';

const latency = [
  { name: 'per second', of: r => r.perSecond, number: true, show: rate },
  { name: 'p50', of: r => ms(r.p50), number: true, show: time },
  { name: 'p99', of: r => ms(r.p99), number: true, show: time },
  { name: 'refused/s', of: r => r.refusedPerSecond ?? 0, number: true, show: rate, class: r => r.refusedPerSecond > 0 && 'bad' },
  { name: 'failed/s', of: r => r.failedPerSecond ?? 0, number: true, show: rate, class: r => r.failedPerSecond > 0 && 'bad' },
];

// others is how the server calls what it does not count apart.
const others = '(others)';

const kinds = [
  ['Verb', 'Verbs', { name: 'verb', of: r => r.verb, cell: r => link(hash('requests', { verb: r.verb }), r.verb) }],
  ['Resource', 'Resources', { name: 'resource', of: resource, cell: r => r.resource?.startsWith('/') || r.resource === others ? r.resource : link(hash('requests', { resource: r.resource, group: r.group }), breakable(resource(r))) }],
  ['Client', 'Clients', { name: 'client', of: r => r.client ?? '' }],
  ['User', 'Users', { name: 'user', of: r => r.user ?? '', cell: r => r.user === others ? r.user : link(hash('requests', { as: r.user }), r.user ?? '') }],
  ['Layer', 'Where time goes', { name: 'part of the server', of: r => r.layer }],
];

export function overview(main, params, signal) {
  const cards = el('div', { class: 'cards' }), hour = section(signal, { onrange: (from, to) => { location.hash = hash('requests', { from, to }); } }), wrong = findings(signal, params.finding);
  const tables = kinds.map(([, title, of]) => table(title, [of, ...latency.slice(0, of.name.startsWith('part') ? 3 : 5)], { sort: 1, empty: 'No requests in the last minute.' }));
  main.append(el('h1', {}, 'Overview'), wrong.node,
    el('p', { class: 'about' }, 'The last minute, and the last hour; drag over a chart to see the requests of that time. Reads are estimated from a sample; watches and streams have no latency.'), cards, hour.node,
    el('div', { class: 'columns' }, kinds.map(([, title], n) => el('section', {}, el('h2', {}, title), tables[n].node))));
  return async () => {
    await wrong.update();
    const [all, ...rest] = await Promise.all(['All', ...kinds.map(k => k[0])].map(by => list('trafficstats', { fields: { by }, limit: 500 }, signal)));
    const now = all.items[0] ?? { perSecond: 0 };
    cards.replaceChildren(card('requests a second', rate(now.perSecond)), card('half are faster than', time(ms(now.p50))), card('99 of 100 are faster than', time(ms(now.p99))),
      card('refused a second', rate(now.refusedPerSecond ?? 0)), card('failed a second', rate(now.failedPerSecond ?? 0), now.failedPerSecond > 0 ? 'bad' : ''),
      card('answered a second', bytes(now.bytesPerSecond ?? 0)));
    await hour.update();
    rest.forEach((r, n) => tables[n].set(r.items));
  };
}

export function webhooks(main, _, signal) {
  const t = table('Webhooks and policies', [
    { name: 'name', of: r => r.step }, { name: 'type', of: r => r.type }, { name: 'phase', of: r => r.phase },
    { name: 'calls', of: r => r.calls, number: true, show: count }, { name: 'a minute', of: r => r.perMinute, number: true, show: rate },
    { name: 'p50', of: r => ms(r.p50), number: true, show: time }, { name: 'p99', of: r => ms(r.p99), number: true, show: time, class: r => ms(r.p99) > 1000 && 'bad' },
    { name: 'max', of: r => ms(r.max), number: true, show: time }, { name: 'refused', of: r => r.refused, number: true, show: count },
    { name: 'failed', of: r => r.failed, number: true, show: count, class: r => r.failed > 0 && 'bad' }, { name: 'timed out', of: r => r.timedOut, number: true, show: count },
    { name: 'ignored', of: r => r.ignored, number: true, show: count, about: 'Failures that did not count' }, { name: 'changed', of: r => r.changed, number: true, show: count },
  ], { sort: 6, empty: 'No webhook or policy has been asked yet.' });
  const of = table('Webhooks by resource', [
    { name: 'webhook or policy', of: r => r.webhook }, { name: 'resource', of: resource }, ...latency,
  ], { sort: 2, empty: 'None in the last minute.' });
  main.append(el('h1', {}, 'Webhooks and policies'), el('p', { class: 'about' }, 'Since the server started. A policy is counted if it took a while, refused or changed something.'),
    t.node, el('h2', {}, 'Who waits for them, in the last minute'), of.node);
  return async () => {
    const [stats, traffic] = await Promise.all([list('webhookstats', { limit: 500 }, signal), list('trafficstats', { fields: { by: 'ResourceWebhook' }, limit: 500 }, signal)]);
    t.set(stats.items);
    of.set(traffic.items);
  };
}
