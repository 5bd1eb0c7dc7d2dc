// What the page asks the server. Each answer is what the API says to the viewer, or its refusal.

export class SignedOut extends Error {}
export class Refused extends Error {}
export class Forgotten extends Error {}
export class Away extends Error {}

// denied says that an error is the API's no.
export function denied(e) { return e instanceof Refused && e.message.startsWith('403:'); }

async function answer(path, options) {
  const stop = AbortSignal.timeout(30_000);
  let response, text;
  try {
    response = await fetch(new URL(path, document.baseURI), { cache: 'no-store', credentials: 'same-origin', redirect: 'error', ...options,
      signal: options?.signal ? AbortSignal.any([options.signal, stop]) : stop });
    text = await response.text();
  } catch (e) {
    throw new Away(e.message);
  }
  if (response.ok) return response.status === 204 ? null : JSON.parse(text);
  let said = text;
  try { said = JSON.parse(text).message ?? text; } catch { /* it is no Status */ }
  if (response.status === 401) throw new SignedOut(said);
  if (response.status === 404) throw new Forgotten(said);
  throw new Refused(`${response.status}: ${said}`);
}

export function read(path, params, signal) {
  const q = new URLSearchParams(Object.entries(params ?? {}).filter(([, v]) => v !== undefined && v !== ''));
  return answer(`data/${path}${q.size ? '?' + q : ''}`, { signal });
}

// list reads the first page of a list. Fields select by equality.
export function list(resource, { fields, limit, from } = {}, signal) {
  const selector = Object.entries(fields ?? {}).filter(([, v]) => v).map(([k, v]) => `${k}=${String(v).replace(/[\\,=]/g, '\\$&')}`).join(',');
  return read(resource, { fieldSelector: selector, limit, continue: from }, signal);
}

// objects reads objects of a kind: a list, or one if the parameters have a name.
export function objects(kind, params, signal) { return read('objects', { group: kind.group, version: kind.version, resource: kind.resource, ...params }, signal); }

// follow watches objects of a kind and passes on each event, until the watch ends.
export async function follow(kind, params, told, signal) {
  const q = new URLSearchParams(Object.entries({ group: kind.group, version: kind.version, resource: kind.resource, ...params, watch: 'true' }).filter(([, v]) => v));
  let rest = '', reader;
  try {
    const response = await fetch(new URL(`data/objects?${q}`, document.baseURI), { cache: 'no-store', credentials: 'same-origin', redirect: 'error', signal });
    if (!response.ok) return;
    reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) if (line) told(JSON.parse(line));
    }
  } catch { /* the connection has ended; the list that follows says why */ }
}

export function signIn(header, value) { return answer('session', { method: 'POST', headers: { [header]: value } }); }

export function signOut() { return answer('session', { method: 'DELETE' }); }
