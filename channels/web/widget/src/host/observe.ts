/** What happened between two values of a conversation, as events for the page: pure. */

import type { Conversation } from "../talk/conversation.js";
import { EMPTY, textOf } from "../log/state.js";
import type { Happened } from "../embed/events.js";

/** Return what of *after* is news to one who knows *before*; up to the fact *backlog* is what was there when the page came. */
export function happened(before: Conversation, after: Conversation, backlog: number): readonly Happened[] {
  const found: Happened[] = [];
  const failures = (each: Conversation) => [each.problem, each.refused?.problem, ...each.outbox.map(({ problem }) => problem)];
  const older = failures(before);
  for (const problem of failures(after)) {
    if (problem && !older.includes(problem)) {
      const { code, status, message } = problem;
      found.push(["parley:error", { code, status, message }]);
    }
  }
  if ((after.unread ?? 0) !== (before.unread ?? 0)) found.push(["parley:unread", { count: after.unread ?? 0 }]);
  for (const [run, given] of Object.entries(after.feedback ?? {})) {
    const { rating, comment, sending, problem, isOlder } = given;
    const isNew = before.feedback?.[run] !== given && !sending && !problem && !isOlder;
    if (isNew && rating) found.push(["parley:feedback", { run, rating, ...(comment !== undefined && { comment }) }]);
  }
  if (after.view === before.view || after.view.seq <= backlog) return found;
  const was = before.view.seq > after.view.seq ? EMPTY : before.view; // another conversation
  for (const { id, role, open, seq, parts } of after.view.messages) {
    if (role === "assistant" && !open && seq > Math.max(was.seq, backlog)) {
      found.push(["parley:message", { role, text: textOf(parts), id }]);
    }
  }
  const calls = new Map(was.calls.map((call) => [call.id, call]));
  for (const call of after.view.calls) {
    const known = calls.get(call.id);
    if (known === call) continue;
    const { id, run, name, title, status, approval } = call;
    if (known?.status !== status) found.push(["parley:tool", { call: id, run, name, ...(title && { title }), status }]);
    if (approval && known?.approval?.status !== approval.status) {
      found.push(["parley:approval", { approval: approval.id, call: id, tool: approval.tool, title: approval.title, status: approval.status }]);
    }
  }
  return found;
}
