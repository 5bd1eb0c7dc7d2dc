// An object: what it is, who has written it, what it belongs to, and what was done to it.

import { useContext, useMemo, useRef, useState } from 'preact/hooks';
import { absent, denied, Forgotten, history, object as readObject, revisions as readRevisions } from './api.ts';
import type { ObjectHistory } from './answers.gen.ts';
import { EventsOf } from './events.tsx';
import { Family } from './family.tsx';
import { FindingsOf } from './findings.tsx';
import { ago, hash, moment, named, quoted, resource, second, type Named, type Params } from './format.ts';
import { kindOf, type Kind } from './kinds.ts';
import type { Condition, Obj, RevisionList } from './meta.ts';
import { Changed, Copied, Section, Table, type Column } from './parts.tsx';
import { Past, Timeline } from './timeline.tsx';
import { Partly, seldom, ShellContext, usePolled, type ViewProps } from './view.ts';
import { differences, lines, text, writers } from './yaml.ts';

const mostLines = 3000, mostDifferences = 200;

// isSecret says that the values of a kind are shown only to who asks for them.
const isSecret = (kind: Kind): boolean => kind.group === '' && kind.resource === 'secrets';
const applied = 'kubectl.kubernetes.io/last-applied-configuration';

// masked is an object without its values.
function masked(o: Obj): Obj {
  const hide = (v: unknown) => `(hidden, ${typeof v === 'string' ? v.length : JSON.stringify(v).length} characters)`;
  const all = (map: { [key: string]: unknown }) => Object.fromEntries(Object.entries(map).map(([k, v]) => [k, hide(v)]));
  const out: Obj = { ...o, metadata: { ...o.metadata } };
  if (o.data) out.data = all(o.data);
  if (o.stringData) out.stringData = all(o.stringData);
  const last = o.metadata.annotations?.[applied];
  if (last) out.metadata.annotations = { ...o.metadata.annotations, [applied]: hide(last) };
  return out;
}

// Seen is what is known of an object.
interface Seen {
  kind?: Kind;
  now?: Obj; // as it is, or as it was at the moment that was asked for
  today?: Obj | null; // if a moment was asked for, as it is now; null: it does not exist any more
  refused?: Error; // why it was not read this time
  past?: RevisionList;
}

// Told is also what was done to it, or why that is not told.
interface Told { seen: Seen; done?: ObjectHistory; untold?: string }

// Reading reads an object again and again. What was seen of it stays when it is gone.
class Reading {
  #seen: Seen = {};
  #pastAgain: () => Promise<unknown>;

  constructor(private readonly params: Params) { this.#pastAgain = seldom(5000, () => this.#readPast()); }

  async read(signal: AbortSignal): Promise<Seen> {
    const { namespace, name = '', at } = this.params, kind = this.#seen.kind ?? await kindOf(this.params, signal), was = this.#seen.now?.metadata;
    this.#seen = { ...this.#seen, kind, refused: undefined };
    if (!kind) return this.#seen;
    try {
      const now = await readObject(kind, { namespace, name, at }, signal), same = was?.uid === now.metadata.uid && was?.resourceVersion === now.metadata.resourceVersion;
      if (!same && !at) await this.#readPast();
      else if (!at && this.#behind(now)) await this.#pastAgain();
      if (at) this.#seen = { ...this.#seen, today: await this.#readToday(kind, signal) };
      if (!same) this.#seen = { ...this.#seen, now };
    } catch (e) {
      if (!absent(e)) throw e;
      if (e instanceof Forgotten) await this.#pastAgain();
      this.#seen = { ...this.#seen, refused: e };
    }
    return this.#seen;
  }

  // behind says that the history, which follows what is written, has not come to the newest change.
  #behind(now: Obj): boolean {
    const newest = this.#seen.past?.items?.[0];
    return newest !== undefined && newest.resourceVersion !== now.metadata.resourceVersion;
  }

  async #readPast(): Promise<void> {
    const { namespace, name = '' } = this.params;
    try {
      const past = await readRevisions(this.#seen.kind!, { namespace, name });
      if (past.kind === 'RevisionList') this.#seen = { ...this.#seen, past }; // otherwise the server keeps no history
    } catch (e) {
      if (!absent(e)) throw e;
    }
  }

  async #readToday(kind: Kind, signal: AbortSignal): Promise<Obj | null> {
    try { return await readObject(kind, { namespace: this.params.namespace, name: this.params.name! }, signal); } catch (e) {
      if (!(e instanceof Forgotten)) throw e;
      return null;
    }
  }
}

export function OneObject({ params }: ViewProps) {
  const { recorded } = useContext(ShellContext), where: Named = { group: params.group, resource: params.resource, namespace: params.namespace, name: params.name };
  const reading = useRef<Reading | undefined>(undefined), [reveal, show] = useState(false);
  reading.current ??= new Reading(params);
  const told = usePolled<Told>(async signal => {
    const seen = await reading.current!.read(signal);
    if (params.at) return { seen };
    try { return { seen, done: await history(where, signal) }; } catch (e) {
      if (!denied(e)) throw e;
      return new Partly<Told>({ seen, untold: e.message }, seen.refused && denied(seen.refused) ? seen.refused : null);
    }
  }, []);
  const title = `${resource(params)} ${named(params.namespace, params.name)}`, head = <h1>{params.at ? `Object ${title} as it was` : `Object ${title}`}</h1>;
  if (!told) return head;
  const { kind, now, today, refused, past } = told.seen, hides = Boolean(kind && isSecret(kind)) && !reveal;
  return <>{head}
    {kind && <Actions kind={kind} params={params} />}
    {!params.at && <FindingsOf of={where} />}
    <Section title="State">
      {!kind && <p>The server has no such kind any more.</p>}
      {refused && <p class={refused instanceof Forgotten ? 'note' : 'bad'}>{!(refused instanceof Forgotten) ? refused.message : now ? 'It does not exist any more. What is below is the last that was seen of it.' : 'It does not exist.'}</p>}
      {now && !refused && <State of={now} />}
    </Section>
    {kind && now && <Section title="YAML"><Yaml of={now} past={past} hides={hides} secret={isSecret(kind)} reveal={reveal} toggle={() => show(!reveal)} /></Section>}
    {kind && now && !params.at && <Family kind={kind} object={now} />}
    {now && !params.at && <EventsOf selector={`involvedObject.uid=${now.metadata.uid}`} namespace={params.namespace} />}
    {recorded && kind && <EventsOf selector={`involvedObject.kind=${kind.kind},involvedObject.name=${params.name}`} namespace={params.namespace} />}
    {now && today !== undefined && <Section title="Changes"><SinceThen then={now} now={today} hides={hides} /></Section>}
    {past && !params.at && <Section title="Changes"><Past of={past} where={where} hides={hides} /></Section>}
    {!params.at && (told.done || told.untold) && <Section title="What was done to it">{told.done ? <Timeline of={told.done} /> : <p class="dim">{told.untold}</p>}</Section>}</>;
}

function Actions({ kind, params }: { kind: Kind; params: Params }) {
  const of = quoted(`${kind.id}/${params.name}`), inNamespace = params.namespace ? ' -n ' + quoted(params.namespace) : '', ofKind = { group: kind.group, resource: kind.resource };
  return <p class="bar"><a href={hash('explore', { ...ofKind, namespace: params.namespace })}>All {kind.resource}{params.namespace && ` in ${params.namespace}`}</a> ·
    {' '}<a href={hash('requests', { ...ofKind, namespace: params.namespace, name: params.name })}>Its requests</a>{params.at && <> · <a href={hash('object', { ...params, at: '' })}>As it is now</a></>}
    {' '}<Copied label="Copy as kubectl" text={`kubectl get ${of}${inNamespace} -o yaml`} /> <Copied label="Copy as kanzen why" text={`kanzen why ${of}${inNamespace}`} /></p>;
}

// bad says that a condition is not as it should be: False of most, True of those that name a trouble.
function bad(c: Condition): boolean {
  const trouble = /Pressure|Fail|Unavailable|Degraded|Stalled|Error|Invalid|Terminating|Violat|NonStructural/.test(c.type ?? '');
  return c.status === (trouble ? 'True' : 'False');
}

const conditionColumns: Column<Condition>[] = [
  { name: 'condition', of: c => c.type ?? '' }, { name: 'status', of: c => c.status ?? '', class: c => bad(c) && 'bad' },
  { name: 'since', of: c => Date.parse(c.lastTransitionTime ?? '') || 0, cell: c => c.lastTransitionTime && <span title={moment(c.lastTransitionTime)}>{ago(c.lastTransitionTime)}</span> },
  { name: 'reason', of: c => c.reason ?? '' }, { name: 'message', of: c => c.message ?? '' },
];

// State is what an object says of itself, and why it does not go.
function State({ of: o }: { of: Obj }) {
  const { metadata: meta, status } = o, conditions = Array.isArray(status?.conditions) ? status.conditions as Condition[] : [];
  const seen = status?.observedGeneration ?? (/^apps\/.* (Deployment|ReplicaSet|StatefulSet)$/.test(`${o.apiVersion} ${o.kind}`) ? 0 : undefined); // their controllers always say it
  return <><p>Created {ago(meta.creationTimestamp)} ago, {second(meta.creationTimestamp)}.{typeof status?.phase === 'string' && ` Its phase is ${status.phase}.`}
    {meta.generation && seen !== undefined && seen < meta.generation ? <span class="bad"> Its controller has seen generation {seen} of {meta.generation}.</span> : null}</p>
  {meta.deletionTimestamp && <p class="bad">It is being deleted since {ago(meta.deletionTimestamp)}, and waits for {[...meta.finalizers ?? [], ...o.spec?.finalizers ?? []].join(', ') || 'its end'}.</p>}
  {conditions.length > 0 && <Table caption="Conditions" columns={conditionColumns} rows={conditions} keyOf={c => c.type ?? ''} />}</>;
}

interface Writer { by: string; time?: string; about: string }

// blame returns who has written the value at a path: the user of the history if it is known, and the manager of the field.
function blame(o: Obj, past: RevisionList | undefined): (path: string) => Writer | null {
  const managers = writers(o), known = new Map<string, NonNullable<RevisionList['items']>[number]>();
  for (const r of past?.items ?? []) {
    if (r.uid !== o.metadata.uid || !r.user) continue;
    for (const c of r.changes ?? []) if (!known.has(c.path)) known.set(c.path, r);
  }
  // What has not changed since is as it was made, if the history goes back so far.
  const made = past?.items?.find(r => r.uid === o.metadata.uid && r.operation === 'Created' && r.user);
  return path => {
    const m = managers.get(path), r = known.get(path) ?? (m && !m.subresource ? made : undefined);
    if (!m && !r) return null;
    const of = m?.subresource ? '/' + m.subresource : '', time = r?.time ?? m?.time;
    return { by: [m && m.manager + of, r?.user].filter(Boolean).join(', '), time,
      about: [m && `${m.manager}, ${m.operation}${m.subresource ? ' of ' + m.subresource : ''}`, r && `written by ${r.user}${r.userAgent ? ' with ' + r.userAgent : ''}`, moment(time)].filter(Boolean).join('\n') };
  };
}

interface YamlProps { of: Obj; past?: RevisionList; hides: boolean; secret: boolean; reveal: boolean; toggle(): void }

// Yaml shows lines with their writers beside them; of several lines of one writer the first names it.
function Yaml({ of, past, hides, secret, reveal, toggle }: YamlProps) {
  const { clean, all, rows } = useMemo(() => {
    const o = hides ? masked(of) : of, { apiVersion, kind, metadata, ...rest } = o; // in the order in which people write them
    const clean = JSON.parse(JSON.stringify({ apiVersion, kind, metadata: { ...metadata, managedFields: undefined }, ...rest })) as Obj;
    const all = lines(clean), who = blame(of, past);
    let last = '';
    const rows = all.slice(0, mostLines).map(l => {
      const w = l.path === undefined ? null : who(l.path), by = w ? `${w.by} ${w.time ?? ''}` : '', first = by !== last;
      if (l.path !== undefined) last = by;
      return { ...l, w, first };
    });
    return { clean, all, rows };
  }, [of, past, hides]);
  return <><p><Copied label="Copy YAML" text={() => text(clean)} /> {secret && <button type="button" aria-pressed={reveal} onClick={toggle}>{reveal ? 'Hide values' : 'Show values'}</button>}</p>
    <div class="scroll yaml" tabIndex={0} role="region" aria-label="YAML and who has written each line"><table>
      <thead><tr><th scope="col">Field</th><th scope="col" class="who">Last written by</th></tr></thead>
      <tbody>{rows.map(({ depth, text, w, first }, n) => <tr key={n}><td><code class={text.length > 400 ? 'clip' : undefined} tabIndex={text.length > 400 ? 0 : undefined}>{'  '.repeat(depth) + text}</code></td>
        <td class="who" title={w?.about}>{w && (first ? <><b>{w.by}</b> {ago(w.time)}</> : '│')}</td></tr>)}</tbody></table>
      {all.length > mostLines && <p class="dim">and {all.length - mostLines} more lines</p>}</div></>;
}

// SinceThen shows the fields of an object that are other ones now than at a moment.
function SinceThen({ then, now, hides }: { then: Obj; now: Obj | null; hides: boolean }) {
  if (!now) return <p>It does not exist any more.</p>;
  const bare = (o: Obj) => ({ ...o, metadata: { ...o.metadata, managedFields: undefined, resourceVersion: undefined } }), brief = (v: unknown) => v === undefined ? undefined : JSON.stringify(v).slice(0, 400);
  const all = differences(bare(then), bare(now)).filter(d => d.path), secret = (path: string) => hides && (/^(data|stringData)(\.|$)/.test(path) || path.includes(applied));
  return <><p class="dim">From resourceVersion {then.metadata.resourceVersion} to now, {all.length} fields have changed.</p>
    <div class="scroll"><table aria-label="Changed since then"><tbody>{all.slice(0, mostDifferences).map(d => <tr key={d.path}><td><code>{d.path}</code></td>
      <td>{secret(d.path) ? <span class="dim">hidden</span> : <Changed from={brief(d.from)} to={brief(d.to)} />}</td></tr>)}</tbody></table></div></>;
}
