// What counters grow by.

import type { Meta } from './meta.ts';

type Rates = { [field: string]: number };

// Speed measures what counters grow by, between two answers. What is not the same as before counts anew.
export class Speed<T extends { metadata: Meta }> {
  #before = new Map<string, T>();
  #at = 0;
  #rates = new Map<string, Rates>();

  constructor(private readonly fields: (keyof T & string)[], private readonly same: (a: T, b: T) => boolean) {}

  measure(items: T[]): void {
    const now = performance.now(), seconds = (now - this.#at) / 1000;
    if (this.#at && seconds <= 0.5) return;
    if (this.#at) {
      this.#rates = new Map(items.map(i => {
        const b = this.#before.get(i.metadata.name), grown = (f: keyof T) => b && this.same(b, i) ? Math.max(0, Number(i[f]) - Number(b[f])) / seconds : 0;
        return [i.metadata.name, Object.fromEntries(this.fields.map(f => [f, grown(f)]))];
      }));
    }
    this.#before = new Map(items.map(i => [i.metadata.name, i]));
    this.#at = now;
  }

  of(i: T, field: keyof T & string): number { return this.#rates.get(i.metadata.name)?.[field] ?? 0; }
}
