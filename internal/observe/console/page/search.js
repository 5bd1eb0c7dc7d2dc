// Search over pages, kinds, namespaces, findings and names of objects.

import { Refused, SignedOut, list, objects } from './api.js';
import { el, hash } from './dom.js';
import { called, kinds } from './kinds.js';

// Bounds: objects of a kind whose names are read, results that are shown, how long what was read is good for.
const perKind = 500, mostShown = 40, keep = 30_000;

// common are the kinds whose objects are searched without being named.
const common = ['pods', 'deployments.apps', 'statefulsets.apps', 'daemonsets.apps', 'jobs.batch', 'cronjobs.batch', 'services', 'ingresses.networking.k8s.io', 'configmaps', 'secrets', 'serviceaccounts',
  'persistentvolumeclaims', 'nodes', 'customresourcedefinitions.apiextensions.k8s.io', 'planes.planes.kanzen.io'];

let read = new Map(); // what was read, by its source: {at, items}

// forgetRead is for another user, who may see other things.
export function forgetRead() { read = new Map(); }

// search makes the dialog. It returns a func that opens it.
export function search(pages) {
  const input = el('input', { type: 'text', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'results', 'aria-autocomplete': 'list', 'aria-label': 'Search', autocomplete: 'off', spellcheck: 'false',
    placeholder: 'A page, kind, namespace, finding or object; pods web searches one kind' });
  const results = el('ul', { id: 'results', role: 'listbox', 'aria-label': 'Results' }), status = el('p', { class: 'dim', role: 'status' });
  const dialog = el('dialog', { class: 'search', 'aria-label': 'Search' }, input, results, status);
  document.body.append(dialog);
  let end = new AbortController(), chosen = 0, moved = false, shown = [], due, back = null;

  const go = n => {
    const hit = shown[n];
    if (!hit) return;
    dialog.close();
    location.hash = hit.href;
  };
  const mark = n => {
    chosen = shown.length ? (n + shown.length) % shown.length : 0;
    [...results.children].forEach((li, at) => li.setAttribute('aria-selected', String(at === chosen)));
    const at = results.children[chosen];
    if (at) { input.setAttribute('aria-activedescendant', at.id); at.scrollIntoView({ block: 'nearest' }); } else input.removeAttribute('aria-activedescendant');
  };
  const draw = () => {
    const was = moved ? shown[chosen]?.href : undefined; // the best stays chosen until somebody chooses another
    shown = found(input.value, pages);
    results.replaceChildren(...shown.map((hit, n) => el('li', { role: 'option', id: `result-${n}`, onclick: () => go(n) }, el('span', { class: 'dim kind' }, hit.kind), ' ', el('b', {}, hit.label), hit.detail ? el('span', { class: 'dim' }, ' ' + hit.detail) : null)));
    mark(Math.max(0, shown.findIndex(hit => hit.href === was)));
    status.textContent = said(input.value);
  };
  input.addEventListener('input', () => {
    moved = false;
    draw();
    clearTimeout(due);
    due = setTimeout(() => gather(input.value, end.signal, draw).catch(e => { status.textContent = e instanceof SignedOut ? 'You are signed out.' : e.message; }), 120);
  });
  dialog.addEventListener('keydown', e => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[e.key];
    if (step) { e.preventDefault(); moved = true; mark(Math.abs(step) === 1 ? chosen + step : Math.min(Math.max(chosen + step, 0), shown.length - 1)); } else if (e.key === 'Enter') { e.preventDefault(); go(chosen); }
    e.stopPropagation();
  });
  dialog.addEventListener('close', () => { end.abort(); clearTimeout(due); back?.focus?.(); });
  dialog.addEventListener('click', e => { if (e.target === dialog) dialog.close(); });
  return () => {
    if (dialog.open) return;
    back = document.activeElement;
    end = new AbortController();
    input.value = '';
    moved = false;
    draw();
    dialog.showModal();
    gather('', end.signal, draw).catch(() => {}); // what is missing is said once something is sought
  };
}

// sources are what there is to read: each yields hits.
async function once(name, signal, load) {
  const old = read.get(name);
  if (old && Date.now() - old.at < keep) return;
  let next;
  try { next = { at: Date.now(), items: await load(signal) }; } catch (e) {
    if (!(e instanceof Refused)) throw e;
    next = { at: Date.now(), items: [], refused: true };
  }
  read.set(name, next);
}

// gather reads what a query may find, and calls told whenever there is more.
async function gather(query, signal, told) {
  const first = [
    once('kinds', signal, async s => (await kinds(s)).map(k => ({ kind: 'Kind', label: k.kind, detail: k.id, href: hash('explore', { group: k.group, resource: k.resource }), words: [k.kind, k.resource, k.singular, ...k.short], of: k }))),
    once('namespaces', signal, async s => (await names({ group: '', version: 'v1', resource: 'namespaces', kind: 'Namespace' }, s)).map(o => ({ kind: 'Namespace', label: o.metadata.name, href: hash('object', { resource: 'namespaces', name: o.metadata.name }), words: [o.metadata.name] }))),
    once('findings', signal, async s => (await list('findings', { limit: 200 }, s)).items.map(f => ({ kind: 'Finding', label: f.summary, detail: f.severity, href: hash('overview', { finding: f.metadata.name }), words: f.summary.split(/\s+/), whole: f.summary }))),
  ];
  await Promise.all(first.map(p => p.then(told)));
  if (query.trim().length < 2) return;
  const all = (read.get('kinds')?.items ?? []).map(k => k.of), { kind } = parsed(query, all), left = kind ? [kind] : all.filter(k => common.includes(k.id));
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let k = left.shift(); k && !signal.aborted; k = left.shift()) {
      const of = k;
      await once('of ' + of.id, signal, async s => (await names(of, s)).map(o => ({ kind: of.kind, label: o.metadata.name, detail: o.metadata.namespace ?? '', words: [o.metadata.name], id: of.id,
        href: hash('object', { group: of.group, resource: of.resource, namespace: o.metadata.namespace, name: o.metadata.name }) })));
      told();
    }
  }));
}

async function names(kind, signal) {
  try { return (await objects(kind, { as: 'names', limit: perKind }, signal)).items ?? []; } catch (e) {
    if (!(e instanceof Refused)) throw e;
    return (await objects(kind, { as: 'names', limit: perKind, visible: 'true' }, signal)).items ?? [];
  }
}

// parsed takes a query apart: "pods web" and "pods/web" name a kind.
function parsed(query, all) {
  const m = query.trim().match(/^([^\s/]+)(?:\s+|\/)(.*)$/), kind = m && all.find(k => called(k, m[1]));
  return kind ? { kind, rest: m[2] } : { kind: null, rest: query.trim() };
}

// found returns the hits for a query, the best first.
function found(query, pages) {
  const known = read.get('kinds')?.items ?? [], { kind, rest } = parsed(query, known.map(k => k.of)), wanted = rest.toLowerCase();
  const page = ([name, title]) => ({ kind: 'Page', label: title, href: `#/${name}`, words: title.split(' ') });
  const base = pages().map(page);
  if (!query.trim()) return base.slice(0, mostShown);
  const general = kind ? [] : [...base, ...known, ...(read.get('namespaces')?.items ?? []), ...(read.get('findings')?.items ?? [])];
  const named = [...read].filter(([name]) => kind ? name === 'of ' + kind.id : name.startsWith('of ')).flatMap(([, r]) => r.items);
  const hits = [];
  if (kind) hits.push([-1, { kind: 'Kind', label: kind.kind, detail: kind.id, href: hash('explore', { group: kind.group, resource: kind.resource }) }]);
  for (const hit of [...general, ...named]) {
    const at = score(hit, wanted);
    if (at >= 0) hits.push([at, hit]);
  }
  const seen = new Set();
  return hits.sort((a, b) => a[0] - b[0]).map(([, hit]) => hit).filter(hit => !seen.has(hit.href) && seen.add(hit.href)).slice(0, mostShown);
}

// score is how well a hit fits: 0 is best, -1 not at all.
function score(hit, wanted) {
  const words = hit.words.map(w => w.toLowerCase());
  if (words.includes(wanted)) return 0;
  if (words.some(w => w.startsWith(wanted))) return 1;
  return [...words, (hit.whole ?? hit.label).toLowerCase()].some(w => w.includes(wanted)) ? 2 : -1;
}

// said tells where was looked, so that nobody takes what was not found for what is not there.
function said(query) {
  if (query.trim().length < 2) return 'Names of objects are searched from two letters on. Arrows choose, Enter opens, Escape closes.';
  const of = [...read].filter(([name]) => name.startsWith('of ')), told = of.filter(([, r]) => !r.refused).map(([name]) => name.slice(3).split('.')[0]), not = of.filter(([, r]) => r.refused).map(([name]) => name.slice(3).split('.')[0]);
  return `Searched: pages, kinds, namespaces, findings, and the first ${perKind} names each of ${told.join(', ') || 'nothing yet'}.${not.length ? ` You may not list ${not.join(', ')}.` : ''} Begin with another kind to search it.`;
}
