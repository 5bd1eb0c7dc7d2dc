// The state of the server's parts.

import { useContext, useMemo, useState } from 'preact/hooks';
import { list, type Recorded } from './api.ts';
import type { Controller, Definition, PriorityLevel, View, Watch } from './answers.gen.ts';
import { Charts } from './charts.tsx';
import { ago, bytes, count, hash, ms, now, rate, resource, time } from './format.ts';
import { Card, Form, Section, Table, type Column } from './parts.tsx';
import { Room } from './room.tsx';
import { Speed } from './speed.ts';
import { ShellContext, usePolled, type ViewProps } from './view.ts';

function number<R>(name: string, of: (r: R) => number, more: Partial<Column<R>> = {}): Column<R> { return { name, of, number: true, show: count, ...more }; }

function size<R>(name: string, of: (r: R) => number): Column<R> { return { name, of, number: true, show: bytes }; }

function duration<R>(name: string, of: (r: R) => number, about?: string): Column<R> { return { name, of, number: true, show: time, about }; }

// usePages reads a list of which there may be very many, a page at a time. It returns the rows and the buttons for other pages.
// look sees each answer.
function usePages<R extends 'watches' | 'definitions'>(resource: R, fields: { [field: string]: string | undefined }, look?: (items: Recorded[R][]) => void) {
  const [from, go] = useState('');
  const page = usePolled(async signal => {
    const page = await list(resource, { fields, limit: 200, from }, signal);
    look?.(page.items);
    return page;
  }, [resource, fields, from]), next = page?.metadata.continue;
  return { rows: page?.items, buttons: <>{next && <button type="button" onClick={() => go(next)}>Next page</button>} {from && <button type="button" onClick={() => go('')}>First page</button>}</> };
}

const watchColumns: Column<Watch>[] = [
  { name: 'resource', of: resource }, { name: 'namespace', of: r => r.namespace ?? '' }, { name: 'selector', of: r => [r.labelSelector, r.fieldSelector].filter(Boolean).join(' ') },
  { name: 'user', of: r => r.impersonated || r.user || '' }, { name: 'client', of: r => r.userAgent ?? '' }, { name: 'from', of: r => r.sourceIP ?? '' },
  number('events', r => r.events), size('bytes', r => r.bytes),
  { name: 'lag', of: r => ms(r.lag), number: true, show: time, class: r => ms(r.lag) > 1000 && 'bad', about: 'For how long the client has not read what is being sent' },
  { name: 'age', of: r => now() - Date.parse(r.began), number: true, cell: r => ago(r.began) },
];

interface Fan { id: string; group?: string; resource: string; watchers: number; events: number; bytes: number; eventsNow: number; bytesNow: number }

// fanned adds up what each resource's watchers were sent, and are sent a second.
function fanned(all: Watch[] | undefined, speed: Speed<Watch>): Fan[] | undefined {
  const out = new Map<string, Fan>();
  for (const w of all ?? []) {
    const id = resource(w), f = out.get(id) ?? { id, group: w.group, resource: w.resource, watchers: 0, events: 0, bytes: 0, eventsNow: 0, bytesNow: 0 };
    out.set(id, { ...f, watchers: f.watchers + 1, events: f.events + w.events, bytes: f.bytes + w.bytes, eventsNow: f.eventsNow + speed.of(w, 'events'), bytesNow: f.bytesNow + speed.of(w, 'bytes') });
  }
  return all && [...out.values()];
}

const fanColumns: Column<Fan>[] = [
  { name: 'resource', of: f => f.id, cell: f => <a href={hash('watches', { group: f.group, resource: f.resource })}>{f.id}</a> }, number('watchers', f => f.watchers),
  { name: 'events/s', of: f => f.eventsNow, number: true, show: rate, about: 'To all of its watchers, since the answer before' }, size('bytes/s', f => f.bytesNow),
  number('events sent', f => f.events), size('bytes sent', f => f.bytes), { ...size('an event', f => f.events ? f.bytes / f.events : 0), about: 'Bytes of an event, to one watcher' },
];

export function Watches({ params }: ViewProps) {
  const speed = useMemo(() => new Speed<Watch>(['events', 'bytes'], (a, b) => a.began === b.began), []);
  const { rows, buttons } = usePages('watches', { as: params.as, resource: params.resource, group: params.group, namespace: params.namespace }, items => speed.measure(items));
  return <><h1>Watches</h1><p class="about">Who follows what, and who does not read what it is sent.</p>
    <Form fields={[{ name: 'as', label: 'User' }, { name: 'resource', label: 'Resource' }, { name: 'group', label: 'Group' }, { name: 'namespace', label: 'Namespace' }]}
      values={params} action="Filter" done={values => { location.hash = hash('watches', values); }} />
    <Table caption="Watches" columns={watchColumns} rows={rows} keyOf={r => r.metadata.name} sort={8} empty="Nobody watches anything." />{buttons}
    <h2>How far changes fan out</h2><p class="about">What the watches above are sent now, and were sent since they began, by resource: a change goes to each of its watchers.</p>
    <Table caption="Fan-out" columns={fanColumns} rows={fanned(rows, speed)} keyOf={f => f.id} sort={5} empty="Nobody watches anything." /></>;
}

function Bar({ n, of }: { n: number; of: number }) {
  const w = 120, part = of > 0 ? Math.min(1, n / of) : 0;
  return <svg viewBox={`0 0 ${w + 90} 16`} width={w + 90} height={16} role="img" aria-label={of ? `${n} of ${of}` : `${n}, without a bound`}>
    <rect class="axis" x={0} y={3} width={w} height={10} fill="none" /><rect class={part > 0.8 ? 'bad' : 'bar'} x={0} y={3} width={(part * w).toFixed(1)} height={10} />
    <text x={w + 6} y={12}>{of ? `${n} of ${of}` : String(n)}</text></svg>;
}

const levelColumns: Column<PriorityLevel>[] = [
  { name: 'level', of: r => r.metadata.name }, { name: 'seats in use', of: r => r.seatsInUse, cell: r => <Bar n={r.seatsInUse} of={r.exempt ? 0 : r.seats} /> },
  number('nominal', r => r.nominal, { about: 'Seats of its own; others may have lent or borrowed the difference' }), number('executing', r => r.executing),
  number('waiting', r => r.waiting, { class: r => r.waiting > 0 && 'bad' }), number('queues', r => r.queues), number('busy queues', r => r.activeQueues),
  number('dispatched', r => r.dispatched), number('rejected', r => r.rejected, { class: r => r.rejected > 0 && 'bad' }), number('timed out', r => r.timedOut),
];

export function Levels() {
  const levels = usePolled(signal => list('prioritylevels', { limit: 500 }, signal), []);
  return <><h1>Priority levels</h1><p class="about">A request takes seats of its level, or waits in one of its queues. The sums are since the server started.</p>
    <Charts titles={['Seats in use, by level', 'Waiting, by level', 'Refused a second, by level']} onRange={(from, to) => { location.hash = hash('requests', { from, to }); }} />
    <Table caption="Priority levels" columns={levelColumns} rows={levels?.items} keyOf={r => r.metadata.name} sort={1} empty="The server has no priority and fairness." /></>;
}

const viewColumns: Column<View>[] = [
  { name: 'resource', of: r => r.metadata.name }, { name: 'in memory', of: r => r.loaded ? 'yes' : 'no' }, number('objects', r => r.objects), size('bytes', r => r.bytes),
  number('watchers', r => r.watchers), number('changes', r => r.events, { about: 'Since the server started' }), number('kept events', r => r.window, { about: 'For watches that begin in the past' }),
  number('unreadable', r => r.unreadable ?? 0, { class: r => (r.unreadable ?? 0) > 0 && 'bad' }),
];

export function Storage() {
  const { recorded } = useContext(ShellContext);
  const told = usePolled(async signal => {
    const [stores, views] = await Promise.all([list('datastores', {}, signal), list('views', { fields: { costliest: 'true' }, limit: 200 }, signal)]);
    return { stores: stores.items, views: views.items };
  }, []);
  return <><h1>Storage</h1>
    {told?.stores.map(d => <Section key={d.metadata.name} title={d.metadata.name}>{d.error && <p class="bad">{d.error}</p>}<div class="cards">
      <Card name="one question takes">{time(ms(d.latency))}</Card><Card name={d.quota ? `of ${bytes(d.quota)}` : 'allocated'}>{bytes(d.bytes)}</Card>
      <Card name="free inside, for a defragmentation">{d.bytes ? `${Math.round(100 * (d.bytes - d.inUse) / d.bytes)} %` : '0'}</Card><Card name="revision">{count(d.revision)}</Card>
      <Card name="revisions behind">{count(Math.max(0, d.revision - d.seen))}</Card><Card name="compacted up to">{count(d.compacted)}</Card></div></Section>)}
    <Charts titles={['Database', 'Stored, by kind', 'Changes a second', 'A question to the database']} onRange={(from, to) => { location.hash = hash('requests', { from, to }); }} />
    {!recorded && <Room />}
    <h2>In memory</h2><p class="about">The 100 resources that need most memory. What nobody has asked for is not in memory.</p>
    <Table caption="In memory, by resource" columns={viewColumns} rows={told?.views} keyOf={r => r.metadata.name} sort={3} /></>;
}

const definitionColumns: Column<Definition>[] = [
  { name: 'definition', of: r => r.metadata.name }, { name: 'versions', of: r => (r.versions ?? []).join(', ') }, number('objects', r => r.objects), size('bytes', r => r.bytes),
  number('watchers', r => r.watchers), size('definition', r => r.definitionBytes), { name: 'compiled', of: r => (r.compiled ?? []).join(', '), about: 'Versions whose schema was needed' },
  duration('compilation', r => ms(r.compileTime)), number('checks', r => r.checks, { about: 'Objects validated since the definition last changed' }),
  duration('check', r => ms(r.checkTime) / Math.max(1, r.checks), 'Of one object, on average, with the rules of the schema'),
  { name: 'state', of: r => r.established ? r.loaded ? 'in use' : 'not used yet' : 'not served', class: r => !r.established && 'bad' },
];

export function Definitions({ params }: ViewProps) {
  const { rows, buttons } = usePages('definitions', params.group ? { group: params.group } : params.all ? {} : { costliest: 'true' });
  return <><h1>Custom resource definitions</h1><p class="about">The 100 that need most memory, or all by name. One that nobody uses costs no more than its own bytes.</p>
    <Form fields={[{ name: 'group', label: 'Group' }, { name: 'all', label: 'Which', options: ['', 'all'], none: 'the largest' }]} values={params} action="Show" done={values => { location.hash = hash('definitions', values); }} />
    <Table caption="Custom resource definitions" columns={definitionColumns} rows={rows} keyOf={r => r.metadata.name} sort={params.all || params.group ? undefined : 3} empty="There are none." />{buttons}</>;
}

const queueColumns: Column<Controller>[] = [
  { name: 'queue', of: r => r.metadata.name }, number('waiting', r => r.waiting, { class: r => r.waiting > 100 && 'bad' }), number('working', r => r.working), number('added', r => r.added),
  number('retries', r => r.retries), { name: 'of 100 fail', of: r => r.added ? 100 * r.retries / r.added : 0, number: true, show: v => v.toFixed(1), class: r => r.retries > 10 && r.retries * 5 > r.added && 'bad', about: 'How many of 100 that were added came back after a failure' },
  duration('mean wait', r => ms(r.meanWait)), duration('mean work', r => ms(r.meanWork)),
  { name: 'oldest under way', of: r => ms(r.longest), number: true, show: time },
];

export function Controllers() {
  const queues = usePolled(signal => list('controllers', { limit: 500 }, signal), []);
  return <><h1>Controllers</h1><p class="about">The work queues of the controllers in the server, since it started.</p>
    <Table caption="Controllers" columns={queueColumns} rows={queues?.items} keyOf={r => r.metadata.name} sort={3} empty="There are no queues." /></>;
}
