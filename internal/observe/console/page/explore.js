// The objects of the API: the kinds, and a list of one kind.

import { denied, follow, list, objects } from './api.js';
import { ago, copied, count, el, every, hash, link, quoted, table } from './dom.js';
import { kindOf, kinds } from './kinds.js';

const page = 100;   // objects of a page
const most = 500;   // rows that a page may grow to while it is open

export function explore(main, params, signal) {
  return params.resource ? ofKind(main, params, signal) : all(main, signal);
}

// all shows the kinds by group, with the number of objects of those that the server holds in memory.
function all(main, signal) {
  const filter = el('input', { type: 'search', 'aria-label': 'Filter kinds', placeholder: 'Filter kinds', autocomplete: 'off', oninput: () => draw() }), node = el('div', { class: 'groups' });
  main.append(el('h1', {}, 'Explore'), el('p', { class: 'about' }, 'The kinds of objects that the server has, by API group. The numbers are of objects in memory; kinds without one have not been read since the server started, or you may not read views. ',
    el('kbd', {}, 'Ctrl'), ' ', el('kbd', {}, 'K'), ' searches everything.'), el('p', {}, filter), node);
  let known = [], counts = new Map(), before = '';
  const draw = () => {
    const wanted = filter.value.trim().toLowerCase(), groups = new Map();
    for (const k of known) if ([k.id, k.kind, ...k.short].some(t => t.toLowerCase().includes(wanted))) groups.set(k.group, [...groups.get(k.group) ?? [], k]);
    const state = JSON.stringify([wanted, [...groups.values()], [...counts]]);
    if (state === before) return;
    before = state;
    const focused = node.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    node.replaceChildren(...[...groups].map(([group, members]) => el('section', {}, el('h2', {}, group || 'core'), el('ul', { class: 'kinds' },
      members.sort((a, b) => a.kind.localeCompare(b.kind)).map(k => el('li', {}, link(hash('explore', { group: k.group, resource: k.resource }), k.kind), counts.has(k.id) ? el('span', { class: 'dim n' }, count(counts.get(k.id))) : null))))));
    if (!groups.size) node.append(el('p', { class: 'dim' }, 'No kind is called that.'));
    if (focused) [...node.querySelectorAll('[data-key]')].find(n => n.dataset.key === focused)?.focus();
  };
  return async () => {
    known = await kinds(signal);
    try {
      counts = new Map((await list('views', { limit: 500 }, signal)).items.filter(v => v.loaded).map(v => [v.metadata.name, v.objects]));
    } catch (e) { if (!denied(e)) throw e; }
    draw();
  };
}

// ofKind shows objects of one kind as kubectl does: the server makes the columns.
function ofKind(main, params, signal) {
  const chosen = { group: params.group, resource: params.resource };
  const head = el('p', { class: 'about' }), note = el('p', { class: 'note', role: 'status', hidden: true }), place = el('div'), state = el('p', { class: 'dim', role: 'status' });
  const names = el('datalist', { id: 'namespaces' }), within = el('input', { name: 'namespace', value: params.namespace ?? '', list: 'namespaces', placeholder: 'all', autocomplete: 'off', size: 16 });
  const labels = el('input', { name: 'labels', value: params.labels ?? '', placeholder: 'app=web', autocomplete: 'off', size: 16 });
  const text = el('input', { name: 'filter', type: 'search', placeholder: 'in what is shown', autocomplete: 'off', size: 16, oninput: () => rows.draw() });
  const inNamespace = el('label', { hidden: true }, 'Namespace', within);
  const next = el('button', { type: 'button', hidden: true, onclick: () => { from.push(rows.more); restart(); } }, 'Next page');
  const back = el('button', { type: 'button', hidden: true, onclick: () => { from.pop(); restart(); } }, 'Page before');
  const title = params.group ? `${params.resource}.${params.group}` : params.resource;
  main.append(el('h1', {}, title), head, el('form', { onsubmit: e => {
    e.preventDefault();
    location.hash = hash('explore', { ...chosen, namespace: within.value.trim(), labels: labels.value.trim() });
  } }, inNamespace, el('label', {}, 'Labels', labels), el('button', {}, 'Show'), el('label', {}, 'Filter', text)), names, note, place, state, back, ' ', next);

  const from = [''], rows = listing(chosen, place, state, text);
  let kind, watching = false, loaded = false, narrowed = false, controller = null;
  const restart = () => { loaded = false; controller?.abort(); update().catch(() => {}); }; // the next refresh says why
  const named = every(30_000, () => namespaces(names, signal));

  async function read() {
    const query = { as: 'table', namespace: kind.namespaced ? params.namespace : '', labelSelector: params.labels, limit: page, continue: from.at(-1) };
    if (!narrowed) {
      try { return await objects(kind, query, signal); } catch (e) {
        if (!denied(e)) throw e;
        // Whoever may not list all may be told what there is to see for them, where the server knows how.
        let some;
        try { some = await objects(kind, { ...query, visible: 'true' }, signal); } catch (again) { throw denied(again) ? e : again; }
        narrowed = true;
        note.textContent = `You see only those that you may list: ${e.message}`;
        note.hidden = false;
        return some;
      }
    }
    return objects(kind, { ...query, visible: 'true' }, signal);
  }

  async function watch(resourceVersion) {
    const end = new AbortController();
    controller = end;
    watching = true;
    await follow(kind, { as: 'table', namespace: kind.namespaced ? params.namespace : '', labelSelector: params.labels, resourceVersion, visible: narrowed ? 'true' : '' },
      e => rows.event(e), AbortSignal.any([signal, end.signal]));
    watching = false;
    if (controller === end) loaded = false; // the next refresh lists again
  }

  const update = async () => {
    kind ??= await kindOf(chosen, signal);
    if (!kind) { state.textContent = 'The server has no such kind that can be listed.'; return; }
    head.replaceChildren(`${kind.kind}, ${kind.group ? kind.group + '/' : ''}${kind.version} `, copied('Copy as kubectl', kubectl(kind, params)));
    inNamespace.hidden = !kind.namespaced;
    if (kind.namespaced) named().catch(() => {}); // without names the field is filled by hand
    if (loaded) { rows.draw(); return; }
    let first;
    try { first = await read(); } catch (e) {
      if (from.length < 2 || !e.message.startsWith('410:')) throw e;
      from.length = 1; // the pages are of a moment that the server has forgotten
      first = await read();
    }
    rows.set(first, kind.namespaced && !params.namespace);
    loaded = true;
    next.hidden = !rows.more;
    back.hidden = from.length < 2;
    if (kind.watched) watch(first.metadata?.resourceVersion); else loaded = false;
  };
  return update;
}

// kubectl is the command that shows the same.
export function kubectl(kind, { namespace, labels }) {
  return ['kubectl', 'get', kind.id, ...(kind.namespaced ? namespace ? ['-n', quoted(namespace)] : ['--all-namespaces'] : []), ...(labels ? ['-l', quoted(labels)] : [])].join(' ');
}

async function namespaces(names, signal) {
  const kind = { group: '', version: 'v1', resource: 'namespaces' };
  let found;
  try { found = await objects(kind, { as: 'names', limit: most }, signal); } catch (e) {
    if (!denied(e)) throw e;
    found = await objects(kind, { as: 'names', limit: most, visible: 'true' }, signal);
  }
  names.replaceChildren(...found.items.map(n => el('option', { value: n.metadata.name })));
}

// listing holds the rows of a server-side table, and shows them.
function listing(chosen, place, state, text) {
  let shown, held = new Map(), columns = [], unseen = 0, due;
  const id = row => row.object?.metadata?.uid ?? JSON.stringify(row.cells);
  const self = { more: '',
    set(answer, spread) {
      held = new Map((answer.rows ?? []).map(r => [id(r), r]));
      self.more = answer.metadata?.continue ?? '';
      unseen = 0;
      if (JSON.stringify(columns) !== JSON.stringify(answer.columnDefinitions)) {
        columns = answer.columnDefinitions ?? [];
        shown = table('Objects', columnsOf(columns, chosen, spread), { empty: 'There are none.' });
        place.replaceChildren(shown.node);
      }
      self.draw();
    },
    event({ type, object }) {
      if (type === 'BOOKMARK' || type === 'ERROR') return;
      for (const row of object.rows ?? []) {
        const key = id(row);
        if (type === 'DELETED') held.delete(key);
        else if (held.has(key) || !self.more && held.size < most) held.set(key, row);
        else if (type === 'ADDED') unseen++;
      }
      due ??= setTimeout(() => { due = undefined; if (!document.body.classList.contains('paused')) self.draw(); }, 200);
    },
    draw() {
      if (!shown) return;
      const wanted = text.value.trim().toLowerCase();
      const rows = [...held.values()].filter(r => !wanted || r.cells.some(c => String(c).toLowerCase().includes(wanted)) || (r.object?.metadata?.namespace ?? '').includes(wanted));
      // Ages go on, so rows are drawn anew each time; the table keeps the focus, and what somebody selects.
      shown.set(rows);
      state.textContent = `${count(rows.length)}${wanted ? ` of ${count(held.size)}` : ''} shown${self.more ? ', there are more' : ''}${unseen ? `, ${count(unseen)} new ones are on other pages` : ''}.`;
    } };
  return self;
}

// columnsOf are those that kubectl shows without -o wide.
function columnsOf(definitions, chosen, spread) {
  const at = definitions.map((d, n) => [d, n]).filter(([d]) => !d.priority);
  const out = at.map(([d, n]) => {
    const meta = row => row.object?.metadata ?? {};
    if (d.name === 'Name' || d.format === 'name') {
      return { name: d.name, about: d.description, of: r => String(r.cells[n] ?? ''), cell: r => link(hash('object', { ...chosen, namespace: meta(r).namespace, name: meta(r).name ?? r.cells[n] }), r.cells[n]) };
    }
    if (d.name === 'Age') return { name: d.name, number: true, about: d.description, of: r => Date.now() - Date.parse(meta(r).creationTimestamp ?? 0), cell: r => meta(r).creationTimestamp ? ago(meta(r).creationTimestamp) : String(r.cells[n] ?? '') };
    if (d.type === 'integer' || d.type === 'number') return { name: d.name, number: true, about: d.description, of: r => Number(r.cells[n] ?? 0), show: String };
    return { name: d.name, about: d.description, of: r => String(r.cells[n] ?? ''), class: r => /^(Error|Failed|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|Terminating|NotReady|Lost)$/.test(r.cells[n]) && 'bad' };
  });
  if (spread) out.unshift({ name: 'Namespace', of: r => r.object?.metadata?.namespace ?? '', cell: r => { const ns = r.object?.metadata?.namespace ?? ''; return link(hash('explore', { ...chosen, namespace: ns }), ns); } });
  return out;
}
