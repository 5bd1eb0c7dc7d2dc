// What views are made of. All text comes in as text nodes: nothing that a client or an object is called becomes markup.

export function el(name, props = {}, ...children) {
  const node = document.createElement(name);
  return fill(node, props, children);
}

export function svg(name, props = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  return fill(node, props, children);
}

function fill(node, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'value') node.value = value;
    else node.setAttribute(key, value === true ? '' : String(value));
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null) node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export function link(href, text) { return el('a', { href, 'data-key': href }, text); }

// breakable text may go on in the next line after each dot: names of resources are long.
export function breakable(text) { return text.split(/(?<=\.)/).flatMap((part, n) => n ? [el('wbr'), part] : [part]); }

// hash makes the address of a view.
export function hash(view, params = {}) {
  const q = new URLSearchParams(Object.entries(params).filter(([, v]) => v));
  return `#/${view}${q.size ? '?' + q : ''}`;
}

// table shows rows, each an object. A column is {name, of(row), number, cell(row)}: of gives what is sorted by and shown,
// cell a node to show in its place.
export function table(caption, columns, { key, sort = null, empty = 'Nothing.' } = {}) {
  let rows = [], by = sort, down = true;
  const body = el('tbody'), heads = [];
  const head = el('tr', {}, columns.map((c, n) => {
    const th = el('th', { scope: 'col', class: c.number && 'n', title: c.about }, el('button', { type: 'button', onclick: () => {
      down = by === n ? !down : Boolean(c.number);
      by = n;
      draw();
    } }, c.name));
    heads.push(th);
    return th;
  }));
  const draw = () => {
    heads.forEach((th, n) => by === n ? th.setAttribute('aria-sort', down ? 'descending' : 'ascending') : th.removeAttribute('aria-sort'));
    const selection = getSelection();
    if (selection && !selection.isCollapsed && body.contains(selection.anchorNode)) return; // somebody is copying
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const shown = [...rows];
    if (by !== null) {
      const of = columns[by].of;
      shown.sort((a, b) => {
        const x = of(a), y = of(b);
        const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
        return down ? -order : order;
      });
    }
    body.replaceChildren(...shown.map(row => el('tr', {}, columns.map(c => {
      const content = c.cell ? c.cell(row) : c.show ? c.show(c.of(row)) : c.of(row);
      return el('td', { class: [c.number && 'n', c.class && c.class(row)].filter(Boolean).join(' ') || undefined }, clip(content));
    }))));
    if (!shown.length) body.append(el('tr', {}, el('td', { colspan: columns.length, class: 'dim' }, empty)));
    if (focused !== undefined) [...body.querySelectorAll('[data-key]')].find(n => n.dataset.key === focused)?.focus();
  };
  const node = el('div', { class: 'scroll' }, el('table', { 'aria-label': caption }, el('thead', {}, head), body));
  return { node, set(next) { rows = next; draw(); } };
}

// clip keeps long text from filling the page: it can be scrolled.
export function clip(content) {
  if (typeof content === 'string' && content.length > 400) return el('span', { class: 'clip', tabindex: 0 }, content);
  return content;
}

// form shows fields, and calls done with what is in them.
export function form(fields, values, action, done) {
  const inputs = fields.map(f => el(f.options ? 'select' : 'input', { name: f.name, value: f.options ? undefined : values[f.name] ?? '', size: f.options ? undefined : f.size ?? 12, autocomplete: 'off' },
    (f.options ?? []).map(o => el('option', { value: o, selected: (values[f.name] ?? '') === o }, o || f.none || 'any'))));
  return el('form', { onsubmit: e => {
    e.preventDefault();
    done(Object.fromEntries(inputs.map(i => [i.name, i.value.trim()])));
  } }, inputs.map((input, n) => el('label', {}, fields[n].label, input)), el('button', {}, action));
}

export function card(name, value, cls) { return el('div', { class: 'card' }, el('b', { class: cls }, value), el('span', {}, name)); }

// Durations come as Go writes them: "1m2.5s", "300µs".
const units = { ns: 1e-6, 'µs': 1e-3, us: 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5 };
export function ms(text) {
  let sum = 0;
  for (const [, n, unit] of String(text ?? '').matchAll(/([\d.]+)(ns|µs|us|ms|s|m|h)/g)) sum += Number(n) * units[unit];
  return sum;
}

export function time(m) {
  if (!m) return '0';
  if (m < 1) return `${Math.round(m * 1000)} µs`;
  if (m < 1000) return `${m < 10 ? m.toFixed(2) : m.toFixed(1)} ms`;
  if (m < 120e3) return `${(m / 1e3).toFixed(2)} s`;
  return `${Math.round(m / 6e4)} min`;
}

export function rate(n) { return n >= 100 ? Math.round(n).toLocaleString('en') : n >= 10 ? n.toFixed(1) : n.toFixed(2); }

export function bytes(n) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1024 || unit === 'GiB') return `${unit === 'B' ? n : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
}

export function count(n) { return (n ?? 0).toLocaleString('en'); }

export function resource(o) { return (o.resource ?? '') + (o.group ? '.' + o.group : ''); }

export function clock(text) { return text ? new Date(text).toISOString().slice(11, 23) : ''; }

export function moment(text) { return text ? new Date(text).toISOString().replace('T', ' ').slice(0, 23) + 'Z' : ''; }

let still = null;

// now is the time that ages are told for: that of the viewer, or the end of what a file has saved.
export function now() { return still ?? Date.now(); }

export function standStill(text) { still = Date.parse(text); }

// ago says how long ago something was, as kubectl does.
export function ago(text) {
  const s = Math.max(0, (now() - Date.parse(text)) / 1000);
  if (Number.isNaN(s)) return '';
  if (s < 120) return `${Math.floor(s)}s`;
  if (s < 3600) return s < 600 && s % 60 >= 1 ? `${Math.floor(s / 60)}m${Math.floor(s % 60)}s` : `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

// copied is a button that copies a text, and says that it has.
export function copied(label, text) {
  const button = el('button', { type: 'button', onclick: async () => {
    const said = await navigator.clipboard.writeText(typeof text === 'function' ? text() : text).then(() => 'Copied', () => 'The browser does not let the page copy');
    button.textContent = said;
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}

// quoted is a word for a shell.
export function quoted(word) { return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`; }

// every lets a func run once in a while, however often it is called.
export function every(interval, f) {
  let next = 0;
  return async () => {
    if (Date.now() < next) return;
    next = Date.now() + interval;
    try { await f(); } catch (e) { next = 0; throw e; }
  };
}
