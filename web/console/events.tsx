// Events: what controllers and the server say of objects.

import { useMemo, useState } from 'preact/hooks';
import { absent, objects } from './api.ts';
import { ago, count, hash, moment, named, objectHash, type Params } from './format.ts';
import { eventsKind, kinds, referred, type Kind } from './kinds.ts';
import type { ObjectEvent } from './meta.ts';
import { Form, Section, Table, type Column } from './parts.tsx';
import { usePolled, type ViewProps } from './view.ts';

const perPage = 500, mostPages = 6;

// when is the last time that an event happened.
const when = (e: ObjectEvent): string => e.series?.lastObservedTime ?? e.lastTimestamp ?? e.eventTime ?? e.metadata.creationTimestamp ?? '';
const times = (e: ObjectEvent): number => e.series?.count ?? e.count ?? 1;
const from = (e: ObjectEvent): string => e.reportingComponent || e.source?.component || '';
const newest = (all: ObjectEvent[]): ObjectEvent[] => all.toSorted((a, b) => when(b).localeCompare(when(a)));

const last: Column<ObjectEvent> = { name: 'last', of: e => Date.parse(when(e)), cell: e => <span title={moment(when(e))}>{ago(when(e))}</span>, width: '4.5em' };
const rest: Column<ObjectEvent>[] = [
  { name: 'type', of: e => e.type ?? '', class: e => e.type === 'Warning' && 'bad', width: '6em' }, { name: 'reason', of: e => e.reason ?? '', width: '10em' },
  { name: 'times', of: times, number: true, show: count, width: '4.5em' },
];
const told: Column<ObjectEvent>[] = [{ name: 'from', of: from, width: '10em' }, { name: 'message', of: e => e.message ?? e.note ?? '' }];

// EventsOf shows those of one object, which a field selector names.
export function EventsOf({ selector, namespace }: { selector: string; namespace?: string }) {
  const found = usePolled(async signal => {
    try { return { items: (await objects<ObjectEvent>(eventsKind, { namespace: namespace || 'default', fieldSelector: selector, limit: 100 }, signal)).items }; } catch (e) {
      if (!absent(e)) throw e;
      return { refused: e.message };
    }
  }, [selector], 6000);
  if (!found) return null;
  return <Section title="Events">{found.items?.length ? <Table caption="Events" columns={[last, ...rest, ...told]} rows={newest(found.items)} keyOf={e => e.metadata.uid ?? e.metadata.name} /> : <p class="dim">{found.refused ?? 'There are none.'}</p>}</Section>;
}

// objectOf names the object of an event.
function objectColumn(all: Kind[]): Column<ObjectEvent> {
  const text = (e: ObjectEvent) => `${e.involvedObject?.kind ?? ''} ${named(e.involvedObject?.namespace, e.involvedObject?.name)}`;
  return { name: 'object', of: text, width: '20%', cell: e => {
    const o = e.involvedObject, kind = referred(all, o?.apiVersion, o?.kind);
    return kind && o?.name ? <a href={objectHash({ group: kind.group, resource: kind.resource, namespace: o.namespace, name: o.name })}>{text(e)}</a> : text(e);
  } };
}

export function Events({ params }: ViewProps) {
  const [text, filter] = useState(params.text ?? '');
  const found = usePolled(async signal => {
    let items: ObjectEvent[] = [], next: string | undefined = '';
    for (let n = 0; n < mostPages && next !== undefined; n++) {
      const page: { items: ObjectEvent[]; metadata: { continue?: string } } = await objects<ObjectEvent>(eventsKind, { namespace: params.namespace, fieldSelector: params.type ? `type=${params.type}` : '', limit: perPage, continue: next }, signal);
      items = items.concat(page.items);
      next = page.metadata.continue || undefined;
    }
    return { items: newest(items), more: next !== undefined, kinds: await kinds(signal) };
  }, [], 4000);
  const rows = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return found?.items.filter(e => { const all = [e.type, e.reason, e.involvedObject?.kind, e.involvedObject?.namespace, e.involvedObject?.name, from(e), e.message ?? e.note].join(' ').toLowerCase(); return words.every(w => all.includes(w)); });
  }, [found, text]);
  const columns = useMemo(() => [last, ...rest, objectColumn(found?.kinds ?? []), ...told], [found?.kinds]);
  const remember = (p: Params) => history.replaceState(null, '', hash('events', { ...params, ...p }));
  return <><h1>Events</h1><p class="about">What controllers and the server say of objects, the newest first. The server keeps Events for an hour, unless it is told otherwise.</p>
    <Form fields={[{ name: 'namespace', label: 'Namespace' }, { name: 'type', label: 'Type', options: ['', 'Warning', 'Normal'] }]} values={params} action="Show" done={values => { location.hash = hash('events', { text, ...values }); }}>
      <label>Search<input type="search" value={text} size={24} placeholder="words, in what is shown" autocomplete="off" onInput={e => { filter(e.currentTarget.value); remember({ text: e.currentTarget.value }); }} /></label></Form>
    <p class="dim" role="status">{rows && `${count(rows.length)} of ${count(found!.items.length)} shown.${found!.more ? ' There are more; a namespace narrows them.' : ''}`}</p>
    <Table long caption="Events" columns={columns} rows={rows} keyOf={e => e.metadata.uid ?? `${e.metadata.namespace}/${e.metadata.name}`} empty="There are none." /></>;
}
