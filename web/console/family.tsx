// The owners and dependents of an object, as a graph and a list.

import { useRef, useState } from 'preact/hooks';
import { absent, Forgotten, names, object as readObject, Refused } from './api.ts';
import { cut, named, objectHash } from './format.ts';
import { kinds, referred, type Kind } from './kinds.ts';
import type { Obj } from './meta.ts';
import { usePolled } from './view.ts';

// Bounds of what is read: objects of a kind, kinds when all are looked into, and objects that are shown.
const perKind = 500, mostKinds = 80, mostShown = 60, mostLevels = 4;

// made are the kinds whose objects the built-in controllers make for those of others. Others are found by looking in all kinds.
const made: { [id: string]: string[] } = { 'deployments.apps': ['replicasets.apps'], 'replicasets.apps': ['pods'], 'statefulsets.apps': ['pods', 'controllerrevisions.apps'], 'daemonsets.apps': ['pods', 'controllerrevisions.apps'],
  'cronjobs.batch': ['jobs.batch'], 'jobs.batch': ['pods'], replicationcontrollers: ['pods'], services: ['endpointslices.discovery.k8s.io', 'endpoints'] };

// Relative is an owner or a dependent; level says how far away.
interface Relative { kind: Kind | undefined; label: string; name: string; namespace?: string; uid: string; level: number; of: string; gone?: boolean; self?: boolean }

interface Known { owners: Relative[]; children: Relative[]; looked: Kind[]; at: Date; notes: string[] }

// Family shows the relatives of an object, looked for anew once in a while: among the kinds that are made for it, or among all if somebody wants that.
export function Family({ kind, object }: { kind: Kind; object: Obj }) {
  const [asked, ask] = useState(0), [busy, work] = useState(false), latest = useRef(object);
  latest.current = object;
  const known = usePolled(async signal => {
    try { return await look(kind, latest.current, asked > 0, signal); } finally { work(false); }
  }, [object.metadata.uid, asked], asked ? 0 : 15_000); // all kinds are looked in once
  const before = useRef<Known | undefined>(undefined);
  if (known) before.current = known;
  const k = known ?? before.current;
  if (!k) return null;
  const where = k.looked.length ? `Dependents were looked for at ${k.at.toTimeString().slice(0, 8)} among ${k.looked.length > 6 ? `${k.looked.length} kinds` : k.looked.map(k => k.resource).join(', ')}, the first ${perKind} objects of each.`
    : 'No controller of Kubernetes makes objects for this kind.';
  return <section aria-label="Owners and dependents"><h2>Owners and dependents</h2>
    {k.owners.length || k.children.length ? <Graph owners={k.owners} kind={kind} object={object} children={k.children} /> : <p class="dim">It has no owner, and no dependents were found.</p>}
    <p class="dim">{where} <button type="button" disabled={busy} onClick={() => { work(true); ask(asked + 1); }}>{busy ? 'Looking…' : asked ? 'Look again' : 'Look in all kinds'}</button></p>
    {[...new Set(k.notes)].slice(0, 4).map(n => <p key={n} class="dim">{n}</p>)}</section>;
}

async function look(kind: Kind, object: Obj, everywhere: boolean, signal: AbortSignal): Promise<Known> {
  const all = await kinds(signal), notes: string[] = [];
  const owners = await above(object, all, signal, notes);
  const looked = everywhere ? all.filter(k => k.namespaced || !kind.namespaced).slice(0, mostKinds) : below(kind, all);
  return { owners, children: await dependents(looked, object, signal, notes), looked, at: new Date(), notes };
}

// below are the kinds of what is made for an object, and for that.
function below(kind: Kind, all: Kind[]): Kind[] {
  const ids = new Set<string>(), next = [kind.id];
  for (let id = next.pop(); id !== undefined; id = next.pop()) {
    for (const child of made[id] ?? []) if (!ids.has(child)) { ids.add(child); next.push(child); }
  }
  return all.filter(k => ids.has(k.id));
}

// above are the owners of an object and theirs, one level after another.
async function above(object: Obj, all: Kind[], signal: AbortSignal, notes: string[]): Promise<Relative[]> {
  const out: Relative[] = [], seen = new Set([object.metadata.uid]);
  let level = [object];
  for (let n = 1; n <= mostLevels && level.length; n++) {
    const next: Obj[] = [];
    for (const o of level) {
      for (const ref of o.metadata.ownerReferences ?? []) {
        if (seen.has(ref.uid) || out.length >= mostShown) continue;
        seen.add(ref.uid);
        const kind = referred(all, ref.apiVersion, ref.kind), namespace = kind?.namespaced ? object.metadata.namespace : '';
        const owner: Relative = { kind, name: ref.name, namespace, label: ref.kind, level: n, of: o.metadata.uid ?? '', uid: ref.uid };
        out.push(owner);
        if (!kind) continue;
        try {
          const found = await readObject(kind, { namespace, name: ref.name }, signal);
          if (found.metadata.uid === ref.uid) next.push(found); else owner.gone = true;
        } catch (e) {
          if (e instanceof Forgotten) owner.gone = true; else if (e instanceof Refused) notes.push(e.message); else throw e;
        }
      }
    }
    level = next;
  }
  return out;
}

async function dependents(wanted: Kind[], object: Obj, signal: AbortSignal, notes: string[]): Promise<Relative[]> {
  const all: (Relative & { owners: string[] })[] = [];
  await inTurns(wanted, 4, async k => {
    try {
      const found = await names(k, { namespace: k.namespaced ? object.metadata.namespace : '', limit: perKind }, signal);
      for (const { metadata: m } of found.items) {
        if (m.ownerReferences?.length) all.push({ kind: k, label: k.kind, name: m.name, namespace: m.namespace, uid: m.uid ?? '', level: 0, of: '', owners: m.ownerReferences.map(r => r.uid) });
      }
      if (found.metadata.continue) notes.push(`There are more than ${perKind} ${k.resource}; dependents among the others are not shown.`);
    } catch (e) {
      if (e instanceof Refused) notes.push(e.message); else if (!absent(e)) throw e;
    }
  });
  all.sort((a, b) => a.name.localeCompare(b.name));
  const out: Relative[] = [];
  let level = [object.metadata.uid];
  for (let n = 1; n <= mostLevels && level.length; n++) {
    const next: string[] = [];
    for (const o of all) {
      const of = o.owners.find(uid => level.includes(uid));
      if (of === undefined || o.level) continue;
      o.level = n;
      o.of = of;
      next.push(o.uid);
      if (out.length < mostShown) out.push(o);
    }
    if (out.length >= mostShown) { notes.push(`The first ${mostShown} dependents are shown.`); break; }
    level = next;
  }
  return out;
}

async function inTurns<T>(all: T[], width: number, f: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  await Promise.all(Array.from({ length: width }, async () => { for (let one = left.shift(); one !== undefined; one = left.shift()) await f(one); }));
}

const row = 26, width = 720;

// Graph draws owners above the object and dependents below it, with a line from each to whose it is.
function Graph({ owners, kind, object, children }: { owners: Relative[]; kind: Kind; object: Obj; children: Relative[] }) {
  const { name, namespace, uid = '' } = object.metadata, top = Math.max(0, ...owners.map(o => o.level));
  const rows: (Relative & { depth: number })[] = owners.toSorted((a, b) => b.level - a.level).map(o => ({ ...o, depth: top - o.level }));
  const tree = (n: Relative, depth: number) => { // dependents stand below whose they are
    rows.push({ ...n, depth });
    for (const c of children) if (c.of === n.uid) tree(c, depth + 1);
  };
  tree({ kind, label: kind.kind, name, namespace, uid, level: 0, of: '', self: true }, top);
  const at = new Map(rows.map((r, n) => [r.uid, n])), x = (n: number) => rows[n]!.depth * 26 + 8, y = (n: number) => n * row + 14;
  const edges = [...owners.map(o => [at.get(o.uid), at.get(o.of)]), ...children.map(c => [at.get(c.of), at.get(c.uid)])].filter((e): e is [number, number] => e[0] !== undefined && e[1] !== undefined);
  return <div class="graph" tabIndex={0} role="region" aria-label="Graph"><svg viewBox={`0 0 ${width} ${rows.length * row + 4}`} width={width} aria-label="Owners above, dependents below" role="group">
    {edges.map(([a, b]) => <path key={`${a} ${b}`} class="edge" d={`M${x(a)},${y(a)} V${y(b)} H${x(b)}`} />)}
    {rows.map((r, n) => {
      const words = <><circle class={r.self ? 'bar2' : r.gone ? 'bad' : 'bar'} cx={x(n)} cy={y(n)} r={5} />
        <text x={x(n) + 12} y={y(n) + 4} font-weight={r.self ? 'bold' : undefined}>{cut(`${r.label} ${r.name}${r.gone ? ' (does not exist)' : ''}`, 70)}<title>{`${r.label} ${named(r.namespace, r.name)}`}</title></text></>;
      return r.self || !r.kind ? <g key={r.uid}>{words}</g> : <a key={r.uid} href={objectHash({ group: r.kind.group, resource: r.kind.resource, namespace: r.namespace, name: r.name })}>{words}</a>;
    })}</svg></div>;
}
