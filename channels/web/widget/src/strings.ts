/** Every word that the widget says, in one plain object; an embedding page may replace any of them. */

import type { Problem } from "./problem.js";
import type { Call } from "./state.js";

export const STRINGS = {
  heading: "Assistant",
  greeting: "Hello! How can I help?",
  placeholder: "Write a message…",
  transcript: "Conversation",
  message: "Your message",
  you: "You",
  assistant: "Assistant",
  send: "Send",
  stop: "Stop",
  stopping: "Stopping…",
  renew: "New conversation",
  latest: "Jump to the latest message",
  copy: "Copy",
  copied: "Copied",
  retry: "Try again",
  dismiss: "Dismiss",
  withdraw: "Cancel",
  sending: "Sending…",
  unsent: "Not sent",
  queued: "Queued: answered next",
  unanswered: "Cancelled before it was answered",
  deleted: "Message deleted",
  thinking: "Thinking",
  reasoning: "Reasoning",
  stopped: "Stopped",
  refused: "The assistant declined to answer this.",
  cut: "The answer was cut at its length limit.",
  waiting: "Waiting for an approval.",
  action: "Waiting for this page to answer.",
  reconnecting: "Connection lost. Reconnecting…",
  broken: "Not connected.",
  lost: "The earlier conversation is no longer available. This is a new one.",
  arguments: "Input",
  result: "Result",
  truncated: "The result was shortened.",
  tool: {
    requested: "waiting",
    running: "running",
    waiting: "needs approval",
    done: "done",
    failed: "failed",
    denied: "not allowed",
    cancelled: "cancelled",
    unknown: "outcome unknown",
  } satisfies Record<Call["status"], string>,
  ended: {
    max_steps: "The assistant reached its step limit.",
    budget: "The budget for this answer is used up.",
    blocked: "This message was blocked by a rule.",
    no_executor: "The assistant asked for something that only your application can do.",
  } as Readonly<Record<string, string>>,
  failed: {
    doom_loop: "The assistant kept repeating the same action, so it was ended.",
    depth_limit: "The assistant delegated too deeply, so it was ended.",
    provider_error: "The model could not be reached.",
    context_overflow: "This conversation has become too long for the model.",
    approval_expired: "Nobody approved the action in time.",
    lost: "The answer was interrupted and could not be resumed.",
  } as Readonly<Record<string, string>>,
  failure: "Something went wrong.",
  problems: {
    network: "The server cannot be reached. Check your connection.",
    token: "No access token could be had.",
    unauthorized: "Your access has expired. Reload the page.",
    forbidden: "You are not allowed to do that here.",
    not_found: "That is no longer available.",
    session_closed: "This conversation is closed. Start a new one.",
    too_large: "This message is too long.",
    rate_limited: "Too many messages at once. Try again in a moment.",
  } as Readonly<Record<string, string>>,
};

export type Strings = typeof STRINGS;

/** Return *problem* as a sentence for a person. */
export function explain(problem: Problem, strings: Strings): string {
  return strings.problems[problem.code] ?? (problem.message || strings.failure);
}
