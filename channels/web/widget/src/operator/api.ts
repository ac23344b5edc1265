/** What the operator's page asks of `/v1` besides what the widget does. */

import type { Request, Send } from "../wire/client.js";
import type { Person } from "../log/events.js";

export type SessionStatus = "idle" | "running" | "waiting" | "requires_action" | "closed";

export interface Session {
  readonly id: string;
  readonly agent: string;
  readonly actor: Person;
  readonly title: string | null;
  readonly status: SessionStatus;
  readonly created_at: string;
  readonly last_activity_at: string;
  /** The conversation that it began as a copy of, and the one that goes on in its place. */
  readonly forked_from?: string | null;
  readonly replaced_by?: string | null;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
}

/** Which conversations are listed. */
export interface Wanted {
  readonly text: string;
  readonly status: SessionStatus | null;
}

export interface Reply {
  readonly text: string;
  readonly name: string;
  readonly key: string;
}

export interface Api {
  sessions(wanted: Wanted, cursor: string | null, signal: AbortSignal): Promise<Page<Session>>;
  /** Return the first of those that wait for a person, whatever is listed. */
  waiting(signal: AbortSignal): Promise<Page<Session>>;
  session(id: string, signal: AbortSignal): Promise<Session>;
  /** Return the names of agents by their ids. */
  agents(signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  /** Return whether this key may decide an approval. */
  mayDecide(approval: string, signal: AbortSignal): Promise<boolean>;
  reply(session: string, reply: Reply, signal: AbortSignal): Promise<void>;
}

export const LISTED = 50;
const COUNTED = 100;
const MOST_AGENTS = 1_000;

/** Return what asks by *request* and *send*, which carry the token. */
export function createApi(request: Request, send: Send): Api {
  const get = async <T>(path: string, signal: AbortSignal): Promise<T> => (await (await request(path, { signal, cache: "no-store" })).json()) as T;
  return {
    sessions: (wanted, cursor, signal) => get(`/v1/sessions?${query(wanted, cursor)}`, signal),
    waiting: (signal) => get(`/v1/sessions?${new URLSearchParams({ limit: String(COUNTED), status: "waiting" })}`, signal),
    session: (id, signal) => get(`/v1/sessions/${encodeURIComponent(id)}`, signal),
    async agents(signal) {
      const names = new Map<string, string>();
      let cursor: string | null = null;
      do {
        const page: Page<{ id: string; name: string }> = await get(`/v1/agents?${new URLSearchParams({ limit: "100", ...(cursor && { cursor }) })}`, signal);
        for (const { id, name } of page.items) names.set(id, name);
        cursor = page.next_cursor;
      } while (cursor !== null && names.size < MOST_AGENTS);
      return names;
    },
    async mayDecide(approval, signal) {
      return (await get<{ may_decide: boolean }>(`/v1/approvals/${encodeURIComponent(approval)}`, signal)).may_decide;
    },
    async reply(session, { text, name, key }, signal) {
      await send(`/v1/sessions/${encodeURIComponent(session)}/replies`, { text, ...(name && { name }), idempotency_key: key }, signal);
    },
  };
}

function query({ text, status }: Wanted, cursor: string | null): URLSearchParams {
  return new URLSearchParams({ limit: String(LISTED), order: "activity", ...(text && { q: text }), ...(status && { status }), ...(cursor && { cursor }) });
}
