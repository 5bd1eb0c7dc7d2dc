// How the page writes numbers, times and names.

// Durations come as Go writes them: "1m2.5s", "300µs". ms is in milliseconds.
const units: { [unit: string]: number } = { ns: 1e-6, 'µs': 1e-3, us: 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5 };

export function ms(text?: string): number {
  let sum = 0;
  for (const [, n, unit] of (text ?? '').matchAll(/([\d.]+)(ns|µs|us|ms|s|m|h)/g)) sum += Number(n) * units[unit!]!;
  return sum;
}

export function time(m: number): string {
  if (!m) return '0';
  if (m < 1) return `${Math.round(m * 1000)} µs`;
  if (m < 1000) return `${m.toFixed(m < 10 ? 2 : m < 100 ? 1 : 0)} ms`;
  if (m < 120e3) return `${(m / 1e3).toFixed(2)} s`;
  return `${Math.round(m / 6e4)} min`;
}

export function rate(n: number): string { return !n ? '0' : n >= 100 ? Math.round(n).toLocaleString('en') : n >= 10 ? n.toFixed(1) : n.toFixed(2); }

export function bytes(n: number): string {
  const all = ['B', 'KiB', 'MiB', 'GiB'];
  let at = 0;
  while (n >= 1024 && at < all.length - 1) { n /= 1024; at++; }
  return `${at ? n.toFixed(1) : Math.round(n)} ${all[at]}`;
}

export function count(n?: number): string { return (n ?? 0).toLocaleString('en'); }

export function resource(o: { resource?: string; group?: string }): string { return (o.resource ?? '') + (o.group ? '.' + o.group : ''); }

export function named(namespace?: string, name?: string): string { return [namespace, name].filter(Boolean).join('/'); }

export function clock(text?: string): string { return text ? new Date(text).toISOString().slice(11, 23) : ''; }

export function moment(text?: string): string { return text ? new Date(text).toISOString().replace('T', ' ').slice(0, 23) + 'Z' : ''; }

export function second(text?: string): string { return text ? moment(text).slice(0, 19) + 'Z' : ''; }

let still: number | null = null;

// now is the time that ages are told for: that of the viewer, or the end of what a file has saved.
export function now(): number { return still ?? Date.now(); }

export function standStill(text: string): void { still = Date.parse(text); }

// ago says how long ago something was, as kubectl does.
export function ago(text?: string | null): string {
  const s = Math.max(0, (now() - Date.parse(text ?? '')) / 1000);
  if (Number.isNaN(s)) return '';
  if (s < 120) return `${Math.floor(s)}s`;
  if (s < 3600) return s < 600 && s % 60 >= 1 ? `${Math.floor(s / 60)}m${Math.floor(s % 60)}s` : `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

// quoted is a word for a shell.
export function quoted(word: string): string { return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`; }

export function cut(text: string, most: number): string { return text.length > most ? text.slice(0, most - 1) + '…' : text; }

// Params are those of a view, in the address after its name.
export interface Params { [name: string]: string | undefined }

// hash makes the address of a view.
export function hash(view: string, params: Params = {}): string {
  const q = new URLSearchParams(Object.entries(params).filter((p): p is [string, string] => Boolean(p[1])));
  return `#/${view}${q.size ? '?' + q : ''}`;
}

// Named is what names an object.
export interface Named { group?: string; resource?: string; namespace?: string; name?: string }

export const objectHash = (o: Named): string => hash('object', { group: o.group, resource: o.resource, namespace: o.namespace, name: o.name });

// stepHash is the address of the object that a step of a request comes from: of a webhook its configuration.
export function stepHash(kind: string, step: string, phase?: string): string | undefined {
  const mutates = phase === 'admit', name = step.split('/')[0], group = 'admissionregistration.k8s.io';
  switch (kind) {
    case 'webhook': return objectHash({ group, resource: mutates ? 'mutatingwebhookconfigurations' : 'validatingwebhookconfigurations', name });
    case 'policy': return objectHash({ group, resource: mutates ? 'mutatingadmissionpolicies' : 'validatingadmissionpolicies', name });
    case 'conversion': return objectHash({ group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions', name });
  }
  return undefined;
}
