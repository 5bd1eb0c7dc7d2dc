// The planes below the server, by use, and the servers that share them.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { denied, list, one } from './api.ts';
import type { PlaneServer, PlaneStat, RefusedPlane } from './answers.gen.ts';
import { ago, bytes, clock, count, hash, objectHash, quoted, rate } from './format.ts';
import { Card, Copied, Table, type Column } from './parts.tsx';
import { Speed } from './speed.ts';
import { usePolled, type ViewProps } from './view.ts';

function number<R>(name: string, of: (r: R) => number, more: Partial<Column<R>> = {}): Column<R> { return { name, of, number: true, show: count, ...more }; }

const planeSpeed = () => new Speed<PlaneStat>(['requests', 'refused'], (a, b) => a.server === b.server);
const serverSpeed = () => new Speed<PlaneServer>(['requests', 'refused', 'passed', 'passedFailed'], (a, b) => Boolean(a.started) && a.started === b.started);

export function Planes({ params }: ViewProps) { return params.name ? <OnePlane name={params.name} /> : <AllPlanes params={params} />; }

// standing says how a server is, and since when.
function standing(s: PlaneServer): string {
  if (s.state === 'Away' && !s.since) return `Away, ${count(s.named)} ${s.named === 1 ? 'plane names' : 'planes name'} it`;
  return s.state + (s.since ? ` since ${clock(s.since).slice(0, 8)} UTC (${ago(s.since)})` : '') + (s.error ? `: ${s.error}` : '');
}

function serverColumns(speed: Speed<PlaneServer>): Column<PlaneServer>[] {
  const known = (s: PlaneServer) => Boolean(s.started);
  const perSecond = (name: string, field: keyof PlaneServer & string, more: Partial<Column<PlaneServer>> = {}): Column<PlaneServer> => ({ name, of: s => speed.of(s, field), number: true, cell: s => known(s) ? rate(speed.of(s, field)) : '–', ...more });
  return [
    { name: 'server', of: s => s.metadata.name, cell: s => <span><a href={hash('planes', { server: s.metadata.name })}>{s.metadata.name}</a>{s.answers && ' (this one)'}</span> },
    { name: 'state', of: s => s.state, cell: standing, class: s => ['Away', 'Unreachable'].includes(s.state) && 'bad' },
    number('planes awake', s => s.awake), perSecond('requests/s', 'requests'), perSecond('refused/s', 'refused', { class: s => speed.of(s, 'refused') > 0 && 'bad' }),
    perSecond('passed on/s', 'passed'), perSecond('failed/s', 'passedFailed', { about: 'Requests that were passed on and not answered', class: s => speed.of(s, 'passedFailed') > 0 && 'bad' }),
    number('watches', s => s.watches, { cell: s => known(s) ? count(s.watches) : '–' }), number('moved here', s => s.moved, { about: 'Planes that came to it in the last hour' }),
    number('taken over', s => s.takenOver, { about: 'Planes that it took in the last hour from servers that were gone', class: s => s.takenOver > 0 && 'bad' }),
    { name: 'memory', of: s => s.memory ?? 0, number: true, cell: s => s.memory ? bytes(s.memory) : '–' }, { name: 'up', of: s => s.started ? Date.now() - Date.parse(s.started) : 0, number: true, cell: s => s.started ? ago(s.started) : '–' },
    { name: 'machine', of: s => s.host ?? '' },
  ];
}

// planeColumns have the server if there are several.
function planeColumns(speed: Speed<PlaneStat>, fleet: boolean): Column<PlaneStat>[] {
  const out: (Column<PlaneStat> | false)[] = [
    { name: 'plane', of: p => p.metadata.name, cell: p => <a href={hash('planes', { name: p.metadata.name })}>{p.metadata.name}</a> }, { name: 'state', of: p => p.state }, fleet && { name: 'server', of: p => p.server ?? '' },
    { name: 'requests/s', of: p => speed.of(p, 'requests'), number: true, show: rate }, { name: 'refused/s', of: p => speed.of(p, 'refused'), number: true, show: rate, class: p => speed.of(p, 'refused') > 0 && 'bad' },
    number('requests', p => p.requests), number('refused', p => p.refused, { class: p => p.refused > 0 && 'bad' }), number('watches', p => p.watches),
    { name: 'seats in use', of: p => p.seatsInUse, number: true, cell: p => p.seats ? `${p.seatsInUse} of ${p.seats}` : String(p.seatsInUse) }, number('waiting', p => p.waiting, { class: p => p.waiting > 0 && 'bad' }),
    number('objects', p => p.objects), number('bytes', p => p.bytes, { show: bytes }), number('wakes', p => p.wakes), fleet && number('moves', p => p.moves ?? 0, { about: 'From one server to another in the last hour' }),
  ];
  return out.filter(c => c !== false);
}

// Choice is a select whose options may change while it is used.
function Choice({ label, all, value, options, change }: { label: string; all: string; value: string; options: string[]; change(v: string): void }) {
  return <select aria-label={label} value={value} onChange={e => change(e.currentTarget.value)}>
    {['', ...new Set([...options, value].filter(Boolean))].map(o => <option key={o} value={o}>{o || all}</option>)}</select>;
}

function AllPlanes({ params }: ViewProps) {
  const planes = useMemo(planeSpeed, []), servers = useMemo(serverSpeed, []), few = useRef(false);
  const [text, filter] = useState(''), [state, inState] = useState(''), [server, onServer] = useState<string>(params.server ?? '');
  const told = usePolled(async signal => {
    const used = () => list('planestats', { limit: 500, fields: few.current ? { costliest: 'true', server } : {} }, signal);
    let page = await used();
    if (!few.current && page.metadata.continue) {
      few.current = true;
      page = await used();
    }
    let running: PlaneServer[] = [];
    try { running = (await list('planeservers', { limit: 500 }, signal)).items; } catch (e) { if (!denied(e)) throw e; }
    planes.measure(page.items);
    servers.measure(running);
    return { items: page.items, running, few: few.current };
  }, [few.current && server]);
  const kept = useRef(told);
  useEffect(() => { if (told) kept.current = told; }, [told]);
  const shown = told ?? kept.current, fleet = (shown?.running.length ?? 0) > 1, items = shown?.items;
  const columns = useMemo(() => planeColumns(planes, fleet), [planes, fleet, shown]), ofServers = useMemo(() => serverColumns(servers), [servers, shown]);
  const wanted = text.trim().toLowerCase(), rows = items?.filter(p => p.metadata.name.toLowerCase().includes(wanted) && (!state || p.state === state) && (!server || p.server === server));
  return <><h1>Planes</h1>
    <p class="about">The control planes below this server, and below those that share its etcd; those with most requests first. Sums begin with the start of the server that has the plane; objects and bytes are as they were last counted.</p>
    {fleet && <><h2>Servers</h2><Table caption="Servers" columns={ofServers} rows={shown!.running.toSorted((a, b) => Number(a.state === 'Running') - Number(b.state === 'Running'))} keyOf={s => s.metadata.name} />
      <h2>Planes of all servers</h2></>}
    <p class="bar"><input type="search" aria-label="Filter planes" placeholder="Filter planes" autocomplete="off" onInput={e => filter(e.currentTarget.value)} />
      <Choice label="State" all="Awake and asleep" value={state} options={['Awake', 'Asleep']} change={inState} />
      {(fleet || params.server) && <Choice label="Server" all="All servers" value={server} options={shown?.running.map(s => s.metadata.name) ?? []} change={onServer} />}</p>
    <Table key={String(fleet)} caption="Planes" columns={columns} rows={rows} keyOf={p => p.metadata.name} sort={columns.findIndex(c => c.name === 'requests')} empty="There are none." />
    <p class="dim" role="status">{items && `${count(rows!.length)} of ${count(items.length)} shown, ${count(items.filter(p => p.state === 'Awake').length)} awake.${shown!.few ? ' There are more; these are the 100 that are used most.' : ''}`}</p></>;
}

const limits: [keyof RefusedPlane, string][] = [['requestsPerSecond', 'The limit of requests a second'], ['watches', 'The limit of watches'], ['storage', 'The limits of objects and bytes'],
  ['seats', 'Too many requests waited for a seat'], ['start', 'It could not be woken']];

const refusedColumns: Column<[string, number]>[] = [{ name: 'refused because of', of: r => r[0] }, { name: 'times', of: r => r[1], number: true, show: count, class: r => r[1] > 0 && 'bad' }];

function OnePlane({ name }: { name: string }) {
  const speed = useMemo(planeSpeed, []);
  const p = usePolled(async signal => {
    const p = await one('planestats', name, signal);
    speed.measure([p]);
    return p;
  }, [name]);
  return <><h1>Plane {name}</h1>
    <p class="bar"><a href={hash('planes')}>All planes</a> · <a href={objectHash({ group: 'planes.kanzen.io', resource: 'planes', name })}>Its object and limits</a> <Copied label="Copy as kanzen kubeconfig" text={`kanzen kubeconfig --plane ${quoted(name)}`} /></p>
    <div class="cards">{p && <><Card name="state">{p.state}</Card>{p.server && <Card name="server">{p.server}</Card>}{p.moves ? <Card name="moves in the last hour">{count(p.moves)}</Card> : null}
      <Card name="requests a second">{rate(speed.of(p, 'requests'))}</Card><Card name="refused a second" bad={speed.of(p, 'refused') > 0}>{rate(speed.of(p, 'refused'))}</Card><Card name="requests">{count(p.requests)}</Card>
      <Card name="watches">{count(p.watches)}</Card><Card name={p.seats ? `of ${p.seats} seats in use` : 'seats in use'}>{count(p.seatsInUse)}</Card><Card name="wait for a seat" bad={p.waiting > 0}>{count(p.waiting)}</Card>
      <Card name="objects">{count(p.objects)}</Card><Card name="bytes">{bytes(p.bytes)}</Card><Card name="wakes">{count(p.wakes)}</Card></>}</div>
    <h2>Refused since its server started</h2><Table caption="Refused by" columns={refusedColumns} rows={p && limits.map(([key, label]): [string, number] => [label, p.refusedBy?.[key] ?? 0])} keyOf={r => r[0]} /></>;
}
