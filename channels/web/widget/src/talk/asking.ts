/** What is asked of the server about conversations besides their messages. */

import type { ViewState } from "../log/state.js";
import type { Request } from "../wire/client.js";

/** What answers about conversations hold, as far as it is read here. */
export interface Found {
  readonly id: string;
  /** The session that goes on in its place. */
  readonly replaced_by?: string | null;
}

export type Ask = (path: string, method?: string, body?: object) => Promise<Found>;

export const CONVERSATIONS = "/v1/web/conversations";

/** Return what asks with the visitor's token, once, until *signal* ends it; it throws a problem. */
export function asker(request: Request, signal: AbortSignal): Ask {
  return async (path, method = "GET", body) => {
    const sent = body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
    const response = await request(path, { method, signal, ...sent });
    return response.status === 204 ? { id: "" } : ((await response.json()) as Found);
  };
}

/** Return the path of *session* under *place*. */
export function pathIn(place: string, session: string): string {
  return `${place}/${encodeURIComponent(session)}`;
}

/** Return *view* as it was before the message *id*. */
export function upTo(view: ViewState, id: string): ViewState {
  const at = view.messages.findIndex((each) => each.id === id);
  const messages = view.messages.slice(0, Math.max(0, at));
  const runs = new Set(messages.map(({ run }) => run));
  return { ...view, seq: (view.messages[at]?.seq ?? 1) - 1, messages, runs: view.runs.filter((run) => runs.has(run.id)) };
}
