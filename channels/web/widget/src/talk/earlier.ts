/** What is older than the part of a conversation that was read first: a page at a time, when it is asked for. */

import { join } from "../log/join.js";
import { reduce } from "../log/reduce.js";
import { EMPTY, type ViewState } from "../log/state.js";
import type { Client } from "../wire/client.js";

/** Messages of a page. */
const PAGE = 200;

/** Return a function that reads the page before what *now* returns, and gives both as one to *show*; asked meanwhile, it does nothing. */
export function earlier(client: Client, session: string, signal: AbortSignal, now: () => ViewState, show: (view: ViewState) => void): () => Promise<void> {
  let reading = false;
  return async () => {
    const { begin } = now();
    if (reading || !begin || signal.aborted) return;
    reading = true;
    try {
      const { after, frames } = await client.page(session, begin + 1, PAGE, signal);
      const older = frames.reduce(reduce, { ...EMPTY, seq: after, begin: after });
      if (!signal.aborted && now().begin === begin) show(join(older, now()));
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      reading = false;
    }
  };
}
