// How much is asked for, how long it takes, and who delays it.

import { list } from './api.ts';
import type { TrafficStat, WebhookStat } from './answers.gen.ts';
import { Charts } from './charts.tsx';
import { Findings } from './findings.tsx';
import { bytes, count, hash, ms, rate, resource, stepHash, time } from './format.ts';
import { Breakable, Card, Section, Table, type Column } from './parts.tsx';
import { usePolled, type ViewProps } from './view.ts';

const latency: Column<TrafficStat>[] = [
  { name: 'req/s', of: r => r.perSecond, number: true, show: rate, about: 'Requests a second' },
  { name: 'p50', of: r => ms(r.p50), number: true, show: time },
  { name: 'p99', of: r => ms(r.p99), number: true, show: time },
  { name: 'refused/s', of: r => r.refusedPerSecond ?? 0, number: true, show: rate, class: r => (r.refusedPerSecond ?? 0) > 0 && 'bad' },
  { name: 'failed/s', of: r => r.failedPerSecond ?? 0, number: true, show: rate, class: r => (r.failedPerSecond ?? 0) > 0 && 'bad' },
];

// others is how the server calls what it does not count apart.
const others = '(others)';

const resourceCell = (r: TrafficStat) => r.resource?.startsWith('/') || r.resource === others ? r.resource
  : <a href={hash('requests', { resource: r.resource, group: r.group })}><Breakable text={resource(r)} /></a>;

// tables are what the first page counts requests by.
const tables: { by: string; title: string; columns: Column<TrafficStat>[] }[] = [
  { by: 'Verb', title: 'Verbs', columns: [{ name: 'verb', of: r => r.verb ?? '', cell: r => <a href={hash('requests', { verb: r.verb })}>{r.verb}</a> }, ...latency] },
  { by: 'Resource', title: 'Resources', columns: [{ name: 'resource', of: resource, cell: resourceCell }, ...latency] },
  { by: 'Client', title: 'Clients', columns: [{ name: 'client', of: r => r.client ?? '' }, ...latency] },
  { by: 'User', title: 'Users', columns: [{ name: 'user', of: r => r.user ?? '', cell: r => r.user === others ? r.user : <a href={hash('requests', { as: r.user })}>{r.user}</a> }, ...latency] },
  { by: 'Layer', title: 'Where time goes', columns: [{ name: 'part of the server', of: r => r.layer ?? '' }, ...latency.slice(0, 3)] },
];

const traffic = (by: string, signal: AbortSignal) => list('trafficstats', { fields: { by }, limit: 500 }, signal).then(l => l.items);

export function Overview({ params }: ViewProps) {
  const told = usePolled(async signal => {
    const [all, ...rest] = await Promise.all([traffic('All', signal), ...tables.map(t => traffic(t.by, signal))]);
    return { now: all[0], rest };
  }, []);
  const now = told?.now;
  return <><h1>Overview</h1><Findings wanted={params.finding} />
    <p class="about">The last minute, and the last hour; drag over a chart to see the requests of that time. Reads are estimated from a sample; watches and streams have no latency.</p>
    <div class="cards">{told && <>
      <Card name="requests a second">{rate(now?.perSecond ?? 0)}</Card><Card name="half are faster than">{time(ms(now?.p50))}</Card><Card name="99 of 100 are faster than">{time(ms(now?.p99))}</Card>
      <Card name="refused a second">{rate(now?.refusedPerSecond ?? 0)}</Card><Card name="failed a second" bad={(now?.failedPerSecond ?? 0) > 0}>{rate(now?.failedPerSecond ?? 0)}</Card>
      <Card name="answered a second">{bytes(now?.bytesPerSecond ?? 0)}</Card></>}</div>
    <Charts onRange={(from, to) => { location.hash = hash('requests', { from, to }); }} />
    <div class="columns">{tables.map(({ by, title, columns }, n) => <Section key={by} title={title}>
      <Table caption={title} columns={columns} rows={told?.rest[n]} keyOf={r => r.metadata.name} sort={1} most={12} empty="No requests in the last minute." /></Section>)}</div></>;
}

const league: Column<WebhookStat>[] = [
  { name: 'name', of: r => r.step, cell: r => { const to = stepHash(r.type, r.step, r.phase); return to ? <a href={to}>{r.step}</a> : r.step; } }, { name: 'type', of: r => r.type }, { name: 'phase', of: r => r.phase },
  { name: 'calls', of: r => r.calls, number: true, show: count }, { name: 'a minute', of: r => r.perMinute, number: true, show: rate },
  { name: 'p50', of: r => ms(r.p50), number: true, show: time }, { name: 'p99', of: r => ms(r.p99), number: true, show: time, class: r => ms(r.p99) > 1000 && 'bad' },
  { name: 'max', of: r => ms(r.max), number: true, show: time }, { name: 'refused', of: r => r.refused, number: true, show: count },
  { name: 'failed', of: r => r.failed, number: true, show: count, class: r => r.failed > 0 && 'bad' }, { name: 'timed out', of: r => r.timedOut, number: true, show: count },
  { name: 'ignored', of: r => r.ignored, number: true, show: count, about: 'Failures that did not count' }, { name: 'changed', of: r => r.changed, number: true, show: count },
];

const waiting: Column<TrafficStat>[] = [{ name: 'webhook or policy', of: r => r.webhook ?? '' }, { name: 'resource', of: resource, cell: resourceCell }, ...latency];

export function Webhooks() {
  const told = usePolled(async signal => {
    const [stats, of] = await Promise.all([list('webhookstats', { limit: 500 }, signal), traffic('ResourceWebhook', signal)]);
    return { stats: stats.items, of };
  }, []);
  return <><h1>Webhooks and policies</h1><p class="about">Since the server started. A policy is counted if it took a while, refused or changed something.</p>
    <Table caption="Webhooks and policies" columns={league} rows={told?.stats} keyOf={r => r.metadata.name} sort={6} empty="No webhook or policy has been asked yet." />
    <h2>Who waits for them, in the last minute</h2>
    <Table caption="Webhooks by resource" columns={waiting} rows={told?.of} keyOf={r => r.metadata.name} sort={2} empty="None in the last minute." /></>;
}
