// The page: which view is shown, how often it is refreshed, and signing in and out.

import { Away, SignedOut, read, signIn, signOut } from './api.js';
import { el, moment, standStill } from './dom.js';
import * as traffic from './traffic.js';
import * as requests from './requests.js';
import * as state from './state.js';
import { map } from './map.js';
import { explore } from './explore.js';
import { object } from './object.js';
import { planes } from './planes.js';
import { forget, kinds } from './kinds.js';
import { forgetRead, search } from './search.js';
import { keys, sheet } from './keys.js';

// A view is a func that gets the element to fill, its parameters and a signal that ends with it, and returns a func that
// refreshes it.
const views = [
  ['overview', 'Overview', traffic.overview], ['requests', 'Requests', requests.list], ['explore', 'Explore', explore],
  ['webhooks', 'Webhooks', traffic.webhooks], ['watches', 'Watches', state.watches], ['levels', 'Priority levels', state.levels],
  ['storage', 'Storage', state.storage], ['definitions', 'CRDs', state.definitions], ['controllers', 'Controllers', state.controllers], ['map', 'Map', map], ['planes', 'Planes', planes],
];
const hidden = { request: requests.one, object };
const under = { request: 'requests', object: 'explore' }; // where they stand in the navigation
const every = 2000;

const byId = id => document.getElementById(id);
const main = byId('main'), trouble = byId('trouble'), pause = byId('pause');
let ending = new AbortController(), timer, paused = false, answered = Date.now();
let recorded = null; // the file of kanzen record that is shown; null: a server answers

function say(text) {
  trouble.hidden = !text;
  if (trouble.textContent !== text) trouble.textContent = text;
}

// answers greys out what is shown while the server is away.
function answers(yes) {
  if (yes) answered = Date.now();
  document.body.classList.toggle('away', !yes);
}

function show() {
  const [name, query] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const view = views.find(v => v[0] === name)?.[2] ?? (Object.hasOwn(hidden, name) ? hidden[name] : undefined);
  if (!view) { location.replace('#/overview'); return; }
  ending.abort();
  ending = new AbortController();
  clearTimeout(timer);
  say('');
  for (const a of byId('nav').children) a.dataset.view === (under[name] ?? name) ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current');
  main.replaceChildren();
  main.removeAttribute('data-drawn');
  const params = Object.fromEntries(new URLSearchParams(query ?? ''));
  document.title = `${[params.name, views.find(v => v[0] === (under[name] ?? name))?.[1]].filter(Boolean).join(' – ')} – kanzen`;
  refresh(view(main, params, ending.signal), ending.signal, true);
}

async function refresh(update, signal, first) {
  if (first || !paused && !document.hidden) {
    try {
      await update();
      if (signal.aborted) return;
      answers(true);
      say('');
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof SignedOut) { askToSignIn(''); return; }
      const away = e instanceof Away;
      answers(!away);
      say(away ? `The server does not answer. What is shown is ${Math.round((Date.now() - answered) / 1000)} seconds old.` : e.message);
    }
    main.setAttribute('data-drawn', String(Number(main.dataset.drawn ?? 0) + 1));
  }
  if (!recorded) timer = setTimeout(() => refresh(update, signal, false), every);
}

function askToSignIn(why) {
  ending.abort();
  clearTimeout(timer);
  say(why);
  byId('who').textContent = '';
  byId('out').hidden = true;
  const token = el('textarea', { name: 'token', spellcheck: 'false', autocomplete: 'off', required: true });
  main.replaceChildren(el('h1', {}, 'Sign in'),
    el('p', {}, 'Run ', el('code', {}, 'kanzen console'), ' where your kubeconfig is, and open the link that it prints. Or let the browser show a client certificate. Or paste a bearer token:'),
    el('form', { onsubmit: async e => {
      e.preventDefault();
      const value = token.value.trim();
      token.value = '';
      try { await signIn('Authorization', 'Bearer ' + value); } catch (error) { askToSignIn('This token was not accepted: ' + error.message); return; }
      begin();
    } }, el('label', {}, 'Token', token), el('button', {}, 'Sign in')));
  main.setAttribute('data-drawn', 'signin');
}

async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  try {
    if (code) {
      history.replaceState(null, '', location.pathname); // it works once, and is nobody's business
      await signIn('Kanzen-Console-Code', code);
    }
    const who = await read('whoami');
    if (who.recorded) return showFile(who);
    byId('who').textContent = who.user;
    byId('where').textContent = location.host;
    byId('where').title = who.version;
    byId('who').title = `${who.user} (${(who.groups ?? []).join(', ')}) at ${who.version}`;
    byId('out').hidden = !who.session;
    forget();
    forgetRead();
    planesTold();
    main.removeAttribute('data-drawn'); // the form is done with, if there was one
  } catch (e) {
    if (e instanceof SignedOut) { askToSignIn(code ? 'This link was used before, or is too old.' : ''); return; }
    say(e.message);
  }
  show();
}

// showFile shows what a file holds. Nothing in it changes, and it holds no objects.
function showFile(who) {
  recorded = who.recorded;
  standStill(recorded.to);
  byId('who').textContent = who.user;
  byId('where').textContent = recorded.server;
  byId('where').title = who.version;
  byId('until').textContent = `as saved at ${moment(recorded.to).slice(0, 19)}Z`;
  byId('until').title = `requests since ${moment(recorded.from)}`;
  pause.hidden = true;
  byId('nav').querySelector('[data-view=explore]').hidden = true;
  show();
}

// offered are the views of the navigation: that of planes only where the server serves them.
let withPlanes = false;
const offered = () => views.filter(([name]) => name === 'planes' ? withPlanes : name !== 'explore' || !recorded);

async function planesTold() {
  try { withPlanes = (await kinds()).some(k => k.id === 'planes.planes.kanzen.io'); } catch { return; } // the views say what is wrong
  byId('nav').querySelector('[data-view=planes]').hidden = !withPlanes;
}

byId('nav').append(...views.map(([name, title], n) => el('a', { href: `#/${name}`, 'data-view': name, hidden: name === 'planes', title: n < 9 ? `Key: ${n + 1}` : undefined }, title)));
pause.addEventListener('click', () => {
  paused = !paused;
  document.body.classList.toggle('paused', paused);
  pause.setAttribute('aria-pressed', String(paused));
  pause.textContent = paused ? 'Go on' : 'Pause';
});
byId('out').addEventListener('click', async () => {
  try { await signOut(); } catch (e) { say(e.message); return; }
  askToSignIn('');
});
addEventListener('hashchange', () => {
  if (location.hash.startsWith('#code=')) begin(); else if (main.dataset.drawn !== 'signin') show();
});
const signedIn = f => () => { if (main.dataset.drawn !== 'signin') f(); };
const openSearch = signedIn(search(offered)), openKeys = sheet(offered);
byId('search').addEventListener('click', openSearch);
byId('keys').addEventListener('click', openKeys);
keys({ search: openSearch, sheet: openKeys, pause: () => pause.click(), filter: () => main.querySelector('input')?.focus(), digit: n => { location.hash = `#/${offered()[n - 1][0]}`; } });
begin();
