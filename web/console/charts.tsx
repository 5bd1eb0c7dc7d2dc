// An hour of what the server did and had, in charts with one unit each.

import { Fragment } from 'preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { denied, list } from './api.ts';
import type { TimeSeries } from './answers.gen.ts';
import { bytes, rate, time } from './format.ts';
import { Plot, type Line, type Span } from './plot.ts';
import { usePolled } from './view.ts';

const seconds = (v: number) => time(v * 1000);
const whole = (v: number) => v >= 10 || Number.isInteger(v) ? Math.round(v).toLocaleString('en') : v.toFixed(1);

interface Kind {
  title: string;
  of: string; // the part before the dot in the names of its series
  stacked?: boolean; // its series add up to a whole
  sparse?: boolean; // 0 says that there was nothing to measure
  bad?: boolean;
  binary?: boolean;
  family?: 'levels' | 'kinds'; // its series are of several things, which have begun to be of interest; else there is one of the server
  show(v: number): string;
  about?: string;
}

const kinds: Kind[] = [
  { title: 'Requests a second', of: 'requests', stacked: true, show: rate },
  { title: 'Latency', of: 'latency', sparse: true, show: seconds },
  { title: 'Refused and failed a second', of: 'answers', bad: true, show: rate },
  { title: 'Where the time of a request goes', of: 'stages', stacked: true, show: seconds, about: 'The mean of the requests; watches and streams are left out' },
  { title: 'Changes a second', of: 'writes', show: rate },
  { title: 'A question to the database', of: 'store', sparse: true, show: seconds },
  { title: 'Seats', of: 'seats', show: whole },
  { title: 'Memory', of: 'memory', binary: true, show: bytes },
  { title: 'Processors', of: 'processor', show: v => v.toFixed(2) },
  { title: 'Answers, bytes a second', of: 'traffic', binary: true, show: bytes },
  { title: 'Watches', of: 'watches', show: whole },
  { title: 'Database', of: 'size', binary: true, show: bytes },
  { title: 'Seats in use, by level', of: 'levelSeats', stacked: true, family: 'levels', show: whole },
  { title: 'Waiting, by level', of: 'levelWaiting', stacked: true, family: 'levels', show: whole },
  { title: 'Refused a second, by level', of: 'levelRefused', stacked: true, family: 'levels', show: rate, about: 'Turned away (429), or waited for too long' },
  { title: 'Stored, by kind', of: 'kindBytes', sparse: true, binary: true, family: 'kinds', show: bytes, about: 'Bytes of the objects in memory; the kinds that have most' },
];

interface ChartsProps {
  titles?: string[];
  range?: Span | null; // what is shown elsewhere on the page, in milliseconds
  onRange(from: string, to: string): void;
}

// Charts shows all, or some of them. Where the pointer is, all tell of the same time; who drags over one chooses a range of time.
export function Charts({ titles, range = null, onRange }: ChartsProps) {
  const shown = kinds.filter(k => titles ? titles.includes(k.title) : !k.family), families = [...new Set(shown.map(k => k.family ?? 'server'))];
  const all = usePolled(async signal => {
    try { return (await Promise.all(families.map(of => list('timeseries', { fields: { of }, limit: 200 }, signal)))).flatMap(l => l.items); } catch (e) {
      if (denied(e)) return []; // the rest of the page may be told
      throw e;
    }
  }, ['timeseries', families], 5000); // as often as there is a new value
  const chosen = useRef(onRange);
  chosen.current = onRange;
  const brushed = useCallback((a: number, b: number) => {
    const text = (at: number) => new Date(at * 1000).toISOString().slice(0, 19) + 'Z';
    chosen.current(text(Math.floor(a)), text(Math.ceil(b)));
  }, []);
  if (!all || !all.length && families.includes('server')) return null;
  return <section class="charts" aria-label="The last hour">
    {shown.map(kind => <Chart key={kind.title} kind={kind} all={all.filter(s => s.metadata.name.startsWith(kind.of + '.'))} range={range} brushed={brushed} />)}
  </section>;
}

// called is what a line is called: the level or kind (without its group: the whole name stands in tables), or which of the server's values it has.
function called(name: string, family?: string): string {
  const of = name.slice(name.indexOf('.') + 1);
  return of === 'inUse' ? 'in use' : family === 'kinds' ? of.split('.')[0]! : of;
}

// mostLines is how many lines a chart has: there are as many colours.
const mostLines = 8;

// linesOf makes lines of series: those of a whole that are always 0 are left out, and of a family those that are small now.
function linesOf(kind: Kind, every: TimeSeries[]): Line[] {
  const now = (s: TimeSeries) => s.values.at(-1) ?? 0, sum = (s: TimeSeries) => s.values.reduce((a, b) => a + b, 0);
  const all = kind.family ? every.toSorted((a, b) => now(b) - now(a) || sum(b) - sum(a)).slice(0, mostLines) : every;
  return all.map((s, n) => ({ name: called(s.metadata.name, kind.family), colour: kind.bad ? `--b${n % 2}` : `--s${n % 8}`, values: s.values.map(v => kind.sparse && v === 0 ? null : v) }))
    .filter(l => !kind.stacked || l.values.some(v => v));
}

function Chart({ kind, all, range, brushed }: { kind: Kind; all: TimeSeries[]; range: Span | null; brushed(from: number, to: number): void }) {
  const node = useRef<HTMLDivElement>(null), plot = useRef<Plot | null>(null), [at, point] = useState<number | null>(null);
  const lines = useMemo(() => linesOf(kind, all), [kind, all]);
  const times = useMemo(() => {
    const first = all[0], count = first?.values.length ?? 0, end = Date.parse(first?.end ?? '') / 1000, step = Number.parseFloat(first?.step ?? '5');
    return Array.from({ length: count }, (_, n) => end - (count - 1 - n) * step);
  }, [all]);
  const made = all.length > 0;
  useEffect(() => {
    if (!made || !node.current) return;
    const p = new Plot(node.current, { stacked: kind.stacked, binary: kind.binary, show: kind.show, point, brushed });
    plot.current = p;
    return () => {
      plot.current = null;
      p.end();
    };
  }, [kind, made, brushed]);
  useEffect(() => { plot.current?.set(times, lines, range); }, [times, lines, range, made]);
  if (!made) return kind.family ? <figure><figcaption title={kind.about}>{kind.title}</figcaption><p class="dim">None in the last hour.</p></figure> : null;
  const last = times.length - 1, when = at === null || at > last ? last : at, told = (v: number | null | undefined) => v === null || v === undefined ? '–' : kind.show(v);
  const spoken = `${kind.title}, the last ${Math.max(1, Math.round((times[last]! - times[0]!) / 60))} minutes; now ${lines.map(l => `${l.name} ${told(l.values[last])}`).join(', ') || 'nothing'}`;
  return <figure><figcaption title={kind.about}>{kind.title}</figcaption>
    <div class="plot" ref={node} role="img" aria-label={spoken} />
    <p class="legend"><span class="dim">{when === last && at === null ? 'now' : new Date(times[when]! * 1000).toTimeString().slice(0, 8)}</span>
      {lines.map((l, n) => <Fragment key={n}> <span class="entry" title={l.name}><span class={`key ${l.colour.slice(2)}`} /> {l.name} {told(l.values[when])}</span></Fragment>)}</p></figure>;
}
