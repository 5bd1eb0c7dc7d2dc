// An object: what it is, who has written it, what it belongs to, and what was done to it.

import { Forgotten, Refused, denied, objects, read } from './api.js';
import { ago, copied, el, every, hash, link, moment, quoted, table } from './dom.js';
import { kindOf } from './kinds.js';
import { family } from './family.js';
import { differences, lines, text, writers } from './yaml.js';
import { changesOf, timeline } from './timeline.js';

const mostLines = 3000;

// secret says that the values of a kind are shown only to who asks for them.
const secret = kind => kind.group === '' && kind.resource === 'secrets';
const applied = 'kubectl.kubernetes.io/last-applied-configuration';

// masked is an object without its values.
function masked(object) {
  const hide = v => `(hidden, ${typeof v === 'string' ? v.length : JSON.stringify(v).length} characters)`;
  const all = map => map && Object.fromEntries(Object.entries(map).map(([k, v]) => [k, hide(v)]));
  const out = { ...object, metadata: { ...object.metadata } };
  if (object.data) out.data = all(object.data);
  if (object.stringData) out.stringData = all(object.stringData);
  if (object.metadata?.annotations?.[applied]) out.metadata.annotations = { ...object.metadata.annotations, [applied]: hide(object.metadata.annotations[applied]) };
  return out;
}

export function object(main, params, signal) {
  if (!params.resource || !params.name) { location.replace(hash('explore')); return async () => {}; }
  const where = { group: params.group, resource: params.resource, namespace: params.namespace, name: params.name };
  const title = `${params.resource}${params.group ? '.' + params.group : ''} ${[params.namespace, params.name].filter(Boolean).join('/')}`;
  const bar = el('p', { class: 'bar' }), facts = section('State'), relatives = section('Owners and dependents'), happened = section('Events'), yaml = section('YAML'), past = section('Changes'), done = section('What was done to it');
  main.append(el('h1', {}, params.at ? `Object ${title} as it was` : `Object ${title}`), bar, ...[facts, yaml, relatives, happened, past, done].map(s => s.node));
  let kind, now = null, shown = '', revisions = null, reveal = false;

  const drawYaml = () => {
    const hides = secret(kind) && !reveal, o = { apiVersion: '', kind: '', ...(hides ? masked(now) : now) }; // in the order in which people write them
    o.metadata = { ...o.metadata, managedFields: undefined };
    const clean = JSON.parse(JSON.stringify(o));
    yaml.fill(el('p', {}, copied('Copy YAML', () => text(clean)), ' ', secret(kind) ? el('button', { type: 'button', 'aria-pressed': String(reveal), onclick: () => { reveal = !reveal; drawYaml(); drawPast(); } }, reveal ? 'Hide values' : 'Show values') : null),
      annotated(clean, blame(now, revisions)));
  };
  const drawPast = () => { if (revisions) past.fill(changesOf(revisions, where, secret(kind) && !reveal)); };
  const readPast = async () => {
    let list;
    try { list = await objects(kind, { namespace: params.namespace, name: params.name, revisions: 'true', limit: 50 }, signal); } catch (e) {
      if (!(e instanceof Refused || e instanceof Forgotten)) throw e;
      return;
    }
    if (list.kind !== 'RevisionList') return; // the server keeps no history
    revisions = list;
    drawPast();
  };
  const pastAgain = every(5000, readPast);
  const behind = () => revisions?.items?.length > 0 && revisions.items[0].resourceVersion !== now.metadata.resourceVersion; // the history follows what is written
  const kin = every(15_000, () => family(relatives, kind, now, signal));
  const events = every(6000, () => eventsOf(happened, now, params, signal));
  const history = timeline(done, where, signal);

  return async () => {
    kind ??= await kindOf(where, signal);
    let refused = null;
    if (!kind) { facts.fill(el('p', {}, 'The server has no such kind any more.')); } else {
      bar.replaceChildren(...actions(kind, params));
      try {
        const o = await objects(kind, { namespace: params.namespace, name: params.name, at: params.at }, signal);
        if (!now || `${o.metadata.uid}/${o.metadata.resourceVersion}` !== shown) {
          now = o;
          shown = `${o.metadata.uid}/${o.metadata.resourceVersion}`;
          if (!params.at) await readPast();
          if (signal.aborted) return;
          drawYaml();
        } else if (!params.at && behind()) {
          await pastAgain();
          drawYaml();
        }
        facts.fill(...state(now));
        if (params.at) { await sinceThen(past, kind, now, params, signal); } else { await kin(); await events(); }
      } catch (e) {
        if (!(e instanceof Refused || e instanceof Forgotten)) throw e;
        refused = e;
        facts.fill(el('p', { class: e instanceof Forgotten ? 'note' : 'bad' }, e instanceof Forgotten ? now ? 'It does not exist any more. What is below is the last that was seen of it.' : 'It does not exist.' : e.message));
        if (e instanceof Forgotten) await pastAgain();
      }
    }
    if (params.at) return;
    try { await history(); } catch (e) {
      if (!denied(e)) throw e;
      done.fill(el('p', { class: 'dim' }, e.message));
      if (refused && denied(refused)) throw refused;
    }
  };
}

// section is a part of the page that is not there until it has something to show.
function section(title) {
  const body = el('div'), node = el('section', { hidden: true, 'aria-label': title }, el('h2', {}, title), body);
  return { node, fill(...content) {
    const selection = getSelection();
    if (selection && !selection.isCollapsed && body.contains(selection.anchorNode)) return; // somebody is copying
    const active = body.contains(document.activeElement) ? document.activeElement : null, key = active?.dataset.key;
    body.replaceChildren(...content.filter(Boolean));
    node.hidden = !body.childNodes.length;
    if (key !== undefined) [...body.querySelectorAll('[data-key]')].find(n => n.dataset.key === key)?.focus();
  } };
}

function actions(kind, params) {
  const command = `kubectl get ${quoted(`${kind.id}/${params.name}`)}${params.namespace ? ' -n ' + quoted(params.namespace) : ''} -o yaml`;
  const of = { group: kind.group, resource: kind.resource };
  return [link(hash('explore', { ...of, namespace: params.namespace }), `All ${kind.resource}${params.namespace ? ' in ' + params.namespace : ''}`), ' · ',
    link(hash('requests', { ...of, namespace: params.namespace, name: params.name }), 'Its requests'), params.at ? [' · ', link(hash('object', { ...params, at: '' }), 'As it is now')] : [], ' ',
    copied('Copy as kubectl', command), ' ', copied('Copy as kanzen why', `kanzen why ${quoted(`${kind.id}/${params.name}`)}${params.namespace ? ' -n ' + quoted(params.namespace) : ''}`)].flat();
}

// state is what an object says of itself, and why it does not go.
function state(o) {
  const meta = o.metadata ?? {}, conditions = Array.isArray(o.status?.conditions) ? o.status.conditions : [], out = [];
  const word = typeof o.status?.phase === 'string' ? ` Its phase is ${o.status.phase}.` : '';
  out.push(el('p', {}, `Created ${ago(meta.creationTimestamp)} ago, ${moment(meta.creationTimestamp).slice(0, 19)}Z.${word}`,
    meta.generation && o.status?.observedGeneration < meta.generation ? el('span', { class: 'bad' }, ` Its controller has seen generation ${o.status.observedGeneration} of ${meta.generation}.`) : ''));
  if (meta.deletionTimestamp) out.push(el('p', { class: 'bad' }, `It is being deleted since ${ago(meta.deletionTimestamp)}, and waits for ${[...(meta.finalizers ?? []), ...(o.spec?.finalizers ?? [])].join(', ') || 'its end'}.`));
  if (conditions.length) {
    const t = table('Conditions', [{ name: 'condition', of: c => c.type ?? '' }, { name: 'status', of: c => c.status ?? '', class: c => wrong(c) && 'bad' },
      { name: 'since', of: c => Date.parse(c.lastTransitionTime ?? 0), cell: c => c.lastTransitionTime ? el('span', { title: moment(c.lastTransitionTime) }, ago(c.lastTransitionTime)) : '' },
      { name: 'reason', of: c => c.reason ?? '' }, { name: 'message', of: c => c.message ?? '' }]);
    t.set(conditions);
    out.push(t.node);
  }
  return out;
}

// wrong says that a condition is not as it should be: False of most, True of those that name a trouble.
function wrong(c) {
  const trouble = /Pressure|Fail|Unavailable|Degraded|Stalled|Error|Invalid|Terminating|Violat|NonStructural/.test(c.type ?? '');
  return c.status === (trouble ? 'True' : 'False');
}

// blame returns who has written the value at a path: the user of the history if it is known, and the manager of the field.
function blame(o, revisions) {
  const managers = writers(o), known = new Map();
  for (const r of revisions?.items ?? []) {
    if (r.uid !== o.metadata.uid || !r.user) continue;
    for (const c of r.changes ?? []) if (!known.has(c.path)) known.set(c.path, r);
  }
  return path => {
    const m = managers.get(path), r = known.get(path);
    if (!m && !r) return null;
    const by = [m && m.manager + (m.subresource ? '/' + m.subresource : ''), r && r.user].filter(Boolean).join(', ');
    return { by, time: r?.time ?? m?.time, about: [m && `${m.manager}, ${m.operation}${m.subresource ? ' of ' + m.subresource : ''}`, r && `written by ${r.user}${r.userAgent ? ' with ' + r.userAgent : ''}`, moment(r?.time ?? m?.time)].filter(Boolean).join('\n') };
  };
}

// annotated shows lines with their writers beside them; of several lines of one writer the first names it.
function annotated(object, who) {
  const all = lines(object);
  let last = '';
  const rows = all.slice(0, mostLines).map(l => {
    const w = l.path === undefined ? null : who(l.path), by = w ? `${w.by} ${w.time ?? ''}` : '';
    const said = w && by !== last ? [el('b', {}, w.by), ` ${ago(w.time)}`] : w ? '│' : '';
    if (l.path !== undefined) last = by;
    return el('tr', {}, el('td', {}, el('code', { class: l.text.length > 400 ? 'clip' : undefined, tabindex: l.text.length > 400 ? 0 : undefined }, '  '.repeat(l.depth) + l.text)), el('td', { class: 'who', title: w?.about }, said));
  });
  return el('div', { class: 'scroll yaml', tabindex: 0, role: 'region', 'aria-label': 'YAML and who has written each line' }, el('table', {}, el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Field'), el('th', { scope: 'col', class: 'who' }, 'Last written by'))), el('tbody', {}, rows)),
    all.length > mostLines ? el('p', { class: 'dim' }, `and ${all.length - mostLines} more lines`) : null);
}

async function eventsOf(place, o, params, signal) {
  let found;
  try {
    found = await objects({ group: '', version: 'v1', resource: 'events' }, { namespace: params.namespace || 'default', fieldSelector: `involvedObject.uid=${o.metadata.uid}`, limit: 100 }, signal);
  } catch (e) {
    if (!(e instanceof Refused || e instanceof Forgotten)) throw e;
    place.fill(el('p', { class: 'dim' }, e.message));
    return;
  }
  const when = e => e.series?.lastObservedTime ?? e.lastTimestamp ?? e.eventTime ?? e.metadata.creationTimestamp;
  const items = found.items.sort((a, b) => String(when(b)).localeCompare(String(when(a))));
  if (!items.length) { place.fill(el('p', { class: 'dim' }, 'There are none.')); return; }
  const t = table('Events', [{ name: 'last', of: e => Date.parse(when(e)), cell: e => el('span', { title: moment(when(e)) }, ago(when(e))) }, { name: 'type', of: e => e.type ?? '', class: e => e.type === 'Warning' && 'bad' }, { name: 'reason', of: e => e.reason ?? '' },
    { name: 'times', of: e => e.series?.count ?? e.count ?? 1, number: true, show: String }, { name: 'from', of: e => e.reportingComponent || e.source?.component || '' }, { name: 'message', of: e => e.message ?? e.note ?? '' }]);
  t.set(items);
  place.fill(t.node);
}

// sinceThen shows the fields of an object that are other ones now than at a moment.
async function sinceThen(place, kind, then, params, signal) {
  let now;
  try { now = await objects(kind, { namespace: params.namespace, name: params.name }, signal); } catch (e) {
    if (!(e instanceof Forgotten)) throw e;
    place.fill(el('p', {}, 'It does not exist any more.'));
    return;
  }
  const bare = o => ({ ...o, metadata: { ...o.metadata, managedFields: undefined, resourceVersion: undefined } });
  const all = differences(bare(then), bare(now)).filter(([path]) => path);
  const hides = path => secret(kind) && (/^(data|stringData)(\.|$)/.test(path) || path.includes(applied));
  place.fill(el('p', { class: 'dim' }, `From resourceVersion ${then.metadata.resourceVersion} to now, ${all.length} fields have changed.`),
    el('div', { class: 'scroll' }, el('table', { 'aria-label': 'Changed since then' }, all.slice(0, 200).map(([path, a, b]) => el('tr', {}, el('td', {}, el('code', {}, path)),
      el('td', {}, hides(path) ? el('span', { class: 'dim' }, 'hidden') : [a === undefined ? '' : el('del', {}, brief(a)), ' ', b === undefined ? '' : el('ins', {}, brief(b))]))))));
}

function brief(v) { const s = JSON.stringify(v); return s.length > 400 ? s.slice(0, 400) + '…' : s; }
