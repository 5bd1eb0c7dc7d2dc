// What the page asks the server. Each answer is what the API says to the viewer, or its refusal.

import type { Controller, Datastore, Definition, Finding, ObjectHistory, PlaneServer, PlaneStat, PriorityLevel, Request, TimeSeries, TrafficStat, View, Watch, WebhookStat } from './answers.gen.ts';
import type { GroupDiscovery, List, ObjectTable, Obj, RevisionList, Space, WatchEvent, Who } from './meta.ts';
import type { Named } from './format.ts';

export class SignedOut extends Error {}
export class Refused extends Error {}
export class Forgotten extends Error {}
export class Away extends Error {}

// denied says that an error is the API's no.
export function denied(e: unknown): e is Refused { return e instanceof Refused && e.message.startsWith('403:'); }

// absent says that an error is what the API says of one object or list, and not of the server.
export function absent(e: unknown): e is Error { return e instanceof Refused || e instanceof Forgotten; }

type Query = { [name: string]: string | number | undefined };

const common: RequestInit = { cache: 'no-store', credentials: 'same-origin', redirect: 'error' };

async function answer(path: string, options: RequestInit): Promise<unknown> {
  const stop = AbortSignal.timeout(30_000);
  let response: Response, text: string;
  try {
    response = await fetch(new URL(path, document.baseURI), { ...common, ...options, signal: options.signal ? AbortSignal.any([options.signal, stop]) : stop });
    text = await response.text();
  } catch (e) {
    throw new Away(e instanceof Error ? e.message : String(e));
  }
  if (response.ok) return response.status === 204 ? null : JSON.parse(text);
  let said = text;
  try { said = (JSON.parse(text) as { message?: string }).message ?? text; } catch { /* it is no Status */ }
  if (response.status === 401) throw new SignedOut(said);
  if (response.status === 404) throw new Forgotten(said);
  throw new Refused(`${response.status}: ${said}`);
}

function query(params: Query): URLSearchParams {
  return new URLSearchParams(Object.entries(params).filter(([, v]) => v !== undefined && v !== '').map(([k, v]) => [k, String(v)]));
}

function read<T>(path: string, params: Query, signal?: AbortSignal): Promise<T> {
  const q = query(params);
  return answer(`data/${path}${q.size ? '?' + q : ''}`, { signal }) as Promise<T>;
}

// readList reads a list. Go writes null for an empty one, if nobody has taken care.
async function readList<T>(path: string, params: Query, signal?: AbortSignal): Promise<List<T>> {
  const list = await read<Omit<List<T>, 'items'> & { items?: T[] | null }>(path, params, signal);
  return { ...list, metadata: list.metadata ?? {}, items: list.items ?? [] };
}

// Recorded are the resources of the flight recorder that the page reads.
export interface Recorded {
  requests: Request; watches: Watch; webhookstats: WebhookStat; trafficstats: TrafficStat; timeseries: TimeSeries; views: View; controllers: Controller;
  datastores: Datastore; prioritylevels: PriorityLevel; definitions: Definition; findings: Finding; planestats: PlaneStat; planeservers: PlaneServer;
}

export interface Page { fields?: { [field: string]: string | undefined }; limit?: number; from?: string }

// list reads the first page of a list. Fields select by equality.
export function list<R extends keyof Recorded>(resource: R, { fields, limit, from }: Page, signal?: AbortSignal): Promise<List<Recorded[R]>> {
  const selector = Object.entries(fields ?? {}).filter(([, v]) => v).map(([k, v]) => `${k}=${v!.replace(/[\\,=]/g, '\\$&')}`).join(',');
  return readList(resource, { fieldSelector: selector, limit, continue: from }, signal);
}

export function one<R extends keyof Recorded>(resource: R, name: string, signal?: AbortSignal): Promise<Recorded[R]> {
  return read(`${resource}/${encodeURIComponent(name)}`, {}, signal);
}

export function who(signal?: AbortSignal): Promise<Who> { return read('whoami', {}, signal); }

// space has the server look at all of its database, and compares with what there was an hour or a day before.
export function space(since: '1h' | '24h', signal?: AbortSignal): Promise<Space> { return read('space', { since }, signal); }

export function history(of: Named, signal?: AbortSignal): Promise<ObjectHistory> {
  return read('history', { group: of.group, resource: of.resource, namespace: of.namespace, name: of.name }, signal);
}

export function discovery(prefix: 'api' | 'apis', signal?: AbortSignal): Promise<List<GroupDiscovery>> { return readList('kinds', { prefix }, signal); }

// Place is where objects of a kind are read.
export interface Place { group: string; version: string; resource: string }

// Which says which objects of a kind are wanted, and how.
export interface Which { namespace?: string; labelSelector?: string; fieldSelector?: string; limit?: number; continue?: string; resourceVersion?: string; visible?: 'true' | '' }

const at = (kind: Place): Query => ({ group: kind.group, version: kind.version, resource: kind.resource });

export function objects<T>(kind: Place, which: Which, signal?: AbortSignal): Promise<List<T>> { return readList('objects', { ...at(kind), ...which }, signal); }

export function names(kind: Place, which: Which, signal?: AbortSignal): Promise<List<Obj>> { return readList('objects', { ...at(kind), ...which, as: 'names' }, signal); }

export function rows(kind: Place, which: Which, signal?: AbortSignal): Promise<ObjectTable> { return read('objects', { ...at(kind), ...which, as: 'table' }, signal); }

// object reads one, as it is or as it was.
export function object(kind: Place, of: { namespace?: string; name: string; at?: string }, signal?: AbortSignal): Promise<Obj> {
  return read('objects', { ...at(kind), ...of }, signal);
}

export function revisions(kind: Place, of: { namespace?: string; name: string }, signal?: AbortSignal): Promise<RevisionList> {
  return read('objects', { ...at(kind), ...of, revisions: 'true', limit: 50 }, signal);
}

// follow watches objects of a kind and passes on each event, until the watch ends.
export async function follow(kind: Place, which: Which, told: (e: WatchEvent) => void, signal: AbortSignal): Promise<void> {
  const q = query({ ...at(kind), ...which, as: 'table', watch: 'true' });
  let rest = '';
  try {
    const response = await fetch(new URL(`data/objects?${q}`, document.baseURI), { ...common, signal });
    if (!response.ok || !response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line) told(JSON.parse(line) as WatchEvent);
    }
  } catch { /* the connection has ended; the list that follows says why */ }
}

export function signIn(header: string, value: string): Promise<unknown> { return answer('session', { method: 'POST', headers: { [header]: value } }); }

export function signOut(): Promise<unknown> { return answer('session', { method: 'DELETE' }); }
