/** Every word that the widget says, in one plain object; an embedding page may replace any of them. */

import type { ToolWords } from "../tools/words.js";
import type { CardWords } from "../cards/words.js";
import type { FileWords } from "../files/words.js";
import type { DrawnStrings } from "../drawn/words.js";
import type { LauncherWords } from "../launcher/words.js";
import type { Changes } from "./merge.js";
import type { Problem } from "../wire/problem.js";
import type { Call } from "../log/state.js";

export const STRINGS = {
  heading: "Assistant",
  greeting: "Hello! How can I help?",
  placeholder: "Write a message…",
  transcript: "Conversation",
  message: "Your message",
  you: "You",
  assistant: "Assistant",
  person: "A person of the team",
  send: "Send",
  stop: "Stop",
  stopping: "Stopping…",
  renew: "New conversation",
  earlier: "Show earlier messages",
  latest: "Jump to the latest message",
  copy: "Copy",
  copied: "Copied",
  retry: "Try again",
  unloaded: "This part of the page could not be loaded. Reload the page to try again.",
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
  blank: "The assistant gave no answer. Ask again, or put it in other words.",
  cut: "The answer was cut at its length limit.",
  partial: "The answer is incomplete.",
  waiting: "Waiting for an approval.",
  action: "Waiting for this page to answer.",
  onPage: "waiting for this page",
  reconnecting: "Connection lost. Reconnecting…",
  broken: "Not connected.",
  lost: "The earlier conversation is no longer available. This is a new one.",
  arguments: "Input",
  result: "Result",
  truncated: "The result was shortened.",
  used: "Used {n} tools",
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
    context_overflow: "This is too long for the model. Please send less at once, or begin a new conversation.",
    approval_expired: "The approval for this action did not come in time.",
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
    not_an_approver: "You may not decide this.",
    too_large: "This message is too long.",
  } as Readonly<Record<string, string>>,
};

/** The words of the chunks come with them; a page replaces any of these too. */
interface ChunkStrings {
  /** Tables and charts. */
  readonly drawn?: Changes<DrawnStrings>;
  /** What went into calls of tools, and came out. */
  readonly tools?: Changes<ToolWords>;
  /** Questions about calls. */
  readonly approval?: Changes<CardWords>;
  /** Files that are being attached. */
  readonly files?: Changes<FileWords>;
  /** The bubble in a corner of the page. */
  readonly launcher?: Changes<LauncherWords>;
}

export type Strings = typeof STRINGS & ChunkStrings;

/** Return *problem* as a sentence for a person. */
export function explain(problem: Problem, strings: Strings): string {
  return strings.problems[problem.code] ?? (problem.message || strings.failure);
}
