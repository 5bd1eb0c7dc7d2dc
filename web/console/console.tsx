// The page: which view is shown, what is said above it, and signing in and out.

import './console.css';
import { Fragment, render, type ComponentType } from 'preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Away, denied, list, SignedOut, signIn, signOut, who as readWho } from './api.ts';
import { Events } from './events.tsx';
import { Explore } from './explore.tsx';
import { ago, moment, second, standStill, type Params } from './format.ts';
import { forgetRead } from './found.ts';
import { Keys, useKeys } from './keys.tsx';
import { forget, kinds } from './kinds.ts';
import type { Who } from './meta.ts';
import { OneObject } from './object.tsx';
import { Planes } from './planes.tsx';
import { OneRequest } from './request.tsx';
import { Requests } from './requests.tsx';
import { Search } from './search.tsx';
import { Controllers, Definitions, Levels, Storage, Watches } from './state.tsx';
import { Talk } from './talk.tsx';
import { Overview, Webhooks } from './traffic.tsx';
import { ShellContext, usePolled, usual, type Shell, type ViewProps } from './view.ts';
import { Writers } from './writers.tsx';

interface View { name: string; title: string; group: string; of: ComponentType<ViewProps> }

const views: View[] = [
  { name: 'overview', title: 'Overview', group: 'Now', of: Overview }, { name: 'requests', title: 'Requests', group: 'Now', of: Requests }, { name: 'events', title: 'Events', group: 'Now', of: Events },
  { name: 'writers', title: 'Writers', group: 'Now', of: Writers },
  { name: 'explore', title: 'Explore', group: 'Objects', of: Explore },
  { name: 'webhooks', title: 'Webhooks', group: 'Server', of: Webhooks }, { name: 'watches', title: 'Watches', group: 'Server', of: Watches }, { name: 'levels', title: 'Priority levels', group: 'Server', of: Levels },
  { name: 'storage', title: 'Storage', group: 'Server', of: Storage }, { name: 'definitions', title: 'CRDs', group: 'Server', of: Definitions }, { name: 'controllers', title: 'Controllers', group: 'Server', of: Controllers },
  { name: 'map', title: 'Map', group: 'Server', of: Talk }, { name: 'planes', title: 'Planes', group: 'Server', of: Planes },
];

// reveal scrolls what an element is in until it shows. scrollIntoView would make it the place from which the keyboard goes on, so that the first
// stop on a page were not its first link.
function reveal(element: Element | null) {
  const room = element?.parentElement;
  if (!element || !room) return;
  const is = element.getBoundingClientRect(), within = room.getBoundingClientRect();
  room.scrollBy(Math.min(0, is.left - within.left) || Math.max(0, is.right - within.right), Math.min(0, is.top - within.top) || Math.max(0, is.bottom - within.bottom));
}

// hidden views are opened from others; they stand in the navigation under one of those.
const hidden: { [name: string]: { of: ComponentType<ViewProps>; under: string } } = { request: { of: OneRequest, under: 'requests' }, object: { of: OneObject, under: 'explore' } };

interface Route { of: ComponentType<ViewProps>; under: string; params: Params; address: string }

// routeOf finds the view that the address names; null if it names none.
function routeOf(address: string): Route | null {
  const [name = '', query] = address.replace(/^#\/?/, '').split(/\?(.*)/s), params: Params = Object.fromEntries(new URLSearchParams(query ?? ''));
  if (name === 'object' && !(params.resource && params.name)) return null;
  const view = views.find(v => v.name === name);
  if (view) return { of: view.of, under: name, params, address };
  const other = Object.hasOwn(hidden, name) ? hidden[name] : undefined;
  return other ? { ...other, params, address } : null;
}

// offeredTo are the views of the navigation: planes only where the server serves them, and no objects in a file.
const offeredTo = (who: Who | null, planes: boolean): View[] => views.filter(v => v.name === 'planes' ? planes : v.name !== 'explore' || !who?.recorded);

// Troubles are what went wrong last for each asker that has trouble, and when the server answered last.
interface Troubles { all: Map<object, unknown>; answered: number }

// spoken says what is wrong; away is when the server does not answer.
function spoken({ all, answered }: Troubles): { text: string; away: boolean } {
  const wrong = [...all.values()], away = wrong.some(e => e instanceof Away);
  return { away, text: away ? `The server does not answer. What is shown is ${Math.round((Date.now() - answered) / 1000)} seconds old.` : wrong.length ? wrong[0] instanceof Error ? wrong[0].message : String(wrong[0]) : '' };
}

// self is the page as an asker: what it asks once is forgotten as soon as any view has an answer.
const self = {};

type State = { is: 'begun' } | { is: 'signin'; why: string } | { is: 'in'; who: Who | null };

function Page() {
  const [state, become] = useState<State>({ is: 'begun' }), [address, go] = useState(location.hash), [planes, offer] = useState(false);
  const [paused, pause] = useState(false), [dialog, open] = useState<'search' | 'keys' | null>(null), [troubles, say] = useState<Troubles>({ all: new Map(), answered: Date.now() });
  const main = useRef<HTMLElement>(null), held = useRef(false);
  held.current = paused;
  const who = state.is === 'in' ? state.who : null, recorded = Boolean(who?.recorded);

  const askToSignIn = useCallback((why: string) => become({ is: 'signin', why }), []);
  const trouble = useCallback((asker: object, e: unknown) => say(({ all, answered }) => {
    const next = new Map(all);
    if (e === null) { next.delete(asker); next.delete(self); } else next.set(asker, e);
    return { all: next, answered: e instanceof Away ? answered : Date.now() };
  }), []);
  const shell = useMemo((): Shell => ({
    recorded, paused: () => held.current, left: asker => trouble(asker, null),
    told(asker, e) {
      if (e instanceof SignedOut) { askToSignIn(''); return; }
      trouble(asker, e);
      const m = main.current;
      if (m) m.dataset.drawn = String(Number(m.dataset.drawn ?? 0) + 1);
    },
  }), [recorded, trouble, askToSignIn]);

  const begin = useCallback(async () => {
    const link = new URLSearchParams(location.hash.slice(1)), code = link.get('code');
    try {
      if (code) {
        history.replaceState(null, '', location.pathname); // it works once, and is nobody's business
        go('');
        await signIn('Kanzen-Console-Code', code);
        sessionStorage.setItem('context', link.get('context') ?? '');
      }
      const who = await readWho();
      if (who.recorded) standStill(who.recorded.to);
      forget();
      forgetRead();
      become({ is: 'in', who });
      if (!who.recorded) offer((await kinds().catch(() => [])).some(k => k.id === 'planes.planes.kanzen.io')); // the views say what is wrong
    } catch (e) {
      if (e instanceof SignedOut) { askToSignIn(code ? 'This link was used before, or is too old.' : ''); return; }
      trouble(self, e);
      become({ is: 'in', who: null });
      setTimeout(begin, usual);
    }
  }, []);
  useEffect(() => {
    void begin();
    const moved = () => {
      if (location.hash.startsWith('#code=')) { void begin(); return; }
      delete main.current?.dataset.drawn;
      go(location.hash);
    };
    addEventListener('hashchange', moved);
    return () => removeEventListener('hashchange', moved);
  }, []);
  useEffect(() => {
    document.body.classList.toggle('paused', paused);
    document.body.classList.toggle('away', state.is === 'in' && spoken(troubles).away);
    if (state.is === 'signin') main.current!.dataset.drawn = 'signin'; else if (main.current!.dataset.drawn === 'signin') delete main.current!.dataset.drawn;
  });

  const route = state.is === 'in' ? routeOf(address) : null, offered = offeredTo(who, planes), titles = offered.map(v => [v.name, v.title] as const);
  useEffect(() => {
    if (state.is === 'in' && !route) location.replace('#/overview');
    reveal(document.querySelector('#nav [aria-current]'));
    if (route) document.title = `${[route.params.name, views.find(v => v.name === route.under)?.title].filter(Boolean).join(' – ')} – kanzen`;
  }, [state.is, address]);
  const inside = (f: () => void) => () => { if (state.is === 'in') f(); };
  useKeys({
    search: inside(() => open('search')), sheet: () => open('keys'), pause: () => { if (!recorded) pause(!paused); }, filter: () => main.current?.querySelector('input')?.focus(),
    digit: n => { const v = offered[n - 1]; if (v) location.hash = `#/${v.name}`; },
  });
  const leave = async () => {
    try { await signOut(); } catch (e) { trouble(self, e); return; }
    sessionStorage.removeItem('context');
    askToSignIn('');
  };
  const said = state.is === 'signin' ? state.why : spoken(troubles).text;
  return <ShellContext.Provider value={shell}>
    <a class="skip" href="#main" onClick={e => { e.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
    <header>
      <strong>kanzen</strong>{who && <Place who={who} />}{state.is === 'in' && who && <Health />}
      <span class="space" />
      <span id="who" title={who ? `${who.user} (${(who.groups ?? []).join(', ')})` : undefined}>{who?.user}</span>
      <button id="search" type="button" title="Keys: Ctrl K, /" onClick={inside(() => open('search'))}>Search</button>
      <button id="keys" type="button" title="Key: ?" aria-label="Keys" onClick={() => open('keys')}>?</button>
      {!recorded && <button id="pause" type="button" aria-pressed={paused} title="Key: p" onClick={() => pause(!paused)}>{paused ? 'Go on' : 'Pause'}</button>}
      {who?.session && <button id="out" type="button" onClick={leave}>Sign out</button>}
    </header>
    <div class="frame">
      <nav id="nav" aria-label="Views">{offered.map((v, n) => <Fragment key={v.name}>{v.group !== offered[n - 1]?.group && <span class="group" aria-hidden="true">{v.group}</span>}
        <a href={`#/${v.name}`} data-view={v.name} aria-current={route?.under === v.name ? 'page' : undefined} title={n < 9 ? `Key: ${n + 1}` : undefined}>{v.title}</a></Fragment>)}</nav>
      <div class="body">
        <p id="trouble" role="alert" hidden={!said}>{said}</p>
        <main id="main" ref={main} tabIndex={-1}>{state.is === 'begun' ? <p>Loading…</p> : state.is === 'signin' ? <SignIn done={begin} refused={askToSignIn} /> : route && <route.of key={route.address} params={route.params} />}</main>
      </div>
    </div>
    <Search open={dialog === 'search'} close={() => open(null)} pages={titles} /><Keys open={dialog === 'keys'} close={() => open(null)} views={titles} />
  </ShellContext.Provider>;
}

// Place says what is looked at: a server, or a file of one.
function Place({ who }: { who: Who }) {
  if (who.recorded) {
    return <><span id="where" title={who.version}>{who.recorded.server}</span><span id="until" title={`requests since ${moment(who.recorded.from)}`}>as saved at {second(who.recorded.to)}</span></>;
  }
  const context = sessionStorage.getItem('context');
  return <>{context && <span id="context" title="The context of the kubeconfig that the link came from">{context}</span>}<span id="where" title={who.version}>{location.host}</span>{who.started && <span class="dim">up {ago(who.started)}</span>}<span id="version" title={who.version}>{who.version.replace(/^.*, /, '').replace(/\+\S+/, '')}</span></>;
}

// Health says how many things are wrong, on each page.
function Health() {
  const found = usePolled(async signal => {
    try { return (await list('findings', { limit: 500 }, signal)).items; } catch (e) {
      if (!denied(e)) throw e;
      return null;
    }
  }, ['health'], 5000);
  if (!found) return null;
  const errors = found.filter(f => f.severity === 'Error').length, warnings = found.filter(f => f.severity === 'Warning').length, several = (n: number, what: string) => n ? `${n} ${what}${n > 1 ? 's' : ''}` : '';
  return <a id="health" href="#/overview" class={errors ? 'bad' : warnings ? 'warn' : 'good'}>{[several(errors, 'error'), several(warnings, 'warning')].filter(Boolean).join(', ') || 'healthy'}</a>;
}

function SignIn({ done, refused }: { done(): Promise<void>; refused(why: string): void }) {
  return <><h1>Sign in</h1>
    <p>Run <code>kanzen console</code> where your kubeconfig is, and open the link that it prints. Or let the browser show a client certificate. Or paste a bearer token:</p>
    <form onSubmit={async e => {
      e.preventDefault();
      const token = e.currentTarget.elements.namedItem('token') as HTMLTextAreaElement, value = token.value.trim();
      token.value = '';
      try { await signIn('Authorization', 'Bearer ' + value); } catch (error) { refused('This token was not accepted: ' + (error instanceof Error ? error.message : String(error))); return; }
      await done();
    }}><label>Token<textarea name="token" spellcheck={false} autocomplete="off" required /></label><button>Sign in</button></form></>;
}

render(<Page />, document.getElementById('page')!);
