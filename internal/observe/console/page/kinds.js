// The kinds that the server has, as its discovery says.

import { read } from './api.js';

const keep = 30_000;
let known = null, until = 0;

// kinds returns all kinds that can be listed, each once, in the version that its group prefers.
export async function kinds(signal) {
  if (known && Date.now() < until) return known;
  const [core, groups] = await Promise.all(['api', 'apis'].map(prefix => read('kinds', { prefix }, signal)));
  const out = new Map();
  for (const group of [...core.items, ...groups.items]) {
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
export function forget() { known = null; }

// kindOf finds a kind by its resource and group; undefined if there is none.
export async function kindOf({ resource, group }, signal) {
  return (await kinds(signal)).find(k => k.resource === resource && k.group === (group ?? ''));
}

// kindNamed finds a kind as references name it, by apiVersion and kind.
export async function kindNamed(apiVersion, kind, signal) {
  const group = apiVersion?.includes('/') ? apiVersion.split('/')[0] : '';
  return (await kinds(signal)).find(k => k.kind === kind && k.group === group);
}

// called says whether a word names a kind: its plural, singular, short name, kind, or one of them with the group.
export function called(kind, word) {
  const [name, ...group] = word.toLowerCase().split('.');
  return [kind.resource, kind.singular, kind.kind.toLowerCase(), ...kind.short].includes(name) && (!group.length || kind.group.startsWith(group.join('.')));
}
