// What was done to an object: as the flight recorder has seen it, with refusals, and as the history keeps it.

import { useState } from 'preact/hooks';
import type { Change, HistoryEntry, ObjectHistory } from './answers.gen.ts';
import { ago, count, cut, hash, moment, named, resource, type Named } from './format.ts';
import type { RevisionList } from './meta.ts';
import { All, Changed, Clip } from './parts.tsx';

export const who = (r: { user?: string; impersonated?: string }): string => r.impersonated ? `${r.impersonated} (by ${r.user})` : r.user ?? '';

export const target = (r: Named & { subresource?: string; path?: string }): string =>
  r.resource ? `${resource(r)}${r.subresource ? '/' + r.subresource : ''} ${named(r.namespace, r.name)}` : r.path ?? '';

// value shows the JSON of a field as people read it: the API escapes what could be markup.
function value(json: string | undefined): string | undefined {
  if (!json) return undefined;
  try { return JSON.stringify(JSON.parse(json)); } catch { return json; }
}

// Changes are the fields that a write has changed.
export function Changes({ of }: { of: Pick<Change, 'fields' | 'moreFields'> }) {
  if (!of.fields?.length) return null;
  return <div class="scroll"><table aria-label="Changed fields"><tbody>{of.fields.map(f => <tr key={f.path}><td><code>{f.path}</code></td>
    <td>{f.hidden ? <span class="dim">hidden</span> : f.old || f.new ? <Changed from={value(f.old)} to={value(f.new)} /> : 'changed'}</td></tr>)}</tbody></table>
    {of.moreFields ? <p class="dim">and {count(of.moreFields)} more fields</p> : null}</div>;
}

// first are the entries that are shown before somebody asks for all: of a fight there are very many alike.
const first = 10;

// Timeline shows what the flight recorder remembers of an object.
export function Timeline({ of }: { of: ObjectHistory }) {
  const [everything, more] = useState(false);
  const entries = of.status.entries ?? [];
  const note = !entries.length ? 'Nobody has written it while this server remembers.' : of.status.forgotten ? `${of.status.forgotten} older entries were forgotten.` : '';
  return <>{note && <p class="dim">{note}</p>}
    <ol class="timeline" aria-label="What was done to the object, the newest first">{entries.toReversed().slice(0, everything ? undefined : first).map(e => <Entry key={`${e.request} ${e.first}`} e={e} />)}</ol>
    {!everything && entries.length > first && <All of={entries.length} show={() => more(true)} />}</>;
}

function Entry({ e }: { e: HistoryEntry }) {
  return <li class={e.code >= 400 ? 'refused' : undefined}>
    <div><a href={hash('request', { name: 'r' + e.request })}>{moment(e.last)}</a> {ago(e.last)} ago{e.count > 1 && `, ${e.count} times since ${moment(e.first)}`}</div>
    <div><b>{e.code >= 400 ? `${e.verb} refused (${e.code} ${e.reason ?? ''})` : e.operation || e.verb}</b>{e.subresource && ` ${e.subresource}`} by <Clip text={who(e)} />
      {e.userAgent && <> with <Clip text={e.userAgent} /></>}</div>
    {e.message && <div class="bad"><Clip text={e.message} /></div>}
    {e.refusedFields?.length ? <div class="bad">because of {e.refusedFields.join(', ')}</div> : null}
    {(e.steps ?? []).map((s, n) => <div key={n} class={s.result === 'Allowed' ? 'dim' : 'bad'}>{s.kind} {s.name}: {s.result}{s.changed && ', changed it'}{s.ignored && ', ignored'}</div>)}
    <Changes of={e} />
  </li>;
}

const shown = (v: unknown): string | undefined => v === undefined ? undefined : cut(JSON.stringify(v), 400);

// Past lists the changes of a history, each with a link to the object as it was then.
export function Past({ of, where, hides }: { of: RevisionList; where: Named; hides: boolean }) {
  const [everything, more] = useState(false);
  if (!of.items?.length) return <p class="dim">Nothing has changed since resourceVersion {of.since}, where the history begins.</p>;
  return <>{of.more && <p class="dim">The newest {of.items.length}; kanzen history shows older ones.</p>}
    <ol class="timeline" aria-label="Changes, the newest first">{of.items.slice(0, everything ? undefined : first).map(r => <li key={r.resourceVersion}>
      <div>{r.operation === 'Deleted' ? moment(r.time) : <a href={hash('object', { ...where, at: r.resourceVersion })}>{moment(r.time)}</a>} {ago(r.time)} ago, resourceVersion {r.resourceVersion}</div>
      <div><b>{r.operation}</b>{r.user && <> by <Clip text={r.user} /></>}{r.managers?.length ? ` as ${r.managers.join(', ')}` : ''}{r.unreadable && <span class="bad"> cannot be read: {r.unreadable}</span>}</div>
      {r.changes?.length ? <div class="scroll"><table aria-label="Changed fields"><tbody>{r.changes.map(c => <tr key={c.path}><td><code>{c.path}</code></td>
        <td>{hides ? <span class="dim">hidden</span> : <Changed from={shown(c.old)} to={shown(c.new)} />}</td></tr>)}</tbody></table></div> : null}
      {r.moreChanges && <p class="dim">and more fields</p>}
    </li>)}</ol>
    {!everything && of.items.length > first && <All of={of.items.length} show={() => more(true)} />}</>;
}
