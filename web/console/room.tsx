// What takes the room of the database, by kind and namespace, and what has grown.

import { useState } from 'preact/hooks';
import { absent, Forgotten, space } from './api.ts';
import { ago, bytes, count, hash, objectHash, second } from './format.ts';
import type { Amount, Space } from './meta.ts';
import { Breakable, Section, Table, type Column } from './parts.tsx';
import { usePolled } from './view.ts';

const kind = (name?: string) => { const [resource, ...group] = (name ?? '').split('.'); return { resource, group: group.join('.') }; };

// growth is told with its sign.
const growth = (n: number) => n > 0 ? `+${bytes(n)}` : n < 0 ? `−${bytes(-n)}` : '0';

const amounts = (grown: boolean): Column<Amount>[] => [
  { name: 'objects', of: a => a.objects, number: true, show: count }, { name: 'bytes', of: a => a.bytes, number: true, show: bytes, about: 'Of the newest records, before the database compresses them' },
  ...grown ? [{ name: 'grown', of: (a: Amount) => a.grown ?? 0, number: true, cell: (a: Amount) => a.grown === undefined ? '–' : growth(a.grown), class: (a: Amount) => (a.grown ?? 0) > 1 << 20 && 'warn' }] : [],
  { name: 'old', of: a => a.oldBytes, number: true, show: bytes, about: 'Earlier records and deletions, which the next compaction drops: who has much has many changes' },
];

const resourceColumn: Column<Amount> = { name: 'kind', of: a => a.name ?? '', cell: a => <a href={hash('explore', { ...kind(a.name), namespace: a.namespace })}><Breakable text={a.name ?? ''} /></a> };
const namespaceColumn: Column<Amount> = { name: 'namespace', of: a => a.namespace ?? a.name ?? '', cell: a => <a href={objectHash({ resource: 'namespaces', name: a.namespace ?? a.name })}>{a.namespace ?? a.name}</a> };

type Large = NonNullable<Space['largest']>[number];

const largeColumns: Column<Large>[] = [
  { name: 'object', of: l => l.name ?? l.key, cell: l => l.resource ? <a href={objectHash({ ...kind(l.resource), namespace: l.namespace, name: l.name })}>{l.name}</a> : l.key },
  { name: 'kind', of: l => l.resource ?? '', cell: l => <Breakable text={l.resource ?? ''} /> }, { name: 'namespace', of: l => l.namespace ?? '' }, { name: 'bytes', of: l => l.bytes, number: true, show: bytes },
];

const most = 50;

// few are the rows that have most, or have grown most.
function few(all: Amount[] | undefined): Amount[] | undefined {
  if (!all || all.length <= most) return all;
  return [...new Set([...all.toSorted((a, b) => b.bytes + b.oldBytes - a.bytes - a.oldBytes).slice(0, most), ...all.toSorted((a, b) => (b.grown ?? 0) - (a.grown ?? 0)).slice(0, most / 2)])];
}

export function Room() {
  const [since, compare] = useState<'1h' | '24h'>('1h'), [asked, again] = useState(0);
  const told = usePolled(async signal => {
    try { return { found: await space(since, signal), at: new Date().toISOString() }; } catch (e) {
      if (!absent(e)) throw e;
      return { refused: e instanceof Forgotten ? 'the database is not in this server; kanzen space FILE looks at a snapshot of it' : e.message };
    }
  }, ['space', since, asked], 0);
  const s = told?.found, grown = Boolean(s?.since);
  if (told?.refused) return <Section title="In the database"><p class="about">What takes the room of the database is not told: {told.refused}</p></Section>;
  return <Section title="In the database">
    <div class="bar"><label class="beside">Compare with <select value={since} onChange={e => compare(e.currentTarget.value as '1h')}><option value="1h">an hour ago</option><option value="24h">a day ago</option></select></label>
      <button type="button" onClick={() => again(asked + 1)}>Look again</button>
      <span class="dim" role="status">{!told ? 'Looking at all records…' : <>{count(s!.keys)} keys, {bytes(s!.records.bytes)}, and {bytes(s!.records.oldBytes)} that the next compaction drops.{' '}
        {s!.since ? <>Grown since <span title={second(s!.since)}>{ago(s!.since)} ago</span>.</> : 'The server has not looked before; growth is told from the next time on.'}</>}</span></div>
    <div class="columns">
      <div><h3>By kind</h3><Table key={`kinds${grown}`} caption="Database by kind" columns={[resourceColumn, ...amounts(grown)]} rows={few(s?.resources)} keyOf={a => a.name ?? ''} sort={2} /></div>
      <div><h3>By namespace</h3><Table key={`namespaces${grown}`} caption="Database by namespace" columns={[namespaceColumn, ...amounts(grown)]} rows={few(s?.namespaces ?? (s && []))} keyOf={a => a.name ?? ''} sort={2} /></div>
      <div><h3>By kind and namespace</h3><Table key={`placed${grown}`} caption="Database by kind and namespace" columns={[resourceColumn, namespaceColumn, ...amounts(grown)]} rows={few(s?.placed ?? (s && []))} keyOf={a => `${a.name} ${a.namespace}`} sort={3} /></div>
      <div><h3>The largest objects</h3><Table caption="Largest objects" columns={largeColumns} rows={s?.largest ?? (s && [])} keyOf={l => l.key} sort={3} /></div>
    </div>
  </Section>;
}
