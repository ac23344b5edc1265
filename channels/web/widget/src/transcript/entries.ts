/** The transcript as a list of what is on the page: pure, from the conversation's value. */

import type { Conversation } from "../talk/conversation.js";
import type { Decisions } from "../talk/deciding.js";
import type { Given } from "../talk/feedback.js";
import { unshown, type Outgoing } from "../talk/outbox.js";
import type { SentFile } from "../wire/upload.js";
import { isBusy, textOf, type Message, type Run, type ViewState } from "../log/state.js";
import { blocksOf, folded, groupCalls, joinCut, type Block, type Calls } from "./blocks.js";

export type { Block } from "./blocks.js";

export interface Question {
  readonly kind: "question";
  readonly key: string;
  /** When it came, in milliseconds; 0 for one that is still on its way. */
  readonly time: number;
  readonly text: string;
  readonly files: readonly SentFile[];
  /** Its words may be changed: nothing came after it but its answer, which is whole. */
  readonly editable: boolean;
  readonly tag: "sending" | "unsent" | "queued" | "held" | "unanswered" | "deleted" | null;
  readonly run: string | null;
  readonly outgoing: Outgoing | null;
}

export interface Answer {
  readonly kind: "answer";
  readonly key: string;
  /** When its newest message was complete, in milliseconds; 0 before. */
  readonly time: number;
  readonly blocks: readonly Block[];
  readonly busy: boolean;
  /** Nothing is being written or called just now, but the run continues. */
  readonly thinking: boolean;
  readonly run: Run | undefined;
  readonly mark: "stopped" | "refused" | "cut" | "partial" | "blank" | null;
  /** Who answered in the agent's place: the name, empty without one; null for the agent's own answers. */
  readonly by: string | null;
  /** The question to ask again after a failure; only under the newest answer. */
  readonly again: Pick<Question, "text" | "files"> | null;
  readonly newest: boolean;
  /** The message that it answers, where it may be answered once more: of the newest answer, once it is whole. */
  readonly asked: string | null;
  /** What was said of it. */
  readonly feedback: Given | undefined;
}

/** A line between two days. */
export interface Day {
  readonly kind: "day";
  readonly key: string;
  /** When what follows it came, in milliseconds. */
  readonly time: number;
}

export type Entry = Question | Answer;

const runsOf = remembered((runs: readonly Run[]) => new Map(runs.map((run) => [run.id, run])));
const callsOf = remembered(groupCalls);
const made = new WeakMap<Message, readonly [Entry, ...unknown[]]>();

/** Return *entry* of the message *first* as it was made of the same things before, or make it now. */
function known<T extends Entry>(first: Message, of: readonly unknown[], make: () => T): T {
  const found = made.get(first);
  if (found?.length === of.length + 1 && of.every((each, index) => each === found[index + 1])) return found[0] as T;
  const entry = make();
  made.set(first, [entry, ...of]);
  return entry;
}

/** Return *make* so that it computes nothing for the list that it was given last. */
function remembered<A extends object, B>(make: (list: A) => B): (list: A) => B {
  const results = new WeakMap<A, B>();
  return (list) => results.get(list) ?? (results.set(list, make(list)).get(list) as B);
}

/** Return the place at or before *at* of *messages* where an entry begins. */
export function startOf(messages: readonly Message[], at: number): number {
  while (at > 0 && isMore(messages[at], messages[at - 1]?.run ?? null)) at -= 1;
  return Math.max(0, at);
}

/**
 * Return the entries of *conversation*: questions, and answers in which the messages of one run follow each other.
 *
 * Of the messages *from* there on, see `startOf`. An entry whose messages, run, calls and renders are the same values as before is the same value too.
 */
export function entriesOf(conversation: Conversation, from = 0): readonly Entry[] {
  const { view } = conversation;
  const { messages } = view;
  const runs = runsOf(view.runs);
  const calls = callsOf(view.calls);
  const lastOf = new Map<string | null, number>();
  for (let at = from; at < messages.length; at += 1) if (messages[at]?.role === "assistant") lastOf.set(messages[at]?.run ?? null, at);
  const isAsked = view.calls.some(({ approval }) => approval?.status === "open");
  const entries: Entry[] = [];
  for (let at = from; at < messages.length; ) {
    const first = messages[at] as Message;
    const run = first.run === null ? undefined : runs.get(first.run);
    if (first.role === "user") {
      const held = isAsked && first.pending;
      entries.push(known(first, [run, held], () => question(first, run, held)));
      at += 1;
      if (run && needsAnswer(view, at, run, first)) entries.push(answer(run.id, [], run, calls, view));
      continue;
    }
    const group = [first];
    for (at += 1; !first.by && isMore(messages[at], first.run); at += 1) {
      group.push(messages[at] as Message);
    }
    const its = (lastOf.get(first.run) ?? 0) < at ? run : undefined;
    entries.push(known(first, [its, view.calls, view.renders, ...group], () => answer(first.id, group, its, calls, view)));
  }
  entries.push(...unshown(conversation.outbox, view).map(unsent));
  return markNewest(markRetry(entries.map((entry) => withFeedback(withDecisions(entry, conversation.decisions), conversation))), view);
}

/**
 * Return *entries* with a line before the first of each day; none while all of them are of today, which is the day of *now*.
 *
 * Days are those of the reader's own clock; what has no time yet belongs to what is before it.
 */
export function withDays(entries: readonly Entry[], now: number): readonly (Entry | Day)[] {
  const today = midnight(now);
  let day = entries.some(({ time }) => time && time < today) ? 0 : today;
  return entries.flatMap((entry) => {
    const its = entry.time ? midnight(entry.time) : day;
    if (its === day) return entry;
    day = its;
    return [{ kind: "day", key: `day ${its}`, time: entry.time }, entry];
  });
}

/** Return when the day of *time* began, by the reader's clock. */
export function midnight(time: number): number {
  return new Date(time).setHours(0, 0, 0, 0);
}

function isMore(next: Message | undefined, run: string | null): boolean {
  return next?.role === "assistant" && next.run === run && !next.by;
}

function withDecisions(entry: Entry, decisions: Decisions): Entry {
  if (entry.kind !== "answer" || !Object.keys(decisions).length) return entry;
  const decided = (block: Block): Block => (block.kind === "tool" && block.call.approval ? { ...block, deciding: decisions[block.call.approval.id] } : block);
  return { ...entry, blocks: entry.blocks.map(decided) };
}

/** With *held* it waits until people have decided on a call. */
function question(message: Message, run: Run | undefined, held: boolean): Question {
  const tag = held && message.parts.length ? "held" : tagOf(message, run);
  const withdrawable = (held || tag === "queued") && run !== undefined && isBusy(run) && !message.steered;
  const base = { kind: "question", key: message.id, time: message.time, text: textOf(message.parts), files: filesOf(message.parts), editable: false, tag, outgoing: null } as const;
  return { ...base, run: withdrawable ? run.id : null };
}

function filesOf(parts: Message["parts"]): readonly SentFile[] {
  return parts.filter((part) => part.type === "file");
}

function withFeedback(entry: Entry, { feedback }: Conversation): Entry {
  const given = entry.kind === "answer" && entry.run && feedback?.[entry.run.id];
  return given ? { ...entry, feedback: given } : entry;
}

/** Mark the newest answer; while nothing runs and nothing waits, it may be given once more, and its question be put in other words. */
function markNewest(entries: readonly Entry[], view: ViewState): readonly Entry[] {
  const asked = entries.findLastIndex(({ kind }) => kind === "question");
  const question = entries[asked] as Question | undefined;
  const last = entries.length - 1;
  const still = question && question.tag === null && !view.runs.some(isBusy) ? question : undefined;
  const marked = [...entries];
  const answer = entries[last];
  if (answer?.kind === "answer") marked[last] = { ...answer, newest: true, asked: still && answer.by === null ? still.key : null };
  if (still) marked[asked] = { ...still, editable: true };
  return marked;
}

function tagOf(message: Message, run: Run | undefined): Question["tag"] {
  if (!message.parts.length) return "deleted";
  if (message.pending) return "queued";
  return isUnanswered(message, run) ? "unanswered" : null;
}

function isUnanswered(message: Message, run: Run | undefined): boolean {
  return message.missed && run?.status === "cancelled";
}

function unsent(outgoing: Outgoing): Question {
  const tag = outgoing.status === "failed" ? "unsent" : "sending";
  return { kind: "question", key: outgoing.key, time: 0, text: outgoing.text, files: outgoing.files, editable: false, tag, run: null, outgoing };
}

/** A run that ended badly, or has started, without an answer message still needs a place to say so. */
function needsAnswer(view: ViewState, at: number, run: Run, message: Message): boolean {
  if (message.pending || isUnanswered(message, run) || !(run.started || run.status === "failed")) return false;
  return view.messages[at]?.run !== run.id && !view.messages.some((each, index) => each.run === run.id && (index >= at || each.role === "assistant"));
}

function answer(key: string, group: readonly Message[], run: Run | undefined, calls: Calls, view: ViewState): Answer {
  const blocks = joinCut(group.flatMap((message) => blocksOf(message, calls.get(message.id) ?? [], view)), group);
  const last = group.at(-1);
  const busy = run !== undefined && isBusy(run);
  const working = blocks.some((block) => (block.kind === "tool" ? block.call.status === "running" : block.kind === "text" && block.open));
  const thinking = busy && run.status === "running" && !working;
  const by = last?.by ? (last.by.name ?? "") : null;
  const mark = markOf(last, run) ?? (isBlank(blocks, run) ? "blank" : null);
  return { kind: "answer", key, time: last?.time ?? 0, blocks: folded(blocks), busy, thinking, run, mark, by, again: null, newest: false, asked: null, feedback: undefined };
}

/** A run that ended with an answer without a word, after calls that showed nothing to people either. */
function isBlank(blocks: readonly Block[], run: Run | undefined): boolean {
  if (run?.status !== "completed" || run.stopReason !== "end_turn") return false;
  const last = blocks.slice(blocks.findLastIndex(({ kind }) => kind === "tool") + 1);
  return !last.some((block) => block.kind !== "reasoning" && (block.kind !== "text" || block.text.trim()));
}

function markOf(last: Message | undefined, run: Run | undefined): Answer["mark"] {
  if (run && isBusy(run)) return null;
  if (run?.status === "failed") return last?.parts.length ? "partial" : null; // no Stop, whatever cut it
  if (last?.stop === "cancelled" || run?.status === "cancelled") return "stopped";
  if (last?.stop === "continue" || (last?.stop === "error" && last.parts.length)) return "partial";
  if (last?.stop === "refused") return "refused";
  return last?.stop === "length" ? "cut" : null;
}

/** Offer to ask again where the newest run has failed for a passing reason. */
function markRetry(entries: readonly Entry[]): readonly Entry[] {
  const last = entries.at(-1);
  if (last?.kind !== "answer" || last.run?.status !== "failed" || last.run.retryable === false) return entries;
  const asked = entries.findLast((entry) => entry.kind === "question");
  if (!asked?.text && !asked?.files.length) return entries;
  return [...entries.slice(0, -1), { ...last, again: { text: asked.text, files: asked.files } }];
}
