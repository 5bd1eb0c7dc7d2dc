// Requests: chosen by fields and time, searched by words, alone or in groups.

import { useMemo, useState } from 'preact/hooks';
import { list } from './api.ts';
import type { Request } from './answers.gen.ts';
import { Charts } from './charts.tsx';
import { bytes, clock, count, hash, moment, ms, now, objectHash, resource, time, type Params } from './format.ts';
import { Form, Table, type Column, type Field } from './parts.tsx';
import { target, who } from './timeline.tsx';
import { usePolled, type ViewProps } from './view.ts';

const fields: Field[] = [
  { name: 'as', label: 'User' }, { name: 'user', label: 'Asked by', more: true }, { name: 'verb', label: 'Verb', options: ['', 'get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'] },
  { name: 'resource', label: 'Resource' }, { name: 'group', label: 'Group', more: true }, { name: 'namespace', label: 'Namespace' }, { name: 'name', label: 'Name' },
  { name: 'code', label: 'Code', size: 4 }, { name: 'slower', label: 'Slower than', options: ['', '10ms', '100ms', '500ms', '1s', '10s'] }, { name: 'kept', label: 'Kept as', more: true, options: ['', 'Write', 'Refused', 'Error', 'Slow', 'Sample'] },
];
const own: Field = { name: 'own', label: 'Of this page', more: true, options: ['', 'too'], none: 'left out' };
const ago: Field = { name: 'since', label: 'Time', options: ['', '1m', '5m', '15m', '1h', '24h'], none: 'any', show: v => `last ${v}` };
const range: Field[] = [{ name: 'from', label: 'From', size: 20, more: true }, { name: 'to', label: 'To', size: 20, more: true }];
const all = [ago, ...fields, own, ...range];

// Bounds of what is looked for.
const perPage = 200, mostPages = 5, perPageOfRange = 500, mostRows = 5000;

const columns: Column<Request>[] = [
  { name: 'time', of: r => r.time, cell: r => <a href={hash('request', { name: r.metadata.name })}>{clock(r.time)}</a>, width: '7.5em' },
  { name: 'took', of: r => ms(r.duration), number: true, show: time, width: '6em' }, { name: 'code', of: r => r.code, number: true, class: r => r.code >= 400 && 'bad', width: '4em' },
  { name: 'verb', of: r => r.verb, width: '8em' }, { name: 'of', of: target, cell: r => r.resource && r.name ? <a href={objectHash(r)}>{target(r)}</a> : target(r), width: '34%' },
  { name: 'user', of: who }, { name: 'client', of: r => (r.userAgent ?? '').split(' ')[0] ?? '' }, { name: 'kept as', of: r => r.kept, width: '5.5em' },
];

// Grouping is by what requests can be grouped, and how one chooses a group.
interface Grouping { by: string; title: string; of(r: Request): string; choose(r: Request): Params }

const groupings: Grouping[] = [
  { by: 'user', title: 'User', of: who, choose: r => ({ as: r.impersonated || r.user }) },
  { by: 'client', title: 'Client', of: r => r.userAgent ?? '', choose: r => ({ text: r.userAgent }) },
  { by: 'resource', title: 'Resource', of: r => r.resource ? resource(r) : r.path ?? '', choose: r => r.resource ? { resource: r.resource, group: r.group } : { text: r.path } },
  { by: 'object', title: 'Object', of: target, choose: r => r.resource ? { resource: r.resource, group: r.group, namespace: r.namespace, name: r.name } : { text: r.path } },
  { by: 'namespace', title: 'Namespace', of: r => r.namespace ?? '', choose: r => ({ namespace: r.namespace }) },
  { by: 'verb', title: 'Verb', of: r => r.verb, choose: r => ({ verb: r.verb }) },
  { by: 'code', title: 'Code', of: r => [r.code, r.reason].filter(Boolean).join(' '), choose: r => ({ code: String(r.code) }) },
];

interface Span { from: number; to: number; wrong?: string }

// spanOf is the range of time that parameters choose; null if they choose none.
function spanOf({ from, to }: Params): Span | null {
  if (!from && !to) return null;
  const out: Span = { from: from ? Date.parse(from) : 0, to: to ? Date.parse(to) : now() };
  if (Number.isNaN(out.from)) out.wrong = from; else if (Number.isNaN(out.to)) out.wrong = to;
  return out;
}

interface Found { items: Request[]; more?: boolean; further?: string; over?: boolean }
type Chosen = { [field: string]: string | undefined };

async function newest(chosen: Chosen, pages: number, signal: AbortSignal): Promise<Found> {
  let items: Request[] = [], from = '';
  for (let n = 0; n < pages; n++) {
    const page = await list('requests', { fields: chosen, limit: perPage, from }, signal);
    items = items.concat(page.items);
    from = page.metadata.continue ?? '';
    if (!from) break;
  }
  return { items, more: Boolean(from) };
}

// between returns the requests of a range of time. The server chooses them, by their selector.
async function between(chosen: Chosen, signal: AbortSignal): Promise<Found> {
  let items: Request[] = [], from = '';
  do {
    const page = await list('requests', { fields: chosen, limit: perPageOfRange, from }, signal);
    items = items.concat(page.items);
    from = page.metadata.continue ?? '';
  } while (from && items.length < mostRows);
  return { items, further: from && `The newest ${count(mostRows)} are shown.` };
}

// said is all of a request that words are searched in.
const said = (r: Request): string => [r.verb, target(r), who(r), r.userAgent, r.sourceIP, r.code, r.reason, r.kept, r.auditID, r.dryRun && 'dry run', ...(r.steps ?? []).map(s => `${s.name} ${s.result}`)].filter(Boolean).join(' ').toLowerCase();

function matching(items: Request[] | undefined, text: string): Request[] | undefined {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length ? items?.filter(r => { const all = said(r); return words.every(w => all.includes(w)); }) : items;
}

export function Requests({ params }: ViewProps) {
  const span = spanOf(params), go = (to: Params) => { location.hash = hash('requests', { ...params, ...to }); };
  const chosen: Chosen = { ...Object.fromEntries(fields.map(f => [f.name, params[f.name]])), console: params.own ? '' : 'false' };
  const [pages, more] = useState(1), [text, search] = useState(params.text ?? ''), [by, group] = useState(params.by ?? '');
  const [over, end] = useState(false); // what lies in the past does not change
  const found = usePolled(async signal => {
    if (!span) return newest({ ...chosen, since: params.since }, pages, signal);
    if (span.wrong) return { items: [] };
    const at = (text: string | undefined, t: number) => text && new Date(t).toISOString();
    const out = await between({ ...chosen, since: at(params.from, span.from), until: at(params.to, span.to) }, signal);
    if (span.to < Date.now() - 60_000) end(true);
    return out;
  }, [span ? 1 : pages], over ? 0 : undefined);
  const rows = useMemo(() => matching(found?.items, text), [found, text]), grouping = groupings.find(g => g.by === by);
  // remember puts into the address what is chosen without reading anew.
  const remember = (p: Params) => history.replaceState(null, '', hash('requests', { ...params, text, by, ...p }));
  return <><h1>Requests</h1>
    <p class="about">The newest first: every write, refusal, error and slow request, and a sample of the reads. Drag over a chart to see the requests of that time.</p>
    <Charts titles={['Requests a second', 'Latency', 'Refused and failed a second']} range={span?.wrong ? null : span} onRange={(from, to) => go({ text, by, since: '', from, to })} />
    <Form fields={all} values={params} action="Filter" done={values => go({ text, by, ...values, ...values.since && values.since !== params.since ? { from: '', to: '' } : values.from || values.to ? { since: '' } : {} })} />
    <div class="bar">
      <label class="beside">Search <input type="search" value={text} size={24} placeholder="words, in what is shown" autocomplete="off" onInput={e => { search(e.currentTarget.value); remember({ text: e.currentTarget.value }); }} /></label>
      <label class="beside">Group by <select value={by} onChange={e => { group(e.currentTarget.value); remember({ by: e.currentTarget.value }); }}>
        <option value="">nothing</option>{groupings.map(g => <option key={g.by} value={g.by}>{g.title}</option>)}</select></label>
      <Chips params={params} go={p => go({ text, by, ...p })} />
      <span class="dim" role="status">{rows && `${count(rows.length)}${rows.length !== found!.items.length ? ` of ${count(found!.items.length)}` : ''} shown`}</span>
    </div>
    {span && (span.wrong || found) && <p class="note" role="status">{span.wrong ? `${span.wrong} is no time. Times look like 2026-01-31T15:04:05Z.`
      : <>{count(found!.items.length)} requests began from {moment(new Date(span.from).toISOString())} to {moment(new Date(span.to).toISOString())}. {found!.further} <a href={hash('requests', { ...params, text, by, from: '', to: '' })}>Of any time</a></>}</p>}
    {grouping ? <Groups key={by} of={grouping} rows={rows} params={params} text={text} />
      : <Table long caption="Requests" columns={columns} rows={rows} keyOf={r => r.metadata.name} empty="No such request is kept." />}
    {found?.more && pages < mostPages && <button type="button" onClick={() => more(pages + 1)}>Older ones</button>}</>;
}

// Chips are what is chosen; each takes itself away.
function Chips({ params, go }: { params: Params; go(p: Params): void }) {
  return <>{all.filter(f => params[f.name]).map(f => <button key={f.name} type="button" class="chip" title="Take away" onClick={() => go({ [f.name]: '' })}>
    {f.label}: <b>{f.show?.(params[f.name]!) ?? params[f.name]}</b> <span aria-hidden="true">×</span></button>)}</>;
}

interface Group { name: string; first: Request; requests: number; failed: number; p50: number; p99: number; sum: number; bytes: number }

// grouped counts requests; those that stand for others count as many.
function grouped(rows: Request[] | undefined, of: (r: Request) => string): Group[] | undefined {
  const members = new Map<string, Request[]>();
  for (const r of rows ?? []) {
    const known = members.get(of(r));
    if (known) known.push(r); else members.set(of(r), [r]);
  }
  return rows && [...members].map(([name, all]) => {
    const weight = (some: Request[]) => some.reduce((n, r) => n + r.weight, 0), times = all.filter(r => r.verb !== 'watch').map(r => ms(r.duration)).sort((a, b) => a - b);
    const quantile = (q: number) => times[Math.min(times.length - 1, Math.floor(q * times.length))] ?? 0;
    return { name, first: all[0]!, requests: weight(all), failed: weight(all.filter(r => r.code >= 400)), p50: quantile(0.5), p99: quantile(0.99), sum: times.reduce((a, b) => a + b, 0), bytes: all.reduce((n, r) => n + r.weight * (r.responseBytes ?? 0), 0) };
  });
}

function Groups({ of, rows, params, text }: { of: Grouping; rows: Request[] | undefined; params: Params; text: string }) {
  const groups = useMemo(() => grouped(rows, of.of), [rows, of]);
  const columns = useMemo((): Column<Group>[] => [
    { name: of.title.toLowerCase(), of: g => g.name, cell: g => <a href={hash('requests', { ...params, text, ...of.choose(g.first), by: '' })}>{g.name || '(none)'}</a> },
    { name: 'requests', of: g => g.requests, number: true, show: count, about: 'Samples of reads count for those that they stand for' },
    { name: 'refused or failed', of: g => g.failed, number: true, show: count, class: g => g.failed > 0 && 'bad' }, { name: 'p50', of: g => g.p50, number: true, show: time }, { name: 'p99', of: g => g.p99, number: true, show: time },
    { name: 'time in all', of: g => g.sum, number: true, show: time, about: 'Of the requests that are kept' }, { name: 'answered', of: g => g.bytes, number: true, show: bytes },
  ], [of, params, text]);
  return <Table caption={`Requests by ${of.title.toLowerCase()}`} columns={columns} rows={groups} keyOf={g => g.name} sort={1} empty="No such request is kept." />;
}
