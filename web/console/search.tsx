// The dialog of the search, which the keyboard alone can use.

import { useEffect, useRef, useState } from 'preact/hooks';
import { SignedOut } from './api.ts';
import { found, gather, said } from './found.ts';

// pause is how long nobody types before more is read.
const pause = 120;

// Search shows the dialog while it is open. pages are the views that are offered.
export function Search({ open, close, pages }: { open: boolean; close(): void; pages: readonly (readonly [string, string])[] }) {
  const dialog = useRef<HTMLDialogElement>(null), [query, ask] = useState(''), [at, choose] = useState(0), [, redraw] = useState(0), [trouble, say] = useState('');
  const chosen = useRef<string | undefined>(undefined); // whom the arrows have chosen: it stays chosen while results come
  const end = useRef(new AbortController());
  useEffect(() => {
    if (!open) return;
    ask('');
    choose(0);
    say('');
    chosen.current = undefined;
    end.current = new AbortController();
    dialog.current!.showModal();
    return () => end.current.abort();
  }, [open]);
  useEffect(() => {
    if (!open) return;
    const { signal } = end.current;
    const due = setTimeout(() => gather(query, signal, () => redraw(n => n + 1)).catch((e: unknown) => {
      if (!signal.aborted && query) say(e instanceof SignedOut ? 'You are signed out.' : e instanceof Error ? e.message : String(e)); // what is missing is said once something is sought
    }), query ? pause : 0);
    return () => clearTimeout(due);
  }, [open, query]);
  const hits = open ? found(query, pages) : [], kept = chosen.current === undefined ? -1 : hits.findIndex(h => h.href === chosen.current);
  const now = kept >= 0 ? kept : Math.min(at, Math.max(0, hits.length - 1));
  useEffect(() => { document.getElementById(`result-${now}`)?.scrollIntoView({ block: 'nearest' }); }, [now, hits.length]);
  const mark = (n: number) => {
    choose(n);
    chosen.current = hits[n]?.href;
  };
  const go = (n: number) => {
    const hit = hits[n];
    if (!hit) return;
    dialog.current!.close();
    location.hash = hit.href;
  };
  const press = (e: KeyboardEvent) => {
    e.stopPropagation();
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[e.key];
    if (step && hits.length) mark(Math.abs(step) === 1 ? (now + step + hits.length) % hits.length : Math.min(Math.max(now + step, 0), hits.length - 1));
    else if (e.key === 'Enter') go(now);
    else return;
    e.preventDefault();
  };
  return <dialog ref={dialog} class="search" aria-label="Search" onKeyDown={press} onClose={close} onClick={e => { if (e.target === dialog.current) dialog.current!.close(); }}>
    <input type="text" role="combobox" aria-expanded="true" aria-controls="results" aria-autocomplete="list" aria-label="Search" aria-activedescendant={hits.length ? `result-${now}` : undefined} autocomplete="off" spellcheck={false}
      placeholder="A page, kind, namespace, finding or object; pods web searches one kind" value={query} onInput={e => {
        chosen.current = undefined; // the best is chosen until somebody chooses another
        choose(0);
        say('');
        ask(e.currentTarget.value);
      }} />
    <ul id="results" role="listbox" aria-label="Results">{hits.map((hit, n) => <li key={hit.href} role="option" id={`result-${n}`} aria-selected={n === now} onClick={() => go(n)}>
      <span class="dim kind">{hit.kind}</span> <b>{hit.label}</b>{hit.detail && <span class="dim"> {hit.detail}</span>}</li>)}</ul>
    <p class="dim" role="status">{open && (trouble || said(query))}</p></dialog>;
}
