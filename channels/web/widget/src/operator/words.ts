/** Every word that the operator's page says, and how it writes times, tokens and costs. */

import { unmistakable } from "../legible.js";
import type { Person } from "../log/events.js";
import { STRINGS, type Strings } from "../words/strings.js";
import { inputOf, type Spent } from "./ledger.js";

export const WORDS = {
  title: "Parley console",
  login: {
    heading: "Parley console",
    key: "API key",
    submit: "Log in",
    busy: "Logging in…",
    hint: "The key that the first start printed, or one that you made with",
    command: "parley keys create",
    ended: "Your login has ended. Log in again.",
    refused: "This key is not valid.",
    insecure: "This page came over plain http: others on the network can read the key. Use https.",
  },
  logOut: "Log out",
  search: "Search conversations",
  all: "All",
  waiting: "Waiting",
  running: "Running",
  filters: "Show",
  sessions: "Conversations",
  more: "Load more",
  loading: "Loading…",
  none: "No conversations yet. They appear here as soon as someone writes.",
  noneFound: "Nothing matches.",
  noneYet: "Nothing among the newest conversations. “Load more” looks at older ones.",
  noneSuch: "No conversation is in that state.",
  unread: "The list could not be loaded:",
  noScope: "This key may not read conversations: it needs the scope “read”.",
  choose: "Choose a conversation.",
  missing: "This conversation does not exist, or was deleted.",
  back: "All conversations",
  untitled: "Untitled",
  before: "what it was before",
  after: "goes on here",
  empty: "Nothing has been said here yet.",
  earlier: "Show earlier messages",
  stop: "Stop",
  stopping: "Stopping…",
  total: "total",
  used: "Used: ",
  reply: {
    label: "Reply as a person",
    placeholder: "Reply as a person…",
    as: "Replying as",
    name: "Your name",
    send: "Send reply",
    sending: "Sending…",
  },
  status: {
    idle: "",
    running: "running",
    waiting: "waiting for approval",
    requires_action: "waiting for the client",
    closed: "closed",
  } as Readonly<Record<string, string>>,
  now: "now",
};

/** The widget's words, as they are said to someone who reads another person's conversation. */
export const TALK: Strings = {
  ...STRINGS,
  you: "Visitor",
  transcript: "Conversation",
  action: "Waiting for the client to answer.",
  onPage: "waiting for the client",
  approval: { you: "the visitor", team: "operator", who: { operators: "an operator" } },
  problems: {
    ...STRINGS.problems,
    network: "The server cannot be reached. Check your connection.",
    token: "Your login has ended.",
    unauthorized: "Your login has ended.",
    forbidden: "This key may not do that.",
    not_found: WORDS.missing,
    session_closed: "This conversation is closed.",
  },
};

/** Return a person's name, else their id, so that neither can pass for another. */
export function nameOf({ id, name }: Person): string {
  return unmistakable(name || id);
}

/** Return how long before *now* something was, or when: "now", "5 min", "14:32", "3 Mar". */
export function ago(time: string, now: number): string {
  const at = new Date(time);
  const minutes = Math.floor((now - at.getTime()) / 60_000);
  if (minutes < 1) return WORDS.now;
  if (minutes < 60) return `${minutes} min`;
  const isToday = at.toDateString() === new Date(now).toDateString();
  return isToday ? at.toLocaleTimeString([], { timeStyle: "short" }) : at.toLocaleDateString([], { day: "numeric", month: "short" });
}

/** Return *time* in full, for who points at it. */
export function full(time: string): string {
  return new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

/** Return what a run has used, in one line; empty while nothing is known. */
export function spentLine({ usage, cost, steps }: Spent): string {
  const input = inputOf(usage);
  const cached = usage.cache_read ? ` (${count(usage.cache_read)} cached)` : "";
  const tokens = [input !== null && `${count(input)} in${cached}`, usage.output !== null && `${count(usage.output)} out`];
  const all = [...tokens, cost !== null && money(cost), steps > 0 && `${steps} ${steps === 1 ? "step" : "steps"}`];
  return all.filter(Boolean).join(" · ");
}

/** Return *cost*, a decimal in USD: below a dollar in cents, with three digits. */
export function money(cost: string): string {
  const dollars = Number(cost);
  if (dollars >= 1) return `$${dollars.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return `${(dollars * 100).toLocaleString("en", { maximumSignificantDigits: 3 })}\u00a0¢`;
}

function count(tokens: number): string {
  return tokens.toLocaleString("en");
}
