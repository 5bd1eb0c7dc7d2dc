// The owners and dependents of an object, as a graph and a list.

import { Forgotten, Refused, objects } from './api.js';
import { el, hash, link, svg } from './dom.js';
import { kindNamed, kinds } from './kinds.js';

// Bounds of what is read: objects of a kind, kinds when all are looked into, and objects that are shown.
const perKind = 500, mostKinds = 80, mostShown = 60, mostLevels = 4;

// made are the kinds whose objects the built-in controllers make for those of others. Others are found by looking in all kinds.
const made = { 'deployments.apps': ['replicasets.apps'], 'replicasets.apps': ['pods'], 'statefulsets.apps': ['pods', 'controllerrevisions.apps'], 'daemonsets.apps': ['pods', 'controllerrevisions.apps'],
  'cronjobs.batch': ['jobs.batch'], 'jobs.batch': ['pods'], replicationcontrollers: ['pods'], services: ['endpointslices.discovery.k8s.io', 'endpoints'], pods: [], replicasets: [] };

const everywhere = new WeakSet(); // sections in which somebody has looked in all kinds: that is done once, and stays

// family fills a section with the relatives of an object: with all of them if somebody wants them.
export async function family(place, kind, object, signal, wants = false) {
  if (everywhere.has(place) && !wants) return;
  const all = await kinds(signal), notes = [];
  const owners = await above(object, kind, signal, notes);
  const wanted = wants ? all.filter(k => k.namespaced || !kind.namespaced).slice(0, mostKinds) : below(kind, all);
  const children = await dependents(wanted, kind, object, signal, notes);
  const again = el('button', { type: 'button', 'data-key': 'everywhere', onclick: async () => {
    everywhere.add(place);
    again.disabled = true;
    again.textContent = 'Looking…';
    try { await family(place, kind, object, signal, true); } catch { everywhere.delete(place); } // the next refresh says why
  } }, wants ? 'Look again' : 'Look in all kinds');
  const said = wanted.length ? `Dependents were looked for at ${new Date().toTimeString().slice(0, 8)} among ${wanted.length > 6 ? `${wanted.length} kinds` : wanted.map(k => k.resource).join(', ')}, the first ${perKind} objects of each.` : 'No controller of Kubernetes makes objects for this kind.';
  place.fill(owners.length || children.length ? graph(owners, { kind, object }, children) : el('p', { class: 'dim' }, 'It has no owner, and no dependents were found.'),
    el('p', { class: 'dim' }, said, ' ', again), ...[...new Set(notes)].slice(0, 4).map(n => el('p', { class: 'dim' }, n)));
}

// below are the kinds of what is made for an object, and for that.
function below(kind, all) {
  const ids = new Set(), next = [kind.id];
  while (next.length) for (const id of made[next.pop()] ?? []) if (!ids.has(id)) { ids.add(id); next.push(id); }
  return all.filter(k => ids.has(k.id));
}

// above are the owners of an object and theirs, the uppermost first, one level after another.
async function above(object, kind, signal, notes) {
  const out = [], seen = new Set([object.metadata.uid]);
  let level = [{ object, n: 0 }];
  for (let n = 1; n <= mostLevels && level.length; n++) {
    const next = [];
    for (const { object: o } of level) {
      for (const ref of o.metadata.ownerReferences ?? []) {
        if (seen.has(ref.uid) || out.length >= mostShown) continue;
        seen.add(ref.uid);
        const of = await kindNamed(ref.apiVersion, ref.kind, signal), namespace = of?.namespaced ? object.metadata.namespace : '';
        const owner = { kind: of, name: ref.name, namespace, label: ref.kind, level: n, gone: false, of: o.metadata.uid, uid: ref.uid };
        out.push(owner);
        if (!of) continue;
        try {
          const found = await objects(of, { namespace, name: ref.name }, signal);
          if (found.metadata.uid === ref.uid) next.push({ object: found }); else owner.gone = true;
        } catch (e) {
          if (e instanceof Forgotten) owner.gone = true; else if (e instanceof Refused) notes.push(e.message); else throw e;
        }
      }
    }
    level = next;
  }
  return out;
}

async function dependents(wanted, kind, object, signal, notes) {
  const all = [];
  await inTurns(wanted, 4, async k => {
    try {
      const found = await objects(k, { as: 'names', namespace: k.namespaced ? object.metadata.namespace : '', limit: perKind }, signal);
      for (const o of found.items ?? []) if (o.metadata.ownerReferences?.length) all.push({ kind: k, label: k.kind, name: o.metadata.name, namespace: o.metadata.namespace, uid: o.metadata.uid, owners: o.metadata.ownerReferences.map(r => r.uid) });
      if (found.metadata?.continue) notes.push(`There are more than ${perKind} ${k.resource}; dependents among the others are not shown.`);
    } catch (e) {
      if (e instanceof Refused) notes.push(e.message); else if (!(e instanceof Forgotten)) throw e;
    }
  });
  const out = [];
  let level = [object.metadata.uid];
  for (let n = 1; n <= mostLevels && level.length; n++) {
    const next = [];
    for (const o of all.sort((a, b) => a.name.localeCompare(b.name))) {
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

async function inTurns(all, width, f) {
  const left = [...all];
  await Promise.all(Array.from({ length: width }, async () => { while (left.length) await f(left.shift()); }));
}

// graph draws owners above the object and dependents below it, with a line from each to whose it is.
function graph(owners, self, children) {
  const me = { kind: self.kind, label: self.kind.kind, name: self.object.metadata.name, namespace: self.object.metadata.namespace, uid: self.object.metadata.uid, self: true };
  const top = Math.max(0, ...owners.map(o => o.level)), rows = [], at = new Map();
  const tree = (n, depth) => { // dependents stand below whose they are
    at.set(n.uid, rows.length);
    rows.push({ ...n, depth });
    for (const c of children.filter(c => c.of === n.uid)) tree(c, depth + 1);
  };
  for (const o of owners.toSorted((a, b) => b.level - a.level)) { at.set(o.uid, rows.length); rows.push({ ...o, depth: top - o.level }); }
  tree(me, top);
  const row = 26, x = r => r.depth * 26 + 8, y = n => n * row + 14, width = 720;
  const edges = [...owners.map(o => [at.get(o.uid), at.get(o.of)]), ...children.map(c => [at.get(c.of), at.get(c.uid)])].filter(([a, b]) => a !== undefined && b !== undefined);
  const short = t => t.length > 70 ? t.slice(0, 69) + '…' : t;
  const picture = svg('svg', { viewBox: `0 0 ${width} ${rows.length * row + 4}`, width, 'aria-label': 'Owners above, dependents below', role: 'group' },
    edges.map(([a, b]) => svg('path', { class: 'edge', d: `M${x(rows[a])},${y(a)} V${y(b)} H${x(rows[b])}` })),
    rows.map((r, n) => {
      const words = [svg('circle', { class: r.self ? 'bar2' : r.gone ? 'bad' : 'bar', cx: x(r), cy: y(n), r: 5 }), svg('text', { x: x(r) + 12, y: y(n) + 4, 'font-weight': r.self ? 'bold' : undefined }, short(`${r.label} ${r.name}${r.gone ? ' (does not exist)' : ''}`), svg('title', {}, `${r.label} ${[r.namespace, r.name].filter(Boolean).join('/')}`))];
      if (r.self || !r.kind) return svg('g', {}, words);
      const href = hash('object', { group: r.kind.group, resource: r.kind.resource, namespace: r.namespace, name: r.name });
      return svg('a', { href, 'data-key': href }, words);
    }));
  return el('div', { class: 'graph', tabindex: 0, role: 'region', 'aria-label': 'Graph' }, picture);
}
