// What a search finds: the sources that are read, and how well each of their entries fits.

import { list, names as readNames, Refused, type Place } from './api.ts';
import { hash, objectHash } from './format.ts';
import { called, kinds, namespacesKind, type Kind } from './kinds.ts';
import type { Obj } from './meta.ts';

// Bounds: objects of a kind whose names are read, results that are shown, how long what was read is good for.
const perKind = 500, mostShown = 40, keep = 30_000;

// common are the kinds whose objects are searched without being named.
const common = ['pods', 'deployments.apps', 'statefulsets.apps', 'daemonsets.apps', 'jobs.batch', 'cronjobs.batch', 'services', 'ingresses.networking.k8s.io', 'configmaps', 'secrets', 'serviceaccounts',
  'persistentvolumeclaims', 'nodes', 'customresourcedefinitions.apiextensions.k8s.io', 'planes.planes.kanzen.io'];

export interface Hit { kind: string; label: string; detail?: string; href: string; words: string[]; whole?: string; of?: Kind }

interface Source { at: number; items: Hit[]; refused?: boolean }

let read = new Map<string, Source>(); // what was read, by its source

// forgetRead is for another user, who may see other things.
export function forgetRead(): void { read = new Map(); }

// once reads a source if it is not fresh. What is refused is remembered as such.
async function once(name: string, signal: AbortSignal, load: (signal: AbortSignal) => Promise<Hit[]>): Promise<void> {
  const old = read.get(name);
  if (old && Date.now() - old.at < keep) return;
  let next: Source;
  try { next = { at: Date.now(), items: await load(signal) }; } catch (e) {
    if (!(e instanceof Refused)) throw e;
    next = { at: Date.now(), items: [], refused: true };
  }
  read.set(name, next);
}

const items = (source: string): Hit[] => read.get(source)?.items ?? [];
const searched = () => [...read].filter(([name]) => name.startsWith('of '));

// gather reads what a query may find, and calls told whenever there is more.
export async function gather(query: string, signal: AbortSignal, told: () => void): Promise<void> {
  const first = [
    once('kinds', signal, async s => (await kinds(s)).map(k => ({ kind: 'Kind', label: k.kind, detail: k.id, href: hash('explore', { group: k.group, resource: k.resource }), words: [k.kind, k.resource, k.singular, ...k.short], of: k }))),
    once('namespaces', signal, async s => (await names(namespacesKind, s)).map(o => ({ kind: 'Namespace', label: o.metadata.name, href: objectHash({ resource: 'namespaces', name: o.metadata.name }), words: [o.metadata.name] }))),
    once('findings', signal, async s => (await list('findings', { limit: 200 }, s)).items.map(f => ({ kind: 'Finding', label: f.summary, detail: f.severity, href: hash('overview', { finding: f.metadata.name }), words: f.summary.split(/\s+/), whole: f.summary }))),
  ];
  await Promise.all(first.map(p => p.then(told)));
  if (query.trim().length < 2) return;
  const all = items('kinds').map(h => h.of!), { kind } = parsed(query, all), left = kind ? [kind] : all.filter(k => common.includes(k.id));
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let k = left.shift(); k && !signal.aborted; k = left.shift()) {
      const of = k;
      await once('of ' + of.id, signal, async s => (await names(of, s)).map(o => ({ kind: of.kind, label: o.metadata.name, detail: o.metadata.namespace ?? '', words: [o.metadata.name],
        href: objectHash({ group: of.group, resource: of.resource, namespace: o.metadata.namespace, name: o.metadata.name }) })));
      told();
    }
  }));
}

async function names(kind: Place, signal: AbortSignal): Promise<Obj[]> {
  try { return (await readNames(kind, { limit: perKind }, signal)).items; } catch (e) {
    if (!(e instanceof Refused)) throw e;
    return (await readNames(kind, { limit: perKind, visible: 'true' }, signal)).items;
  }
}

// parsed takes a query apart: "pods web" and "pods/web" name a kind.
function parsed(query: string, all: Kind[]): { kind?: Kind; rest: string } {
  const m = query.trim().match(/^([^\s/]+)(?:\s+|\/)(.*)$/), kind = m ? all.find(k => called(k, m[1]!)) : undefined;
  return kind ? { kind, rest: m![2]! } : { rest: query.trim() };
}

// found returns the hits for a query, the best first.
export function found(query: string, pages: readonly (readonly [name: string, title: string])[]): Hit[] {
  const known = items('kinds'), { kind, rest } = parsed(query, known.map(k => k.of!)), wanted = rest.toLowerCase();
  const base = pages.map(([name, title]): Hit => ({ kind: 'Page', label: title, href: `#/${name}`, words: title.split(' ') }));
  if (!query.trim()) return base.slice(0, mostShown);
  const general = kind ? [] : [...base, ...known, ...items('namespaces'), ...items('findings')];
  const named = searched().filter(([name]) => !kind || name === 'of ' + kind.id).flatMap(([, r]) => r.items);
  const hits: [number, Hit][] = kind ? [[-1, { kind: 'Kind', label: kind.kind, detail: kind.id, href: hash('explore', { group: kind.group, resource: kind.resource }), words: [] }]] : [];
  for (const hit of [...general, ...named]) {
    const at = score(hit, wanted);
    if (at >= 0) hits.push([at, hit]);
  }
  const seen = new Set<string>();
  return hits.sort((a, b) => a[0] - b[0]).map(([, hit]) => hit).filter(hit => !seen.has(hit.href) && seen.add(hit.href)).slice(0, mostShown);
}

// score is how well a hit fits: 0 is best, -1 not at all.
function score(hit: Hit, wanted: string): number {
  const words = hit.words.map(w => w.toLowerCase());
  if (words.includes(wanted)) return 0;
  if (words.some(w => w.startsWith(wanted))) return 1;
  return [...words, (hit.whole ?? hit.label).toLowerCase()].some(w => w.includes(wanted)) ? 2 : -1;
}

// said tells where was looked, so that nobody takes what was not found for what is not there.
export function said(query: string): string {
  if (query.trim().length < 2) return 'Names of objects are searched from two letters on. Arrows choose, Enter opens, Escape closes.';
  const called = (refused: boolean) => searched().filter(([, r]) => Boolean(r.refused) === refused).map(([name]) => name.slice(3).split('.')[0]).join(', ');
  return `Searched: pages, kinds, namespaces, findings, and the first ${perKind} names each of ${called(false) || 'nothing yet'}.${called(true) ? ` You may not list ${called(true)}.` : ''} Begin with another kind to search it.`;
}
