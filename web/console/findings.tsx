// What is wrong now, the worst first: the first thing on the first page.

import { Fragment } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { denied, list } from './api.ts';
import type { Finding } from './answers.gen.ts';
import { Copied, Section } from './parts.tsx';
import { ago, hash, second, type Named } from './format.ts';
import { usePolled } from './view.ts';

// Findings shows them. The one that is wanted is opened and gets the focus.
export function Findings({ wanted }: { wanted?: string }) {
  const node = useRef<HTMLDivElement>(null), sought = useRef(wanted);
  const told = usePolled(async signal => {
    try { return { all: (await list('findings', { limit: 500 }, signal)).items }; } catch (e) {
      if (!denied(e)) throw e;
      return { all: [], refused: e.message };
    }
  }, ['findings']);
  useEffect(() => {
    if (!sought.current || !told?.all.length) return;
    const at = [...node.current!.querySelectorAll('summary')].find(n => n.dataset.key === sought.current);
    sought.current = undefined;
    if (!at) return;
    (at.parentElement as HTMLDetailsElement).open = true;
    at.focus();
  }, [told]);
  if (!told) return <p class="dim">Looking for what is wrong…</p>;
  if (told.refused) return <p class="about">What is wrong now is not told to you: {told.refused}</p>;
  if (!told.all.length) return <p class="good">Nothing is wrong.</p>;
  return <div ref={node}><Section title="What is wrong now"><ol class="findings">{told.all.map(f => <One key={f.metadata.name} f={f} />)}</ol></Section></div>;
}

const same = (a: Named, b: Named) => (a.group ?? '') === (b.group ?? '') && a.resource === b.resource && a.name === b.name && ((a.namespace ?? '') === (b.namespace ?? '') || a.resource === 'namespaces');

// FindingsOf shows what is wrong with an object.
export function FindingsOf({ of }: { of: Named }) {
  const all = usePolled(async signal => {
    try { return (await list('findings', { limit: 500 }, signal)).items; } catch (e) {
      if (!denied(e)) throw e;
      return [];
    }
  }, ['findings', of], 5000);
  const about = all?.filter(f => [...f.object ? [f.object] : [], ...f.objects ?? []].some(o => same(o, of)));
  return about?.length ? <Section title="What is wrong with it"><ol class="findings">{about.map(f => <One key={f.metadata.name} f={f} opened />)}</ol></Section> : null;
}

// One shows a finding. Errors are open from the start.
function One({ f, opened }: { f: Finding; opened?: boolean }) {
  const [open, set] = useState(opened || f.severity === 'Error');
  const facts = [['Impact', f.impact], ['Cause', f.cause], ...(f.evidence ?? []).map(text => ['Seen', text])].filter(([, text]) => text);
  return <li class={f.severity.toLowerCase()}><details open={open} onToggle={e => set(e.currentTarget.open)}>
    <summary data-key={f.metadata.name}><b class={f.severity === 'Error' ? 'bad' : f.severity === 'Warning' ? 'warn' : 'dim'}>{f.severity}</b> {f.summary}<span class="dim" title={second(f.since)}> for {ago(f.since)}</span></summary>
    <dl>
      {facts.map(([what, text], n) => <Fragment key={n}><dt>{what}</dt><dd>{text}</dd></Fragment>)}
      {f.requests?.length ? <><dt>Requests</dt><dd>{f.requests.map(r => <Fragment key={r}><a href={hash('request', { name: r })}>{r}</a> </Fragment>)}</dd></> : null}
      {(f.commands ?? []).map(c => <Fragment key={c}><dt>Try</dt><dd class="try"><code>{c}</code> <Copied label="Copy" text={c} /></dd></Fragment>)}
    </dl>
  </details></li>;
}
