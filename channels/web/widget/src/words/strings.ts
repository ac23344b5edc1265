/** Every word that the widget says, in one plain object; an embedding page may replace any of them. */

import type { ToolWords } from "../tools/words.js";
import type { CardWords } from "../cards/words.js";
import type { CodeWords } from "../code/words.js";
import type { AnswerWords } from "../answers/words.js";
import type { FileWords } from "../files/words.js";
import type { DrawnStrings } from "../drawn/words.js";
import type { ListWords } from "../list/words.js";
import type { LauncherWords } from "../launcher/words.js";
import type { ExtraWords } from "../extras/words.js";
import type { Changes } from "./merge.js";
import type { Problem } from "../wire/problem.js";
import type { Call } from "../log/state.js";

export const STRINGS = {
  /** How numbers and times are written: a BCP 47 tag. */
  locale: "en",
  /** The direction of these words, ltr or rtl; empty: that of the page. */
  dir: "",
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
  talks: "Your conversations",
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
  held: "Your message will be answered after the decision",
  unanswered: "Cancelled before it was answered",
  deleted: "Message deleted",
  thinking: "Thinking",
  trying: "Still trying…",
  reasoning: "Reasoning",
  stopped: "Stopped",
  refused: "The assistant declined to answer this.",
  blank: "The assistant gave no answer. Ask again, or put it in other words.",
  cut: "The answer was cut at its length limit.",
  unseen: "The model of this assistant cannot see pictures.",
  leftOut: "The model's provider refused a part of this conversation; it was left out.",
  partial: "The answer is incomplete.",
  waiting: "Waiting for an approval.",
  action: "Waiting for this page to answer.",
  onPage: "waiting for this page",
  reconnecting: "Connection lost. Reconnecting…",
  broken: "Not connected.",
  lost: "The earlier conversation is no longer available. This is a new one.",
  soon: "in a moment",
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
  /** By the code of a problem, those of `extras/words.ts` besides; `{when}` is "in 20 seconds", or `soon`. */
  problems: {
    network: "The server cannot be reached. Check your connection.",
    token: "This chat is not available right now. Sign in, or try again later.",
    unauthorized: "Your access has expired. Reload the page.",
    forbidden: "You are not allowed to do that here.",
    not_found: "That is no longer available.",
    not_an_approver: "You may not decide this.",
    rate_limited: "Too many messages. Try again {when}.",
    unavailable: "The service is not available right now. Try again {when}.",
  } as Readonly<Record<string, string>>,
};

/** The words of the chunks come with them; a page replaces any of these too. */
interface ChunkStrings {
  /** Tables and charts. */
  readonly drawn?: Changes<DrawnStrings>;
  /** Calls of tools; the three words stood outside before there was a chunk. */
  readonly tools?: Changes<ToolWords>;
  readonly arguments?: string;
  readonly result?: string;
  readonly truncated?: string;
  /** Questions about calls. */
  readonly approval?: Changes<CardWords>;
  /** What is around answers and questions. */
  readonly answers?: Changes<AnswerWords>;
  /** Blocks of code. */
  readonly code?: Changes<CodeWords>;
  /** Files that are being attached. */
  readonly files?: Changes<FileWords>;
  /** The list of conversations. */
  readonly list?: Changes<ListWords>;
  /** The bubble in a corner of the page. */
  readonly launcher?: Changes<LauncherWords>;
  /** What the frame gets after its first paint. */
  readonly extras?: Changes<ExtraWords>;
}

export type Strings = typeof STRINGS & ChunkStrings;

/** Return *problem* as a sentence for a person, by its code; the server's own text only where no word is known. */
export function explain({ code, message, retryAfter, status }: Problem, strings: Strings): string {
  const known = strings.problems[code] ?? (status < 500 ? message : strings.problems["unavailable"]);
  return (known || strings.failure).replace("{when}", retryAfter ? inSeconds(retryAfter, strings.locale) : strings.soon);
}

/** Return a span of *seconds* from now on as people say it: "in 20 seconds". */
function inSeconds(seconds: number, locale: string): string {
  const write = new Intl.RelativeTimeFormat(locale);
  return seconds < 100 ? write.format(Math.ceil(seconds), "second") : write.format(Math.ceil(seconds / 60), "minute");
}
