// What was done to an object: as the flight recorder has seen it, with refusals, and as the history keeps it.

import { read } from './api.js';
import { ago, clip, count, el, hash, link, moment, resource } from './dom.js';

export const who = r => r.impersonated ? `${r.impersonated} (by ${r.user})` : r.user ?? '';
export const target = r => r.resource ? `${resource(r)}${r.subresource ? '/' + r.subresource : ''} ${[r.namespace, r.name].filter(Boolean).join('/')}` : r.path ?? '';
export const objectOf = r => hash('object', { group: r.group, resource: r.resource, namespace: r.namespace, name: r.name });

// value shows the JSON of a field as people read it: the API escapes what could be markup.
function value(json) {
  try { return JSON.stringify(JSON.parse(json)); } catch { return json; }
}

// changes are the fields that a write has changed.
export function changes(c) {
  if (!c.fields?.length) return el('span');
  return el('div', { class: 'scroll' }, el('table', { 'aria-label': 'Changed fields' }, c.fields.map(f => el('tr', {}, el('td', {}, el('code', {}, f.path)),
    el('td', {}, f.hidden ? el('span', { class: 'dim' }, 'hidden') : [f.old ? el('del', {}, value(f.old)) : '', f.old && f.new ? ' → ' : '', f.new ? el('ins', {}, value(f.new)) : f.old ? '' : 'changed'])))),
    c.moreFields ? el('p', { class: 'dim' }, `and ${count(c.moreFields)} more fields`) : null);
}

// timeline fills a section with what the flight recorder remembers of an object. It returns a func that refreshes it.
export function timeline(place, where, signal) {
  let before;
  return async () => {
    const h = await read('history', where, signal), entries = h.status.entries ?? [];
    const now = JSON.stringify([entries, h.status.forgotten]);
    if (now === before) return; // nothing has happened; the focus stays
    before = now;
    const note = !entries.length ? 'Nobody has written it while this server remembers.' : h.status.forgotten ? `${h.status.forgotten} older entries were forgotten.` : '';
    place.fill(note ? el('p', { class: 'dim' }, note) : null, el('ol', { class: 'timeline', 'aria-label': 'What was done to the object, the newest first' }, entries.toReversed().map(entry)));
  };
}

function entry(e) {
  return el('li', { class: e.code >= 400 ? 'refused' : undefined },
    el('div', {}, link(hash('request', { name: 'r' + e.request }), moment(e.last)), ` ${ago(e.last)} ago`, e.count > 1 ? `, ${e.count} times since ${moment(e.first)}` : ''),
    el('div', {}, el('b', {}, e.code >= 400 ? `${e.verb} refused (${e.code} ${e.reason ?? ''})` : e.operation || e.verb), e.subresource ? ` ${e.subresource}` : '', ' by ', clip(who(e)), e.userAgent ? ' with ' : '', clip(e.userAgent ?? '')),
    (e.refusedFields ?? []).length ? el('div', { class: 'bad' }, 'because of ', e.refusedFields.join(', ')) : null,
    (e.steps ?? []).map(s => el('div', { class: s.result === 'Allowed' ? 'dim' : 'bad' }, `${s.kind} ${s.name}: ${s.result}${s.changed ? ', changed it' : ''}${s.ignored ? ', ignored' : ''}`)),
    changes(e));
}

const shown = v => { const text = JSON.stringify(v); return text.length > 400 ? text.slice(0, 400) + '…' : text; };

// changesOf lists the changes of a history, each with a link to the object as it was then.
export function changesOf(list, where, hides) {
  if (!list.items?.length) return el('p', { class: 'dim' }, `Nothing has changed since resourceVersion ${list.since}, where the history begins.`);
  return el('div', {}, list.more ? el('p', { class: 'dim' }, `The newest ${list.items.length}; kanzen history shows older ones.`) : null, el('ol', { class: 'timeline', 'aria-label': 'Changes, the newest first' }, list.items.map(r => el('li', {},
    el('div', {}, r.operation === 'Deleted' ? moment(r.time) : link(hash('object', { ...where, at: r.resourceVersion }), moment(r.time)), ` ${ago(r.time)} ago, resourceVersion ${r.resourceVersion}`),
    el('div', {}, el('b', {}, r.operation), r.user ? [' by ', clip(r.user)] : '', r.managers?.length ? ` as ${r.managers.join(', ')}` : '', r.unreadable ? el('span', { class: 'bad' }, ` cannot be read: ${r.unreadable}`) : ''),
    r.changes?.length ? el('div', { class: 'scroll' }, el('table', { 'aria-label': 'Changed fields' }, r.changes.map(c => el('tr', {}, el('td', {}, el('code', {}, c.path)), el('td', {}, hides ? el('span', { class: 'dim' }, 'hidden')
      : [c.old === undefined ? '' : el('del', {}, shown(c.old)), c.old !== undefined && c.new !== undefined ? ' → ' : '', c.new === undefined ? '' : el('ins', {}, shown(c.new))]))))) : null,
    r.moreChanges ? el('p', { class: 'dim' }, 'and more fields') : null))));
}
