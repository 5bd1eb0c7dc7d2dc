// What is wrong now, the worst first: the first thing on the first page.

import { denied, list } from './api.js';
import { el, hash, link } from './dom.js';

// findings makes the section. It returns its node and a func that refreshes it. The one that is wanted is opened and gets the focus.
export function findings(signal, wanted) {
  const node = el('section', { 'aria-label': 'What is wrong now' }), open = new Set();
  let sought = wanted;
  const draw = (...content) => node.replaceChildren(...content);
  return { node, async update() {
    let all;
    try {
      all = (await list('findings', { limit: 500 }, signal)).items;
    } catch (e) {
      if (!denied(e)) throw e;
      draw(el('p', { class: 'about' }, 'What is wrong now is not told to you: ' + e.message));
      return;
    }
    const selection = getSelection();
    if (selection && !selection.isCollapsed && node.contains(selection.anchorNode)) return; // somebody is copying a command
    const focused = node.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    if (!all.length) {
      draw(el('p', { class: 'good' }, 'Nothing is wrong.'));
      return;
    }
    draw(el('h2', {}, 'What is wrong now'), el('ol', { class: 'findings' }, all.map(f => one(f, open))));
    if (sought) {
      const at = [...node.querySelectorAll('summary')].find(n => n.dataset.key === sought);
      sought = '';
      if (at) { at.parentElement.open = true; at.focus(); }
    }
    if (focused !== undefined) [...node.querySelectorAll('[data-key]')].find(n => n.dataset.key === focused)?.focus();
  } };
}

// one shows a finding; its details stay open while it lasts. Errors are open from the start.
function one(f, open) {
  const name = f.metadata.name;
  const details = el('details', { open: f.severity === 'Error' ? !open.has(name) : open.has(name), ontoggle: e => {
    (e.target.open === (f.severity === 'Error')) ? open.delete(name) : open.add(name);
  } }, el('summary', { 'data-key': name }, el('b', { class: f.severity === 'Error' && 'bad' }, f.severity), ' ', f.summary, el('span', { class: 'dim' }, ` since ${new Date(f.since).toISOString().slice(0, 19).replace('T', ' ')}Z`)),
    el('dl', {}, [['Impact', f.impact], ['Cause', f.cause], ...(f.evidence ?? []).map(text => ['Seen', text])].filter(([, text]) => text).flatMap(([what, text]) => [el('dt', {}, what), el('dd', {}, text)]),
      f.requests?.length ? [el('dt', {}, 'Requests'), el('dd', {}, f.requests.flatMap(r => [link(hash('request', { name: r }), r), ' ']))] : [],
      (f.commands ?? []).flatMap(c => [el('dt', {}, 'Try'), el('dd', {}, el('code', {}, c))])));
  return el('li', { class: f.severity.toLowerCase() }, details);
}
