// What the keyboard does, and a sheet that says so.

import { Fragment } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

const others: [string, string][] = [['Ctrl K or /', 'Search pages, kinds, namespaces, findings and objects'], ['f', 'Go to the filter of the page'], ['p', 'Pause, go on'], ['?', 'Show these keys'], ['Escape', 'Close what is open'],
  ['Tab, Enter', 'Go through links, headings and buttons; Enter on a heading sorts by it'], ['Drag over a chart', 'Show the requests of that time; From and To do the same by hand']];

// Keys is the sheet; views are those that digits choose.
export function Keys({ open, close, views }: { open: boolean; close(): void; views: readonly (readonly [string, string])[] }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { if (open && !dialog.current!.open) dialog.current!.showModal(); }, [open]);
  const all: [string, string][] = [...views.slice(0, 9).map(([, title], n): [string, string] => [String(n + 1), title]), ...others];
  return <dialog ref={dialog} class="keys" aria-label="Keys" onClose={close} onKeyDown={e => { if (e.key !== 'Tab') e.stopPropagation(); }}>
    <h2>Keys</h2><dl>{all.map(([key, what]) => <Fragment key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></Fragment>)}</dl>
    <button type="button" onClick={() => dialog.current!.close()}>Close</button> <a href="licenses.txt">Licenses</a></dialog>;
}

export interface Actions { search(): void; sheet(): void; pause(): void; filter(): void; digit(n: number): void }

// useKeys calls what a key stands for.
export function useKeys(actions: Actions): void {
  const on = useRef(actions);
  on.current = actions;
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      const act = on.current;
      if ((e.ctrlKey || e.metaKey) && !e.altKey && e.key.toLowerCase() === 'k') { e.preventDefault(); act.search(); return; }
      if (e.ctrlKey || e.altKey || e.metaKey || e.target instanceof Element && e.target.closest('input, textarea, select, dialog')) return;
      if (e.key === '/') { e.preventDefault(); act.search(); } else if (e.key === 'f') { e.preventDefault(); act.filter(); } else if (e.key === 'p') act.pause();
      else if (e.key === '?') act.sheet();
      else if (/^[1-9]$/.test(e.key)) act.digit(Number(e.key));
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}
