// One request, and its way through the server.

import { Forgotten, one } from './api.ts';
import type { Request } from './answers.gen.ts';
import { bytes, count, cut, hash, moment, ms, objectHash, quoted, resource, stepHash, time, type Params } from './format.ts';
import { Clip, Copied } from './parts.tsx';
import { Changes, target, who } from './timeline.tsx';
import { usePolled, type ViewProps } from './view.ts';

// partOf says to which part of the server a layer belongs.
const partOf: { [layer: string]: string } = { authentication: 'chain', impersonation: 'chain', authorization: 'chain', 'apf-queue-wait': 'queue', etcd: 'store',
  'transform-response-object': 'engine', 'serialize-response-object': 'engine', 'decode-response-object': 'engine', 'response-write': 'client' };

interface Visit { part: string; name: string; after: number | null; took: number; note?: string; bad?: boolean; href?: string }

// visits are what is known of where a request was, by when it came there.
function visits(r: Request): Visit[] {
  const out: Visit[] = (r.layers ?? []).filter(l => !(l.name.endsWith('-webhook') && r.steps?.length))
    .map(l => ({ part: partOf[l.name] ?? 'engine', name: l.name, after: l.after === undefined ? null : ms(l.after), took: ms(l.duration) }));
  for (const s of r.steps ?? []) {
    out.push({ part: 'admission', name: `${s.kind} ${s.name}${s.phase ? ` (${s.phase})` : ''}`, after: ms(s.after), took: ms(s.duration), bad: s.result !== 'Allowed', href: stepHash(s.kind, s.name, s.phase),
      note: [s.result !== 'Allowed' && s.result, s.reason, s.ignored && 'ignored', s.changed && 'changed the object'].filter(Boolean).join(', ') });
  }
  return out.sort((a, b) => (a.after ?? Infinity) - (b.after ?? Infinity) || b.took - a.took);
}

// gaps are when a request was in no part of the server that is measured: its body came, or something else worked.
function gaps(all: Visit[], total: number): { from: number; to: number }[] {
  const out: { from: number; to: number }[] = [];
  let at = 0;
  for (const v of all) {
    if (v.after === null) continue;
    if (v.after > at) out.push({ from: at, to: Math.min(v.after, total) });
    at = Math.max(at, v.after + v.took);
  }
  if (at < total) out.push({ from: at, to: total });
  return out.filter(g => g.to - g.from > total / 200);
}

// steps of an axis: about five, each 1, 2 or 5 of a power of ten.
function ticks(total: number): number[] {
  const rough = total / 5, unit = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map(n => n * unit).find(n => n >= rough) ?? rough;
  return Array.from({ length: Math.floor(total / step) + 1 }, (_, n) => n * step);
}

const left = 380, width = 560, row = 20, head = 18;

function Waterfall({ r }: { r: Request }) {
  const total = Math.max(ms(r.duration), 1e-6), all = visits(r), holes = gaps(all, total), x = (t: number) => left + t / total * width, bottom = (all.length + 1) * row + head;
  const missing = holes.reduce((n, g) => n + g.to - g.from, 0);
  const first: Visit = { part: 'request', name: `${r.verb} ${target(r)}`, after: 0, took: total };
  return <><div class="scroll" tabIndex={0} role="region" aria-label="Waterfall"><svg class="waterfall" viewBox={`0 0 ${left + width + 200} ${bottom + 4}`} role="group" aria-label="Where the request was, and for how long">
    {ticks(total).map(t => <g key={t}><line class="axis" x1={x(t)} x2={x(t)} y1={head - 4} y2={bottom} /><text class="tick" x={x(t)} y={10} text-anchor="middle">{time(t)}</text></g>)}
    {[first, ...all].map((v, n) => {
      const y = n * row + head, label = `${v.part}: ${v.name}`, at = x(v.after ?? 0), text = <text x={0} y={y + 14}>{cut(label, 58)}</text>;
      return <g key={n}><title>{`${label}: ${time(v.took)}${v.after === null ? '' : ` from ${time(v.after)} on`}${v.note ? ', ' + v.note : ''}`}</title>
        {v.href ? <a href={v.href}>{text}</a> : text}
        <rect class={v.bad ? 'bad' : v.part === 'admission' ? 'bar2' : v.part === 'queue' ? 'bar3' : 'bar'} x={Math.min(at, left + width - 1).toFixed(1)} y={y + 4} height={12} width={Math.max(1, Math.min(v.took / total * width, left + width - at)).toFixed(1)} />
        {!n && holes.map(g => <rect key={g.from} class="gap" x={x(g.from).toFixed(1)} y={y + 4} height={12} width={((g.to - g.from) / total * width).toFixed(1)}><title>{`In no part that is measured: ${time(g.to - g.from)} from ${time(g.from)} on`}</title></rect>)}
        <text x={left + width + 8} y={y + 14}>{time(v.took)}{v.bad && ' ' + cut(v.note ?? '', 22)}</text></g>;
    })}
  </svg></div>
  <p class="about">A bar begins where the request came there first, and is as long as the sum of its visits. What took less than 20 µs in admission is left out.
    {missing > 0 && ` For ${time(missing)} it was in no part that is measured (pale in the first bar): its body was on its way, or it was checked and changed.`}</p></>;
}

// kubectl is the command that asks the same again, where there is one: bodies of writes are not kept.
function kubectl(r: Request): string | undefined {
  const as = r.impersonated ? ['--as', quoted(r.impersonated)] : [], words = (...w: string[]) => ['kubectl', ...w, ...as].join(' ');
  if (!r.resource) return r.verb === 'get' && r.path ? words('get', '--raw', quoted(r.path)) : undefined;
  const of = quoted(r.name ? `${resource(r)}/${r.name}` : resource(r)), inNamespace = r.namespace ? ['-n', quoted(r.namespace)] : r.name ? [] : ['-A'];
  if (r.subresource === 'log' && r.name) return words('logs', quoted(r.name), ...inNamespace);
  if (r.subresource && !['status', 'scale'].includes(r.subresource)) return undefined;
  const sub = r.subresource ? ['--subresource', r.subresource] : [];
  switch (r.verb) {
    case 'get': return words('get', of, ...inNamespace, ...sub, '-o', 'yaml');
    case 'list': return words('get', of, ...inNamespace);
    case 'watch': return words('get', of, ...inNamespace, '--watch');
    case 'delete': return r.dryRun ? words('delete', of, ...inNamespace, '--dry-run=server') : undefined; // nobody deletes by pasting
  }
  return undefined;
}

// alike are links to requests that have something in common with one.
function alike(r: Request): [string, Params][] {
  const of = r.resource ? { resource: r.resource, group: r.group } : { text: r.path };
  return [
    [`${r.verb} of ${r.resource ? resource(r) : r.path}`, { verb: r.resource ? r.verb : '', ...of }], [`that end with ${r.code}`, { verb: r.resource ? r.verb : '', ...of, code: String(r.code) }],
    [`by ${r.impersonated || r.user}`, { as: r.impersonated || r.user }], ...(r.name && r.resource ? [['of this object', { ...of, namespace: r.namespace, name: r.name }] as [string, Params]] : []),
    ['at this time', { from: around(r.time, -2), to: around(r.time, 2) }],
  ];
}

const around = (text: string, seconds: number): string => new Date(Date.parse(text) + seconds * 1000).toISOString().slice(0, 19) + 'Z';

export function OneRequest({ params }: ViewProps) {
  const name = params.name ?? '';
  const told = usePolled(async signal => {
    try { return { r: await one('requests', name, signal) }; } catch (e) {
      if (!(e instanceof Forgotten)) throw e;
      return {};
    }
  }, [name], 0); // it does not change
  return <><h1>Request {name}</h1>{told && (told.r ? <Known r={told.r} /> : <p>This request is not kept any more, or never was: newer ones have taken its place. What it did to an object may still be in the history of that object. <a href={hash('requests')}>Requests that are kept</a></p>)}</>;
}

function Known({ r }: { r: Request }) {
  const facts: { [name: string]: string | undefined } = { time: moment(r.time), took: time(ms(r.duration)), answer: `${r.code} ${r.reason ?? ''}`, message: r.message, 'refused for': (r.fields ?? []).join(', '), user: who(r), client: r.userAgent, from: r.sourceIP, 'audit ID': r.auditID,
    'kept as': `${r.kept}${r.weight > 1 ? `, stands for ${r.weight}` : ''}`, bytes: `${bytes(r.requestBytes ?? 0)} sent, ${bytes(r.responseBytes ?? 0)} answered`, 'dry run': r.dryRun ? 'yes' : '' };
  const command = kubectl(r);
  return <><p class="bar"><b>{r.verb}</b> {r.resource && r.name ? <a href={objectHash(r)}>{target(r)}</a> : <Clip text={target(r)} />}
    {command && <Copied label="Copy as kubectl" text={command} />}{r.resource && r.name && <Copied label="Copy as kanzen why" text={`kanzen why ${quoted(`${resource(r)}/${r.name}`)}${r.namespace ? ' -n ' + quoted(r.namespace) : ''}`} />}</p>
  <h2>Its way</h2><Waterfall r={r} />
  <h2>Others like it</h2><p class="bar">{alike(r).map(([label, p]) => <a key={label} class="chip" href={hash('requests', p)}>{label}</a>)}</p>
  <h2>Facts</h2><table><tbody>{Object.entries(facts).filter(([, v]) => v?.trim()).map(([k, v]) => <tr key={k}><th scope="row">{k}</th><td><Clip text={v!} /></td></tr>)}</tbody></table>
  {r.changes?.length ? <><h2>What it changed</h2>{r.changes.map((c, n) => <section key={n}><p>{c.operation} <a href={objectHash(c)}>{target(c)}</a></p><Changes of={c} /></section>)}</> : null}
  {r.moreChanges ? <p class="dim">and {count(r.moreChanges)} more</p> : null}</>;
}
