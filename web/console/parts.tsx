// What views are made of. All text comes in as text: nothing that a client or an object is called becomes markup.

import { Fragment, type ComponentChildren } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { few, rowHeight, useSight } from './sight.ts';

// Breakable text may go on in the next line after each dot: names of resources are long.
export function Breakable({ text }: { text: string }) {
  return <>{text.split(/(?<=\.)/).map((part, n) => n ? <Fragment key={n}><wbr />{part}</Fragment> : part)}</>;
}

export function Card({ name, bad, children }: { name: string; bad?: boolean; children: ComponentChildren }) {
  return <div class="card"><b class={bad ? 'bad' : undefined}>{children}</b><span>{name}</span></div>;
}

// Clip keeps long text from filling the page: it can be scrolled.
export function Clip({ text }: { text: string }) {
  return text.length > 400 ? <span class="clip" tabIndex={0}>{text}</span> : <>{text}</>;
}

// Copied is a button that copies a text, and says that it has.
export function Copied({ label, text }: { label: string; text: string | (() => string) }) {
  const [said, say] = useState('');
  return <button type="button" onClick={async () => {
    const done = await navigator.clipboard.writeText(typeof text === 'function' ? text() : text).then(() => 'Copied', () => 'The browser does not let the page copy');
    say(done);
    setTimeout(say, 1500, '');
  }}>{said || label}</button>;
}

// Section is a part of a page with a heading.
export function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return <section aria-label={title}><h2>{title}</h2>{children}</section>;
}

// Old → new.
export function Changed({ from, to }: { from?: string; to?: string }) {
  return <>{from !== undefined && <del>{from}</del>}{from !== undefined && to !== undefined && ' → '}{to !== undefined && <ins>{to}</ins>}</>;
}

// Column is what a table shows of each row: of is what is sorted by, and shown if there is neither show nor cell.
export interface Column<R> {
  name: string;
  of(row: R): string | number;
  show?(value: number): string;
  cell?(row: R): ComponentChildren;
  class?(row: R): string | false | undefined;
  number?: boolean;
  about?: string;
  width?: string; // of a long table, whose columns do not follow what is in them
}

interface TableProps<R> {
  caption: string;
  columns: Column<R>[];
  rows: R[] | undefined; // undefined: they are not known yet
  keyOf(row: R): string;
  sort?: number;
  empty?: string;
  most?: number; // rows that are shown before somebody asks for all
  long?: boolean; // there may be thousands: of more than a few, only the rows in sight are drawn, each of one line
}

function sorted<R>(rows: R[], column: Column<R> | undefined, down: boolean): R[] {
  if (!column) return rows;
  return rows.toSorted((a, b) => {
    const x = column.of(a), y = column.of(b), order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
    return down ? -order : order;
  });
}

export function Table<R>({ caption, columns, rows, keyOf, sort, empty = 'Nothing.', most = Infinity, long }: TableProps<R>) {
  const [by, order] = useState<{ n: number | undefined; down: boolean }>({ n: sort, down: true });
  const shown = useMemo(() => sorted(rows ?? [], by.n === undefined ? undefined : columns[by.n], by.down), [rows, by, columns]);
  const body = useRef<HTMLTableSectionElement>(null), sight = useSight(body, long ? shown.length : 0);
  const cells = (row: R) => columns.map((c, n) => {
    const value = c.of(row), content = c.cell ? c.cell(row) : c.show ? c.show(value as number) : typeof value === 'string' && !long ? <Clip text={value} /> : value;
    return <td key={n} class={[c.number && 'n', c.class?.(row)].filter(Boolean).join(' ') || undefined} title={long && typeof value === 'string' ? value : undefined}>{content}</td>;
  });
  const [everything, more] = useState(false), drawn = long ? shown.slice(sight.from, sight.to) : everything ? shown : shown.slice(0, most);
  return <><div class="scroll" {...long && { tabIndex: 0, role: 'region', 'aria-label': caption }}><table aria-label={caption} aria-rowcount={long ? shown.length + 1 : undefined} class={long ? shown.length > few ? 'long lines' : 'long' : undefined}>
    {long && <colgroup>{columns.map((c, n) => <col key={n} style={{ width: c.width }} />)}</colgroup>}
    <thead><tr>{columns.map((c, n) => <th key={n} scope="col" class={c.number ? 'n' : undefined} title={c.about} aria-sort={by.n === n ? by.down ? 'descending' : 'ascending' : undefined}>
      <button type="button" onClick={() => order(by.n === n ? { n, down: !by.down } : { n, down: Boolean(c.number) })}>{c.name}</button></th>)}</tr></thead>
    <tbody ref={body}>
      {long && sight.from > 0 && <tr class="space" aria-hidden="true" key="above"><td colSpan={columns.length} style={{ height: sight.from * rowHeight }} /></tr>}
      {drawn.map((row, n) => <tr key={keyOf(row)} aria-rowindex={long ? sight.from + n + 2 : undefined}>{cells(row)}</tr>)}
      {long && sight.to < shown.length && <tr class="space" aria-hidden="true" key="below"><td colSpan={columns.length} style={{ height: (shown.length - sight.to) * rowHeight }} /></tr>}
      {rows && !shown.length && <tr key="empty"><td colSpan={columns.length} class="dim">{empty}</td></tr>}
    </tbody></table></div>
    {!everything && shown.length > most && <All of={shown.length} show={() => more(true)} />}</>;
}

// All is the button below the first rows or entries.
export function All({ of, show }: { of: number; show(): void }) { return <p><button type="button" onClick={show}>Show all {of.toLocaleString('en')}</button></p>; }

// Field is one of a form: a text, or a choice if it has options.
export interface Field { name: string; label: string; size?: number; options?: string[]; none?: string; show?(option: string): string; more?: boolean }

// Form shows fields, those of more only to who asks, with the values of the address, and calls done with what is in them.
export function Form({ fields, values, action, done, children }: { fields: Field[]; values: { [name: string]: string | undefined }; action: string; done(values: { [name: string]: string }): void; children?: ComponentChildren }) {
  const field = (f: Field) => <label key={f.name}>{f.label}{f.options
    ? <select name={f.name}>{f.options.map(o => <option key={o} value={o} selected={(values[f.name] ?? '') === o}>{o ? f.show?.(o) ?? o : f.none ?? 'any'}</option>)}</select>
    : <input name={f.name} defaultValue={values[f.name] ?? ''} size={f.size ?? 12} autocomplete="off" />}</label>;
  return <form onSubmit={e => {
    e.preventDefault();
    const filled = new FormData(e.currentTarget);
    done(Object.fromEntries(fields.map(f => [f.name, String(filled.get(f.name) ?? '').trim()])));
  }}>
    {fields.filter(f => !f.more).map(field)}
    {fields.some(f => f.more) && <details class="more" open={fields.some(f => f.more && values[f.name])}><summary>More fields</summary><div>{fields.filter(f => f.more).map(field)}</div></details>}
    <button>{action}</button>{children}
  </form>;
}
