// Who writes what: which program writes which kind, how much, and how much of it changes anything.

import { list } from './api.ts';
import type { TrafficStat } from './answers.gen.ts';
import { bytes, hash, rate, resource } from './format.ts';
import { Table, type Column } from './parts.tsx';
import { usePolled } from './view.ts';

const part = (r: TrafficStat): number => r.writesPerSecond ? 100 * (r.unchangedPerSecond ?? 0) / r.writesPerSecond : 0;

const columns: Column<TrafficStat>[] = [
  { name: 'client', of: r => r.client ?? '', cell: r => <a href={hash('requests', { resource: r.resource, group: r.group, kept: 'Write', text: r.client, by: 'object' })}>{r.client || '(none)'}</a> },
  { name: 'resource', of: resource, cell: r => <a href={hash('requests', { resource: r.resource, group: r.group, kept: 'Write', by: 'client' })}>{resource(r)}</a> },
  { name: 'writes/s', of: r => r.writesPerSecond ?? 0, number: true, show: rate }, { name: 'bytes/s', of: r => r.writtenBytesPerSecond ?? 0, number: true, show: bytes, about: 'Of the bodies of the writes' },
  { name: 'without effect/s', of: r => r.unchangedPerSecond ?? 0, number: true, show: rate, class: r => (r.unchangedPerSecond ?? 0) > 0.5 && part(r) > 50 && 'bad', about: 'Updates and patches after which the object was the same. Those of kinds that another server stores count too: this one does not see what they change' },
  { name: 'of 100', of: part, number: true, show: v => v.toFixed(0), about: 'How many of 100 writes had no effect' }, { name: 'refused/s', of: r => r.refusedPerSecond ?? 0, number: true, show: rate, about: 'Of all requests' },
];

export function Writers() {
  const told = usePolled(signal => list('trafficstats', { fields: { by: 'ClientResource' }, limit: 500 }, signal), []);
  return <><h1>Who writes what</h1><p class="about">In the last minute, by program and kind; a program leads to the objects that it writes. A write without effect costs admission and changes nothing: the program does not compare what it wants with what is there.</p>
    <Table caption="Writers" columns={columns} rows={told?.items.filter(r => r.writesPerSecond)} keyOf={r => r.metadata.name} sort={2} empty="Nobody has written anything in the last minute." /></>;
}
