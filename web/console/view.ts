// What a view has of the page around it: it asks again and again, and the page says what became of that.

import { createContext } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import type { Params } from './format.ts';

// Shell is the page around a view. It does not change while a view lasts.
export interface Shell {
  recorded: boolean; // a file of kanzen record is shown: nothing in it changes, and it holds no objects
  paused(): boolean;
  // told says how somebody's last question went: null is well. left says that they ask no more.
  told(asker: object, trouble: unknown): void;
  left(asker: object): void;
}

export const ShellContext = createContext<Shell>({ recorded: false, paused: () => false, told() {}, left() {} });

export interface ViewProps { params: Params }

export const usual = 2000;

// Partly is an answer of which something is missing, for a reason that is said at the top of the page.
export class Partly<T> { constructor(readonly value: T, readonly trouble: unknown) {} }

// usePolled asks now and every so often, and returns the newest answer, undefined before the first one. With another key it begins
// anew; an interval of 0 asks once. What goes wrong is said at the top of the page, and the answer before stays.
export function usePolled<T>(load: (signal: AbortSignal) => Promise<T | Partly<T>>, key: unknown[], every = usual): T | undefined {
  const shell = useContext(ShellContext), latest = useRef(load), id = JSON.stringify(key);
  const [held, hold] = useState<{ id: string; value: T }>();
  latest.current = load;
  useEffect(() => {
    const ending = new AbortController(), asker = {};
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (first: boolean) => {
      if (first || !shell.paused() && !document.hidden) {
        try {
          const answer = await latest.current(ending.signal);
          if (ending.signal.aborted) return;
          const partly = answer instanceof Partly;
          hold({ id, value: partly ? answer.value : answer });
          shell.told(asker, partly ? answer.trouble : null);
        } catch (e) {
          if (ending.signal.aborted) return;
          shell.told(asker, e ?? new Error('unknown'));
        }
      }
      if (every && !shell.recorded) timer = setTimeout(ask, every, false);
    };
    void ask(true);
    return () => {
      ending.abort();
      clearTimeout(timer);
      shell.left(asker);
    };
  }, [id, every, shell]);
  return held?.id === id ? held.value : undefined;
}

// seldom lets a func run once in a while, however often it is called; between, it returns what it returned before.
export function seldom<T>(interval: number, f: () => Promise<T>): () => Promise<T | undefined> {
  let next = 0, last: T | undefined;
  return async () => {
    if (Date.now() < next) return last;
    next = Date.now() + interval;
    try { last = await f(); } catch (e) { next = 0; throw e; }
    return last;
  };
}
