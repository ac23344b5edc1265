/** Two parts of a log that follow each other, folded apart, as one value. */

import type { Message, ViewState } from "./state.js";

/** Return what a fold of both parts shows: *newer* begins where no run of *older* is open, see `ViewState.begin`. */
export function join(older: ViewState, newer: ViewState): ViewState {
  const { corrections = {} } = newer;
  const corrected = (message: Message): Message => (Object.hasOwn(corrections, message.id) ? { ...message, parts: corrections[message.id] ?? [] } : message);
  return {
    seq: newer.seq,
    messages: [...older.messages.map(corrected), ...newer.messages],
    runs: [...older.runs, ...newer.runs],
    calls: [...older.calls, ...newer.calls],
    renders: [...older.renders, ...newer.renders],
    ...(older.begin && { begin: older.begin, corrections: { ...older.corrections, ...corrections } }),
  };
}
