// One chart: uPlot with our colours and axes. It follows the width of its place and whether the viewer wants dark or light.

import uPlot, { type AlignedData, type Axis, type Options, type Series } from 'uplot';

export interface Line { name: string; colour: string; values: (number | null)[] }

// Span is a range of time, in milliseconds.
export interface Span { from: number; to: number }

export interface PlotOptions {
  stacked?: boolean;
  binary?: boolean;
  show(v: number): string;
  point(at: number | null): void; // at which value the pointer is, in this chart or another
  brushed(from: number, to: number): void; // what was dragged over, in seconds
}

const height = 150, axisWidth = 66, together = uPlot.sync('hour');
const dark = matchMedia('(prefers-color-scheme: dark)');

// least is how many seconds a chart has, also when the server has just started.
const least = 60;

// steps are those of the axis of time, in seconds.
const steps = [5, 10, 30, 60, 300, 600, 900, 1800];

const clock = (at: number, step: number) => new Date(at * 1000).toTimeString().slice(0, step < 60 ? 8 : 5);

// piled is data in which each line stands on those before it. The last one is the whole, and drawn first.
function piled(lines: Line[]): (number | null)[][] {
  const sums: number[][] = [];
  for (const l of lines) {
    const below = sums.at(-1);
    sums.push(l.values.map((v, n) => (v ?? 0) + (below?.[n] ?? 0)));
  }
  return sums.reverse();
}

export class Plot {
  #plot: uPlot | null = null;
  #made = ''; // what the lines of the plot are called
  #times: number[] = [];
  #lines: Line[] = [];
  #range: Span | null = null;
  #band = document.createElement('div');
  #watched = new ResizeObserver(() => this.#fit());
  #again = () => { this.#made = ''; this.#draw(); };

  constructor(private readonly place: HTMLElement, private readonly options: PlotOptions) {
    this.#band.className = 'brush';
    this.#watched.observe(place);
    dark.addEventListener('change', this.#again);
  }

  set(times: number[], lines: Line[], range: Span | null): void {
    this.#times = times;
    this.#lines = lines;
    this.#range = range;
    this.#draw();
  }

  end(): void {
    this.#watched.disconnect();
    dark.removeEventListener('change', this.#again);
    this.#plot?.destroy();
  }

  #fit(): void {
    const width = this.place.clientWidth;
    if (this.#plot && width && width !== this.#plot.width) this.#plot.setSize({ width, height });
    if (!this.#plot) this.#draw();
  }

  #draw(): void {
    if (!this.place.clientWidth || !this.#times.length) return;
    const { stacked } = this.options, values = stacked ? piled(this.#lines) : this.#lines.map(l => l.values);
    const data = [this.#times, ...values] as AlignedData, called = this.#lines.map(l => l.name).join(' ');
    if (this.#plot && this.#made === called) {
      if (this.#plot.select.width > 0 && this.#plot.cursor.event?.buttons) return; // somebody is dragging
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#made = called;
    this.#plot = new uPlot(this.#settings(), data, this.place);
    this.#plot.over.append(this.#band);
    this.#mark(this.#plot);
  }

  #settings(): Options {
    const style = getComputedStyle(document.documentElement), colour = (name: string) => style.getPropertyValue(name).trim();
    const { stacked, binary, show } = this.options, lines = stacked ? this.#lines.toReversed() : this.#lines;
    const axis: Axis = { stroke: colour('--dim'), grid: { stroke: colour('--grid'), width: 1 }, ticks: { stroke: colour('--line'), width: 1, size: 4 }, font: '11px system-ui, sans-serif' };
    const series = lines.map((l): Series => ({ label: l.name, stroke: colour(l.colour), width: 1.5, fill: stacked ? colour(l.colour) : undefined, spanGaps: true, points: { show: u => u.data[0].length < 2 } }));
    return {
      width: this.place.clientWidth, height, padding: [8, 24, 0, 0], legend: { show: false },
      scales: { x: { time: true, range: (_, from, to) => [Math.min(from, to - least), to] }, y: { range: (_, __, most) => [0, nice(most, binary)] } },
      axes: [{ ...axis, space: 70, size: 22, gap: 2, incrs: steps, values: (_, at, __, ___, step) => at.map(t => clock(t, step)) },
        { ...axis, size: axisWidth, gap: 3, splits: (_, __, ___, most) => [0, most / 2, most], values: (_, at) => at.map(v => brief(show(v))) }],
      series: [{}, ...series],
      cursor: { sync: { key: together.key }, y: false, drag: { x: true, y: false, setScale: false }, points: { size: 5 } },
      hooks: {
        setCursor: [u => this.options.point(u.cursor.left === undefined || u.cursor.left < 0 ? null : u.cursor.idx ?? null)],
        setSelect: [u => this.#selected(u)], draw: [u => this.#mark(u)],
      },
    };
  }

  // selected passes on what was dragged over. The other charts have the same selection, which is not theirs to tell.
  #selected(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 2) return;
    const from = u.posToVal(left, 'x'), to = u.posToVal(left + width, 'x');
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    if (u.cursor.event) this.options.brushed(from, to);
  }

  // mark shows the range that was chosen.
  #mark(u: uPlot): void {
    const range = this.#range, width = u.over.clientWidth;
    const at = (t: number) => Math.min(Math.max(u.valToPos(t / 1000, 'x'), 0), width);
    this.#band.hidden = !range;
    if (!range) return;
    const from = at(range.from);
    this.#band.style.left = `${from}px`;
    this.#band.style.width = `${Math.max(at(range.to) - from, 1)}px`;
  }
}

// brief leaves out zeros behind the point: on an axis they say nothing.
function brief(text: string): string { return text.replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, ''); }

// nice is a round number that is not smaller: 1, 2 or 5 of a power of ten, or a power of two of bytes.
function nice(v: number, binary = false): number {
  if (!(v > 0)) return 1;
  if (binary) return 2 ** Math.ceil(Math.log2(v));
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map(n => n * unit).find(n => n >= v * 0.999999)!;
}
