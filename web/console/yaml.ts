// An object as YAML, and who has written each line of it.

import type { FieldSet, ManagedFields, Obj } from './meta.ts';

// strange are characters that would not be seen, or change the order in which others are.
const strange = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const escaped = (text: string) => JSON.stringify(text).replace(strange, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
const plain = /^[A-Za-z/_]([\w./@+:-]*[\w./@+-])?( [\w.@+-]([\w./@+:-]*[\w./@+-])?)*$/;
const words = /^(true|false|yes|no|on|off|null|y|n|~)$/i;

type Fields = { [key: string]: unknown };

const isObject = (v: unknown): v is Fields => v !== null && typeof v === 'object' && !Array.isArray(v);
const isFull = (v: unknown): boolean => v !== null && typeof v === 'object' && Object.keys(v).length > 0;

function scalar(v: unknown): string {
  if (typeof v === 'string') return plain.test(v) && !words.test(v) ? v : escaped(v);
  return isObject(v) ? '{}' : Array.isArray(v) ? '[]' : v === null ? 'null' : JSON.stringify(v);
}

// below is the path of a field, as the server writes it in histories.
export function below(path: string, key: string): string {
  const name = key === '' || /[ "]/.test(key) ? JSON.stringify(key) : key;
  return path ? `${path}.${name}` : name;
}

// Line is one of an object. A path belongs to the value in its line; lines of containers have none.
export interface Line { depth: number; text: string; path?: string }

export function lines(value: unknown): Line[] {
  const out: Line[] = [];
  const put = (depth: number, text: string, path?: string) => out.push({ depth, text, path });
  const walk = (v: unknown, depth: number, path: string, lead: string) => {
    if (Array.isArray(v) && v.length) {
      if (lead !== '') put(depth, lead);
      v.forEach((item: unknown, n) => {
        const at = `${path}[${n}]`, from = out.length;
        if (!isFull(item)) { put(depth, '- ' + scalar(item), at); return; }
        walk(item, depth + 1, at, '');
        const first = out[from]!;
        first.depth--;
        first.text = '- ' + first.text;
      });
    } else if (isObject(v) && isFull(v)) {
      if (lead !== '') put(depth, lead);
      for (const [key, each] of Object.entries(v)) walk(each, lead === '' ? depth : depth + 1, below(path, key), scalar(key) + ':');
    } else if (typeof v === 'string' && v.includes('\n') && v.match(strange) === null && !/^\s/.test(v)) {
      const end = v.endsWith('\n') ? v.endsWith('\n\n') ? '+' : '' : '-';
      put(depth, `${lead} |${end}`.trim(), path);
      for (const line of (v.endsWith('\n') ? v.slice(0, -1) : v).split('\n')) put(depth + 1, line, path);
    } else put(depth, `${lead} ${scalar(v)}`.trim(), path);
  };
  walk(value, 0, '', '');
  return out;
}

export function text(value: unknown): string { return lines(value).map(l => '  '.repeat(l.depth) + l.text).join('\n') + '\n'; }

// writers are the field managers by the paths that they own. Of several the one that has written last counts.
export function writers(object: Obj): Map<string, ManagedFields> {
  const out = new Map<string, ManagedFields>(), managed = [...object.metadata.managedFields ?? []].sort((a, b) => (a.time ?? '').localeCompare(b.time ?? ''));
  for (const m of managed) owned(m.fieldsV1 ?? {}, object, '', path => out.set(path, m));
  return out;
}

type Told = (path: string) => void;

function owned(set: FieldSet, value: unknown, path: string, told: Told): void {
  const inside = (sub: FieldSet, v: unknown, at: string) => {
    const names = Object.keys(sub);
    if (!names.length || names.length === 1 && names[0] === '.') leaves(v, at, told); else owned(sub, v, at, told);
  };
  for (const [element, sub] of Object.entries(set)) {
    const colon = element.indexOf(':'), kind = element.slice(0, colon), name = element.slice(colon + 1);
    if (colon < 0) continue;
    if (Array.isArray(value)) value.forEach((item: unknown, n) => { if (selects(kind, name, item, n)) inside(sub, item, `${path}[${n}]`); });
    else if (isObject(value) && kind === 'f' && Object.hasOwn(value, name)) inside(sub, value[name], below(path, name));
  }
}

function leaves(v: unknown, path: string, told: Told): void {
  if (!isFull(v)) told(path);
  else if (Array.isArray(v)) v.forEach((item: unknown, n) => leaves(item, `${path}[${n}]`, told));
  else for (const [key, each] of Object.entries(v as Fields)) leaves(each, below(path, key), told);
}

// selects says whether an element of a field set stands for an item of a list.
function selects(kind: string, text: string, item: unknown, n: number): boolean {
  let want: unknown;
  try { want = JSON.parse(text); } catch { return false; }
  if (kind === 'v') return JSON.stringify(want) === JSON.stringify(item);
  if (kind === 'i') return want === n;
  const keys = isObject(want) ? Object.entries(want) : [], has = isObject(item) ? item : {};
  return kind === 'k' && keys.length > 0 && keys.every(([k, v]) => has[k] === v || k === 'protocol' && v === 'TCP' && has[k] === undefined);
}

export interface Difference { path: string; from: unknown; to: unknown }

// differences are the fields in which two values differ.
export function differences(a: unknown, b: unknown, path = '', out: Difference[] = []): Difference[] {
  if (isObject(a) && isObject(b)) {
    for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) differences(a[key], b[key], below(path, key), out);
  } else if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) a.forEach((v, n) => differences(v, b[n], `${path}[${n}]`, out));
  else if (JSON.stringify(a) !== JSON.stringify(b)) out.push({ path, from: a, to: b });
  return out;
}
