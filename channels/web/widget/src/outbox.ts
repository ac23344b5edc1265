/** What a person has written and the log does not show yet: pure moves over a list. */

import type { Problem } from "./problem.js";
import { textOf, type ViewState } from "./state.js";

export interface Outgoing {
  /** Its idempotency key. */
  readonly key: string;
  readonly text: string;
  readonly status: "sending" | "sent" | "failed";
  /** It lies beyond this fact of the log. */
  readonly since: number;
  /** Its id in the log, once the server has told. */
  readonly message?: string;
  readonly problem?: Problem;
}

/** Return *outbox* after the post of *key* was answered; messages go out in order, so those behind it lie beyond *seq*. */
export function arrived(outbox: readonly Outgoing[], key: string, message: string, seq: number): readonly Outgoing[] {
  const at = outbox.findIndex((each) => each.key === key);
  return outbox.map((each, index) => {
    if (index === at) return { ...each, status: "sent", message };
    return at >= 0 && index > at ? { ...each, since: Math.max(each.since, seq) } : each;
  });
}

/** Return *outbox* without what *view* shows by now; what is being posted stays until its answer is there. */
export function pruned(outbox: readonly Outgoing[], view: ViewState): readonly Outgoing[] {
  if (!outbox.length) return outbox;
  const hidden = unshown(outbox, view);
  return outbox.filter((each) => each.status === "sending" || hidden.includes(each));
}

/** Return what of *outbox* the log does not show: told by id or, while the answer to the post is on its way, by its text. */
export function unshown(outbox: readonly Outgoing[], view: ViewState): readonly Outgoing[] {
  const claimed = new Set<string>();
  return outbox.filter((each) => {
    const isShown = (id: string, seq: number, text: string): boolean =>
      each.message === undefined ? seq > each.since && !claimed.has(id) && text === each.text : id === each.message;
    const shown = view.messages.find(({ id, role, seq, parts }) => role === "user" && isShown(id, seq, textOf(parts)));
    if (shown) claimed.add(shown.id);
    return !shown;
  });
}
