// What the keyboard does, and a sheet that says so.

import { el } from './dom.js';

const others = [['Ctrl K or /', 'Search pages, kinds, namespaces, findings and objects'], ['f', 'Go to the filter of the page'], ['p', 'Pause, go on'], ['?', 'Show these keys'], ['Escape', 'Close what is open'],
  ['Tab, Enter', 'Go through links, headings and buttons; Enter on a heading sorts by it'], ['Drag over a chart', 'Show the requests of that time; From and To do the same by hand']];

// sheet makes the dialog of keys. It returns a func that opens it.
export function sheet(views) {
  const close = el('button', { type: 'button', onclick: () => dialog.close() }, 'Close'), list = el('dl', {});
  const dialog = el('dialog', { class: 'keys', 'aria-label': 'Keys' }, el('h2', {}, 'Keys'), list, close);
  document.body.append(dialog);
  dialog.addEventListener('keydown', e => { if (e.key !== 'Tab') e.stopPropagation(); });
  return () => {
    list.replaceChildren(...[...views().slice(0, 9).map(([, title], n) => [String(n + 1), title]), ...others].flatMap(([key, what]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, what)]));
    if (!dialog.open) dialog.showModal();
  };
}

// keys calls what a key stands for: an object of funcs by key, digit(n) for 1 to 9.
export function keys(on) {
  addEventListener('keydown', e => {
    if ((e.ctrlKey || e.metaKey) && !e.altKey && e.key.toLowerCase() === 'k') { e.preventDefault(); on.search(); return; }
    if (e.ctrlKey || e.altKey || e.metaKey || e.target.closest('input, textarea, select, dialog')) return;
    if (e.key === '/') { e.preventDefault(); on.search(); } else if (e.key === 'f') { e.preventDefault(); on.filter(); } else if (e.key === 'p') on.pause();
    else if (e.key === '?') on.sheet();
    else if (/^[1-9]$/.test(e.key)) on.digit(Number(e.key));
  });
}
