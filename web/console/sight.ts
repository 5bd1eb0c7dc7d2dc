// Which rows of a long table are in sight.

import type { RefObject } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';

// rowHeight is that of a row of a long table, in pixels: console.css says the same.
export const rowHeight = 28;

// few rows are simply there; of more, those in sight are, and so many above and below.
export const few = 80;
const around = 25;

export interface Sight { from: number; to: number }

// useSight follows the page as it is scrolled. count is how many rows there are.
export function useSight(body: RefObject<HTMLElement | null>, count: number): Sight {
  const all = { from: 0, to: count }, [at, look] = useState<Sight>({ from: 0, to: few });
  const long = count > few;
  useLayoutEffect(() => {
    if (!long) return;
    const measure = () => {
      if (!body.current) return;
      const top = body.current.getBoundingClientRect().top, step = 10;
      const from = Math.max(0, Math.floor(-top / rowHeight / step) * step - around), to = from + Math.ceil(innerHeight / rowHeight / step) * step + 2 * around + step;
      look(old => old.from === from && old.to === to ? old : { from, to });
    };
    measure();
    addEventListener('scroll', measure, { passive: true });
    addEventListener('resize', measure, { passive: true });
    return () => {
      removeEventListener('scroll', measure);
      removeEventListener('resize', measure);
    };
  }, [long, body]);
  return long ? { from: Math.min(at.from, count), to: Math.min(at.to, count) } : all;
}
