/** What the server finds of a person's conversations: one request at a time, and always for what was asked last. */

import type { Request } from "../wire/client.js";
import { asProblem, type Problem } from "../wire/problem.js";

/** A conversation as the list has it. */
export interface Item {
  readonly id: string;
  readonly title: string | null;
  readonly last_activity_at: string;
  /** The fact of its newest answer, 0 before the first. */
  readonly newest_seq: number;
}

export interface Results {
  readonly items: readonly Item[];
  /** Whether there are older ones. */
  readonly more: boolean;
  readonly busy: boolean;
  readonly problem: Problem | null;
  /** What was looked for; empty for all. */
  readonly words: string;
}

export interface Finder {
  /** Look for *words*, from the beginning. */
  find(words: string): void;
  /** Add older ones. */
  more(): void;
}

interface Page {
  readonly items: readonly Item[];
  readonly next_cursor: string | null;
}

const PLACE = "/v1/web/conversations";
const LIMIT = 30;
/** A search may answer with an empty page and go on: how often it goes on by itself. */
const ON_ITS_OWN = 5;

/** Return what finds conversations; *changed* gets each value of the results until *signal* ends it. */
export function createFinder(request: Request, changed: (results: Results) => void, signal: AbortSignal): Finder {
  let now: Results = { items: [], more: false, busy: false, problem: null, words: "" };
  let wanted: string | null = null;
  let cursor: string | null = null;

  const set = (changes: Partial<Results>): void => {
    if (!signal.aborted) changed((now = { ...now, ...changes }));
  };
  const page = async (words: string, after: string | null): Promise<Page> => {
    const query = new URLSearchParams({ limit: String(LIMIT), ...(words && { q: words }), ...(after !== null && { cursor: after }) });
    return (await (await request(`${PLACE}?${query}`, { signal })).json()) as Page;
  };
  /** Read the page after *after*, then what was asked for meanwhile. */
  const read = async (words: string, after: string | null, again = ON_ITS_OWN): Promise<void> => {
    try {
      const { items, next_cursor: next } = await page(words, after);
      if (wanted === null) {
        const known = after === null ? [] : now.items;
        const added = items.filter(({ id }) => !known.some((each) => each.id === id));
        cursor = next;
        const isEmpty = !added.length && next !== null && again > 0;
        set({ items: [...known, ...added], more: next !== null, busy: isEmpty, problem: null, words });
        if (isEmpty) return await read(words, next, again - 1);
      }
    } catch (error) {
      if (wanted === null) set({ busy: false, problem: asProblem(error) });
    }
    if (wanted === null) return;
    const next = wanted;
    wanted = null;
    await read(next, null);
  };

  return {
    find(words) {
      if (now.busy) return void (wanted = words);
      set({ busy: true });
      void read(words, null);
    },
    more() {
      if (now.busy || cursor === null) return;
      set({ busy: true });
      void read(now.words, cursor);
    },
  };
}
