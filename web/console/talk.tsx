// Who talks to whom, and how much: clients, resources, webhooks.

import { list } from './api.ts';
import type { TrafficStat } from './answers.gen.ts';
import { cut, hash, ms, rate, resource, time } from './format.ts';
import { Table, type Column } from './parts.tsx';
import { usePolled } from './view.ts';

const most = 22; // of each column

const columns: Column<TrafficStat>[] = [
  { name: 'client', of: r => r.client ?? '' }, { name: 'resource', of: resource }, { name: 'per second', of: r => r.perSecond, number: true, show: rate },
  { name: 'p99', of: r => ms(r.p99), number: true, show: time }, { name: 'failed/s', of: r => r.failedPerSecond ?? 0, number: true, show: rate, class: r => (r.failedPerSecond ?? 0) > 0 && 'bad' },
];

export function Talk() {
  const told = usePolled(async signal => {
    const [asked, hooks] = await Promise.all(['ClientResource', 'ResourceWebhook'].map(by => list('trafficstats', { fields: { by }, limit: 500 }, signal)));
    return { asked: asked!.items, hooks: hooks!.items };
  }, []);
  return <><h1>Who talks to whom</h1><p class="about">In the last minute: clients and controllers on the left, what they ask for, and the webhooks and policies that are asked about it. The thicker a line, the more requests; red ones have failures, and webhooks with orange ones take a second or more.</p>
    <div class="scroll" tabIndex={0} role="region" aria-label="Picture">{told && <Picture asked={told.asked} hooks={told.hooks} />}</div>
    <h2>As a table</h2><Table caption="Clients and resources" columns={columns} rows={told?.asked} keyOf={r => r.metadata.name} sort={2} empty="No requests in the last minute." /></>;
}

type Place = readonly [column: 0 | 1 | 2, name: string];
interface Edge { from: Place; to: Place; r: TrafficStat }

const x = [220, 470, 780] as const, row = 24, width = 1000, letter = 6.8;

function Picture({ asked, hooks }: { asked: TrafficStat[]; hooks: TrafficStat[] }) {
  const edges: Edge[] = [...asked.map((r): Edge => ({ from: [0, r.client ?? ''], to: [1, resource(r)], r })), ...hooks.map((r): Edge => ({ from: [1, resource(r)], to: [2, r.webhook ?? ''], r }))];
  // The busiest names of each column, from top to bottom.
  const sums = [new Map<string, number>(), new Map<string, number>(), new Map<string, number>()] as const;
  for (const e of edges) for (const [column, name] of [e.from, e.to]) sums[column].set(name, (sums[column].get(name) ?? 0) + e.r.perSecond);
  const places = sums.map(s => new Map([...s].sort((a, b) => b[1] - a[1]).slice(0, most).map(([name], n) => [name, n])));
  const rows = Math.max(1, ...places.map(p => p.size));
  const at = ([column, name]: Place): [number, number] | null => { const n = places[column]!.get(name); return n === undefined ? null : [x[column], n * row + 34]; };
  const groups = new Map(asked.map(r => [resource(r), r]));
  return <svg viewBox={`0 0 ${width} ${rows * row + 34}`} class="map" role="group" aria-label="Clients, resources and webhooks, and how much they talk; the same is in the table below">
    {edges.map((e, n) => {
      const a = at(e.from), b = at(e.to);
      if (!a || !b) return null;
      const from = a[0] + (e.from[0] === 1 ? Math.min(205, cut(e.from[1], 28).length * letter + 10) : 4), to = b[0] - 4, half = (from + to) / 2;
      return <path key={n} class={(e.r.failedPerSecond ?? 0) > 0 ? 'edge bad' : e.from[0] === 1 && ms(e.r.p99) >= 1000 ? 'edge slow' : 'edge'} stroke-width={(1 + Math.log2(1 + e.r.perSecond)).toFixed(1)} d={`M${from},${a[1] - 4} C${half},${a[1] - 4} ${half},${b[1] - 4} ${to},${b[1] - 4}`}>
        <title>{`${e.from[1]} → ${e.to[1]}: ${rate(e.r.perSecond)} a second, p99 ${time(ms(e.r.p99))}`}</title></path>;
    })}
    {places.flatMap((p, column) => [...p].map(([name, n]) => {
      const text = <text x={x[column]} y={n * row + 34} text-anchor={column ? 'start' : 'end'}>{cut(name, 28)}<title>{name}</title></text>, of = column === 1 ? groups.get(name) : undefined;
      return of?.resource && !of.resource.startsWith('/') ? <a key={`${column} ${name}`} href={hash('requests', { resource: of.resource, group: of.group })}>{text}</a> : <g key={`${column} ${name}`}>{text}</g>;
    }))}
    {['clients', 'resources', 'webhooks and policies'].map((text, n) => <text key={text} x={x[n]} y={12} text-anchor={n ? 'start' : 'end'} font-weight="bold">{text}</text>)}
  </svg>;
}
