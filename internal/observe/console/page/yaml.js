// An object as YAML, and who has written each line of it.

// strange are characters that would not be seen, or change the order in which others are.
const strange = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const escaped = text => JSON.stringify(text).replace(strange, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
const plain = /^[A-Za-z/_]([\w./@+:-]*[\w./@+-])?( [\w.@+-]([\w./@+:-]*[\w./@+-])?)*$/;
const words = /^(true|false|yes|no|on|off|null|y|n|~)$/i;

function scalar(v) {
  if (typeof v !== 'string') return v === null ? 'null' : JSON.stringify(v);
  return plain.test(v) && !words.test(v) ? v : escaped(v);
}

// below is the path of a field, as the server writes it in histories.
export function below(path, key) {
  const name = key === '' || /[ "]/.test(key) ? JSON.stringify(key) : key;
  return path ? `${path}.${name}` : name;
}

// lines are those of an object: {depth, text, path}. A path belongs to the value in its line; lines of containers have none.
export function lines(value) {
  const out = [];
  const put = (depth, text, path) => out.push({ depth, text, path });
  const walk = (v, depth, path, lead) => {
    if (Array.isArray(v) && v.length) {
      if (lead !== '') put(depth, lead);
      v.forEach((item, n) => {
        const at = `${path}[${n}]`, from = out.length;
        if (item !== null && typeof item === 'object' && Object.keys(item).length) {
          walk(item, depth + 1, at, '');
          const first = out[from];
          first.depth--;
          first.text = '- ' + first.text;
        } else put(depth, '- ' + (item !== null && typeof item === 'object' ? Array.isArray(item) ? '[]' : '{}' : scalar(item)), at);
      });
    } else if (v !== null && typeof v === 'object' && !Array.isArray(v) && Object.keys(v).length) {
      if (lead !== '') put(depth, lead);
      for (const [key, each] of Object.entries(v)) walk(each, lead === '' ? depth : depth + 1, below(path, key), scalar(key) + ':');
    } else if (typeof v === 'string' && v.includes('\n') && v.match(strange) === null && !/^\s/.test(v)) {
      const end = v.endsWith('\n') ? v.endsWith('\n\n') ? '+' : '' : '-';
      put(depth, `${lead} |${end}`.trim(), path);
      for (const line of (v.endsWith('\n') ? v.slice(0, -1) : v).split('\n')) put(depth + 1, line, path);
    } else put(depth, `${lead} ${v !== null && typeof v === 'object' ? Array.isArray(v) ? '[]' : '{}' : scalar(v)}`.trim(), path);
  };
  walk(value, 0, '', '');
  return out;
}

export function text(value) { return lines(value).map(l => '  '.repeat(l.depth) + l.text).join('\n') + '\n'; }

// writers are the field managers by the paths that they own: {manager, time, operation, subresource}. Of several the one that has written
// last counts.
export function writers(object) {
  const out = new Map(), managed = [...object.metadata?.managedFields ?? []].sort((a, b) => String(a.time ?? '').localeCompare(String(b.time ?? '')));
  for (const m of managed) owned(m.fieldsV1 ?? {}, object, '', path => out.set(path, m));
  return out;
}

function owned(set, value, path, told) {
  const inside = (sub, v, at) => {
    const names = Object.keys(sub ?? {});
    if (!names.length || names.length === 1 && names[0] === '.') leaves(v, at, told); else owned(sub, v, at, told);
  };
  for (const [element, sub] of Object.entries(set)) {
    const cut = element.indexOf(':'), kind = element.slice(0, cut), name = element.slice(cut + 1);
    if (cut < 0 || value === null || typeof value !== 'object') continue;
    if (!Array.isArray(value)) {
      if (kind === 'f' && Object.hasOwn(value, name)) inside(sub, value[name], below(path, name));
    } else value.forEach((item, n) => { if (selects(kind, name, item, n)) inside(sub, item, `${path}[${n}]`); });
  }
}

function leaves(v, path, told) {
  if (v === null || typeof v !== 'object' || !Object.keys(v).length) told(path);
  else if (Array.isArray(v)) v.forEach((item, n) => leaves(item, `${path}[${n}]`, told));
  else for (const [key, each] of Object.entries(v)) leaves(each, below(path, key), told);
}

// selects says whether an element of a field set stands for an item of a list.
function selects(kind, text, item, n) {
  let want;
  try { want = JSON.parse(text); } catch { return false; }
  if (kind === 'v') return JSON.stringify(want) === JSON.stringify(item);
  if (kind === 'i') return want === n;
  const keys = Object.entries(want ?? {});
  return kind === 'k' && keys.length > 0 && keys.every(([k, v]) => item?.[k] === v || k === 'protocol' && v === 'TCP' && item?.[k] === undefined);
}

// differences are the fields in which two values differ: [path, old, new].
export function differences(a, b, path = '', out = []) {
  const object = v => v !== null && typeof v === 'object' && !Array.isArray(v);
  if (object(a) && object(b)) {
    for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) differences(a[key], b[key], below(path, key), out);
  } else if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) a.forEach((v, n) => differences(v, b[n], `${path}[${n}]`, out));
  else if (JSON.stringify(a) !== JSON.stringify(b)) out.push([path, a, b]);
  return out;
}
