// The objects of the API: the kinds, and a list of one kind.

import { useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { denied, follow, list, names, rows, type Which } from './api.ts';
import { ago, count, hash, objectHash, quoted, resource, type Params } from './format.ts';
import { kindOf, kinds, namespacesKind, type Kind } from './kinds.ts';
import type { ColumnDefinition, ObjectTable, TableRow, WatchEvent } from './meta.ts';
import { Copied, Table, type Column } from './parts.tsx';
import { seldom, ShellContext, usePolled, type ViewProps } from './view.ts';

const page = 100; // objects of a page
const most = 500; // rows that a page may grow to while it is open

export function Explore({ params }: ViewProps) { return params.resource ? <OfKind params={params} /> : <Kinds />; }

// Kinds shows the kinds by group, with the number of objects of those that the server holds in memory.
function Kinds() {
  const [text, filter] = useState('');
  const told = usePolled(async signal => {
    const known = await kinds(signal);
    try {
      return { known, counts: new Map((await list('views', { limit: 500 }, signal)).items.filter(v => v.loaded).map(v => [v.metadata.name, v.objects])) };
    } catch (e) {
      if (!denied(e)) throw e;
      return { known, counts: new Map<string, number>() };
    }
  }, []);
  const groups = useMemo(() => {
    const wanted = text.trim().toLowerCase(), out = new Map<string, Kind[]>();
    for (const k of told?.known ?? []) if ([k.id, k.kind, ...k.short].some(t => t.toLowerCase().includes(wanted))) out.set(k.group, [...out.get(k.group) ?? [], k]);
    return [...out].map(([group, members]) => [group, members.sort((a, b) => a.kind.localeCompare(b.kind))] as const);
  }, [told?.known, text]);
  return <><h1>Explore</h1>
    <p class="about">The kinds of objects that the server has, by API group. The numbers are of objects in memory; kinds without one have not been read since the server started, or you may not read views. <kbd>Ctrl</kbd> <kbd>K</kbd> searches everything.</p>
    <p><input type="search" aria-label="Filter kinds" placeholder="Filter kinds" autocomplete="off" onInput={e => filter(e.currentTarget.value)} /></p>
    <div class="groups">{groups.map(([group, members]) => <section key={group}><h2>{group || 'core'}</h2><ul class="kinds">
      {members.map(k => <li key={k.id}><a href={hash('explore', { group: k.group, resource: k.resource })}>{k.kind}</a>{told!.counts.has(k.id) && <span class="dim n">{count(told!.counts.get(k.id))}</span>}</li>)}</ul></section>)}
      {told && !groups.length && <p class="dim">No kind is called that.</p>}</div></>;
}

// kubectl is the command that shows the same.
function kubectl(kind: Kind, { namespace, labels }: Params): string {
  return ['kubectl', 'get', kind.id, ...(kind.namespaced ? namespace ? ['-n', quoted(namespace)] : ['--all-namespaces'] : []), ...(labels ? ['-l', quoted(labels)] : [])].join(' ');
}

// rowId names a row from one answer to the next.
const rowId = (row: TableRow): string => row.object?.metadata?.uid ?? JSON.stringify(row.cells);

// Listing reads a list of one kind and follows what becomes of it.
class Listing {
  held = new Map<string, TableRow>();
  columns: ColumnDefinition[] = [];
  more = '';
  unseen = 0; // objects that came since, and have no place on this page
  refused = ''; // why not all objects are listed
  #loaded = false;
  #from = [''];
  #watch: AbortController | null = null;

  constructor(readonly kind: Kind, private readonly which: Which, private readonly changed: () => void) {}

  get first(): boolean { return this.#from.length < 2; }

  turn(forward: boolean): void {
    if (forward) this.#from.push(this.more); else this.#from.pop();
    this.#again();
  }

  #again(): void {
    this.#loaded = false;
    this.#watch?.abort();
  }

  // load lists if there is no watch that goes on from what was listed.
  async load(signal: AbortSignal): Promise<void> {
    if (this.#loaded) return;
    let answer: ObjectTable;
    try { answer = await this.#read(signal); } catch (e) {
      if (this.first || !(e instanceof Error && e.message.startsWith('410:'))) throw e;
      this.#from = ['']; // the pages are of a moment that the server has forgotten
      answer = await this.#read(signal);
    }
    this.held = new Map((answer.rows ?? []).map(r => [rowId(r), r]));
    this.columns = answer.columnDefinitions ?? this.columns;
    this.more = answer.metadata?.continue ?? '';
    this.unseen = 0;
    if (this.kind.watched) void this.#follow(answer.metadata?.resourceVersion, signal);
  }

  async #read(signal: AbortSignal): Promise<ObjectTable> {
    const which: Which = { ...this.which, limit: page, continue: this.#from.at(-1) };
    if (this.refused) return rows(this.kind, { ...which, visible: 'true' }, signal);
    try { return await rows(this.kind, which, signal); } catch (e) {
      if (!denied(e)) throw e;
      // Whoever may not list all may be told what there is to see for them, where the server knows how.
      let some: ObjectTable;
      try { some = await rows(this.kind, { ...which, visible: 'true' }, signal); } catch (again) { throw denied(again) ? e : again; }
      this.refused = e.message;
      return some;
    }
  }

  async #follow(resourceVersion: string | undefined, signal: AbortSignal): Promise<void> {
    const end = new AbortController();
    this.#watch = end;
    this.#loaded = true;
    await follow(this.kind, { ...this.which, resourceVersion, visible: this.refused ? 'true' : '' }, e => this.#take(e), AbortSignal.any([signal, end.signal]));
    if (this.#watch === end) this.#loaded = false; // the next refresh lists again
  }

  #take({ type, object }: WatchEvent): void {
    if (type === 'BOOKMARK' || type === 'ERROR') return;
    for (const row of object.rows ?? []) {
      const id = rowId(row);
      if (type === 'DELETED') this.held.delete(id);
      else if (this.held.has(id) || !this.more && this.held.size < most) this.held.set(id, row);
      else if (type === 'ADDED') this.unseen++;
    }
    this.changed();
  }
}

// OfKind shows objects of one kind as kubectl does: the server makes the columns.
function OfKind({ params }: ViewProps) {
  const shell = useContext(ShellContext), [text, filter] = useState(''), [, redraw] = useState(0), due = useRef<ReturnType<typeof setTimeout> | undefined>(undefined), listing = useRef<Listing | undefined>(undefined), [turned, turn] = useState(0);
  const changed = () => { // events come in crowds
    due.current ??= setTimeout(() => {
      due.current = undefined;
      if (!shell.paused()) redraw(n => n + 1);
    }, 200);
  };
  useEffect(() => () => clearTimeout(due.current), []);
  const told = usePolled(async signal => {
    const kind = listing.current?.kind ?? await kindOf(params, signal);
    if (!kind) return {};
    listing.current ??= new Listing(kind, { namespace: kind.namespaced ? params.namespace : '', labelSelector: params.labels }, changed);
    try { await listing.current.load(signal); } finally { redraw(n => n + 1); } // what is known already is shown anyway
    return { kind };
  }, [turned]);
  const l = listing.current, kind = l?.kind, chosen = { group: params.group, resource: params.resource };
  const columns = useMemo(() => columnsOf(l?.columns ?? [], chosen, Boolean(kind?.namespaced && !params.namespace)), [l?.columns, kind]);
  const wanted = text.trim().toLowerCase(), all = l && (l.columns.length || told) ? [...l.held.values()] : undefined;
  const shown = all?.filter(r => !wanted || r.cells.some(c => String(c).toLowerCase().includes(wanted)) || (r.object?.metadata?.namespace ?? '').includes(wanted));
  const move = (forward: boolean) => { l!.turn(forward); turn(turned + 1); };
  return <><h1>{resource(params)}</h1>
    <p class="about">{kind && <>{kind.kind}, {kind.group ? kind.group + '/' : ''}{kind.version} <Copied label="Copy as kubectl" text={kubectl(kind, params)} /></>}</p>
    <form onSubmit={e => {
      e.preventDefault();
      const filled = new FormData(e.currentTarget);
      location.hash = hash('explore', { ...chosen, namespace: String(filled.get('namespace') ?? '').trim(), labels: String(filled.get('labels') ?? '').trim() });
    }}>
      {kind?.namespaced && <label>Namespace<input name="namespace" defaultValue={params.namespace ?? ''} list="namespaces" placeholder="all" autocomplete="off" size={16} /></label>}
      <label>Labels<input name="labels" defaultValue={params.labels ?? ''} placeholder="app=web" autocomplete="off" size={16} /></label><button>Show</button>
      <label>Filter<input name="filter" type="search" placeholder="in what is shown" autocomplete="off" size={16} onInput={e => filter(e.currentTarget.value)} /></label>
    </form>
    {kind?.namespaced && <Namespaces />}
    {l?.refused && <p class="note" role="status">You see only those that you may list: {l.refused}</p>}
    {l && <Table caption="Objects" columns={columns} rows={shown} keyOf={rowId} empty="There are none." />}
    <p class="dim" role="status">{told && !kind ? 'The server has no such kind that can be listed.'
      : shown && `${count(shown.length)}${wanted ? ` of ${count(all?.length)}` : ''} shown${l?.more ? ', there are more' : ''}${l?.unseen ? `, ${count(l.unseen)} new ones are on other pages` : ''}.`}</p>
    {l && !l.first && <button type="button" onClick={() => move(false)}>Page before</button>} {l?.more && <button type="button" onClick={() => move(true)}>Next page</button>}</>;
}

// Namespaces are what may be filled in. Without them it is done by hand.
function Namespaces() {
  const read = useRef(seldom(30_000, async () => {
    try { return await names(namespacesKind, { limit: most }); } catch (e) {
      if (!denied(e)) return undefined;
      return names(namespacesKind, { limit: most, visible: 'true' }).catch(() => undefined);
    }
  }));
  const all = usePolled(() => read.current(), []);
  return <datalist id="namespaces">{(all?.items ?? []).map(n => <option key={n.metadata.name} value={n.metadata.name} />)}</datalist>;
}

const troubled = /^(Error|Failed|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|Terminating|NotReady|Lost)$/;

// columnsOf are those that kubectl shows without -o wide.
function columnsOf(definitions: ColumnDefinition[], chosen: { group?: string; resource?: string }, spread: boolean): Column<TableRow>[] {
  const meta = (r: TableRow) => r.object?.metadata;
  const out = definitions.flatMap((d, n): Column<TableRow>[] => {
    const text = (r: TableRow) => String(r.cells[n] ?? '');
    if (d.priority) return [];
    if (d.name === 'Name' || d.format === 'name') {
      return [{ name: d.name, about: d.description, of: text, cell: r => <a href={objectHash({ ...chosen, namespace: meta(r)?.namespace, name: meta(r)?.name ?? text(r) })}>{text(r)}</a> }];
    }
    if (d.name === 'Age') return [{ name: d.name, number: true, about: d.description, of: r => Date.now() - Date.parse(meta(r)?.creationTimestamp ?? ''), cell: r => meta(r)?.creationTimestamp ? ago(meta(r)!.creationTimestamp) : text(r) }];
    if (d.type === 'integer' || d.type === 'number') return [{ name: d.name, number: true, about: d.description, of: r => Number(r.cells[n] ?? 0), show: String }];
    return [{ name: d.name, about: d.description, of: text, class: r => troubled.test(text(r)) && 'bad' }];
  });
  const namespace = (r: TableRow) => meta(r)?.namespace ?? '';
  if (spread) out.unshift({ name: 'Namespace', of: namespace, cell: r => <a href={hash('explore', { ...chosen, namespace: namespace(r) })}>{namespace(r)}</a> });
  return out;
}
