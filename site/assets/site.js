// Search and theme. The index is search-index.js; both work on pages that are opened from a disk.

// find returns the sections that have all words of a query. A word in a heading counts more than one in the title of the page, and
// that more than one in the text.
function find(index, query, limit = 12) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const section of index) {
    const heading = (section.heading || '').toLowerCase();
    const page = section.page.toLowerCase();
    const text = section.text.toLowerCase();
    let score = 0;
    for (const word of words) {
      const here = (heading.includes(word) ? 8 : 0) + (page.includes(word) ? 4 : 0) + (text.includes(word) ? 1 : 0);
      if (!here) { score = 0; break; }
      score += here;
    }
    if (score) found.push({ section, score });
  }
  return found.sort((a, b) => b.score - a.score).slice(0, limit).map((f) => f.section);
}

// excerpt returns the text around the first word of a query.
function excerpt(text, query) {
  const at = text.toLowerCase().indexOf(query.toLowerCase().split(/\s+/)[0]);
  const from = Math.max(0, at - 50);
  return (from ? '… ' : '') + text.slice(from, from + 140) + (text.length > from + 140 ? ' …' : '');
}

function showResults(input, list) {
  const up = document.documentElement.dataset.up;
  const query = input.value.trim();
  list.replaceChildren(...find(searchIndex, query).map((section) => {
    const link = document.createElement('a');
    link.href = up + section.url;
    link.textContent = section.heading ? `${section.page} › ${section.heading}` : section.page;
    const small = document.createElement('small');
    small.textContent = excerpt(section.text, query);
    link.append(small);
    const item = document.createElement('li');
    item.append(link);
    return item;
  }));
  if (query && !list.children.length) {
    list.append(Object.assign(document.createElement('li'), { textContent: 'Nothing was found.' }));
  }
  list.hidden = !query;
}

function theme(choose) {
  const root = document.documentElement;
  let chosen = null;
  try { // a browser may refuse storage to pages from a disk
    if (choose) localStorage.setItem('theme', choose);
    chosen = localStorage.getItem('theme');
  } catch { chosen = choose; }
  if (chosen) root.dataset.theme = chosen;
}

if (typeof module !== 'undefined') {
  module.exports = { find };
} else {
  theme(); // before the first paint
  document.addEventListener('DOMContentLoaded', () => {
    const input = document.getElementById('search');
    const list = document.getElementById('results');
    input.addEventListener('input', () => showResults(input, list));
    document.addEventListener('keydown', (e) => {
      if (e.key === '/' && document.activeElement !== input) { input.focus(); e.preventDefault(); }
      if (e.key === 'Escape') { input.value = ''; showResults(input, list); }
    });
    input.addEventListener('keydown', (e) => {
      if (e.key === 'Enter') list.querySelector('a')?.click();
    });
    document.getElementById('theme').addEventListener('click', () => {
      const dark = getComputedStyle(document.documentElement).colorScheme === 'dark'
        || (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
      theme(dark ? 'light' : 'dark');
    });
    if (matchMedia('(max-width: 50rem)').matches) document.querySelector('nav details').open = false;
  });
}
