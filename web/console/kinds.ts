// The kinds that the server has, as its discovery says.

import { discovery, type Place } from './api.ts';

export interface Kind extends Place { id: string; kind: string; namespaced: boolean; singular: string; short: string[]; watched: boolean }

const keep = 30_000;
let known: Kind[] | null = null, until = 0;

// kinds returns all kinds that can be listed, each once, in the version that its group prefers.
export async function kinds(signal?: AbortSignal): Promise<Kind[]> {
  if (known && Date.now() < until) return known;
  const found = await Promise.all((['api', 'apis'] as const).map(prefix => discovery(prefix, signal)));
  const out = new Map<string, Kind>();
  for (const group of found.flatMap(f => f.items)) {
    const name = group.metadata?.name ?? '';
    for (const version of group.versions ?? []) {
      for (const r of version.resources ?? []) {
        const id = r.resource + (name ? '.' + name : '');
        if (!r.verbs?.includes('list') || out.has(id)) continue;
        out.set(id, { id, group: name, version: version.version, resource: r.resource, kind: r.responseKind?.kind ?? r.resource, namespaced: r.scope === 'Namespaced',
          singular: r.singularResource ?? '', short: r.shortNames ?? [], watched: r.verbs.includes('watch') });
      }
    }
  }
  known = [...out.values()];
  until = Date.now() + keep;
  return known;
}

// forget makes the next look a new one: another user may see other kinds.
export function forget(): void { known = null; }

// kindOf finds a kind by its resource and group; undefined if there is none.
export async function kindOf(of: { resource?: string; group?: string }, signal?: AbortSignal): Promise<Kind | undefined> {
  return (await kinds(signal)).find(k => k.resource === of.resource && k.group === (of.group ?? ''));
}

// referred finds a kind as references name it, by apiVersion and kind.
export function referred(all: Kind[], apiVersion: string | undefined, kind: string | undefined): Kind | undefined {
  const group = apiVersion?.includes('/') ? apiVersion.split('/')[0] : '';
  return all.find(k => k.kind === kind && k.group === group);
}

// called says whether a word names a kind: its plural, singular, short name, kind, or one of them with the group.
export function called(kind: Kind, word: string): boolean {
  const [name = '', ...group] = word.toLowerCase().split('.');
  return [kind.resource, kind.singular, kind.kind.toLowerCase(), ...kind.short].includes(name) && (!group.length || kind.group.startsWith(group.join('.')));
}

// The kinds that the page itself reads.
export const namespacesKind: Place = { group: '', version: 'v1', resource: 'namespaces' };
export const eventsKind: Place = { group: '', version: 'v1', resource: 'events' };
