/** What a reader of the screen hears: whole sentences, what tools do and what fails; never a word twice. */

import type { Conversation } from "../talk/conversation.js";
import { h } from "../dom.js";
import { textOf, type Call, type Message, type Run } from "../log/state.js";
import type { ExtrasOptions } from "./main.js";
import type { ExtraWords } from "./words.js";

export interface Announcer {
  update(conversation: Conversation): void;
  say(text: string): void;
}

const QUIET = 400; // milliseconds without a change after which the past has been read
const PATIENCE = 3000; // and at most this long, while an answer is being written
const PACE = 1200; // milliseconds from one announcement to the next
const KEPT = 4; // announcements that stay on the page

/** Announce what happens from now on in a region of its own; the transcript itself is silent then. */
export function createAnnouncer({ strings, node, list, signal }: ExtrasOptions, words: ExtraWords): Announcer {
  const region = h("div", { class: "hidden", "aria-live": "polite", "data-announcer": true });
  const pending: string[] = [];
  const spoken = new Map<string, number>(); // of a message: how much of its text
  const known = new Map<string, string>(); // of a call or a run: its state
  let pace: ReturnType<typeof setTimeout> | undefined;
  let past: ReturnType<typeof setTimeout> | undefined;
  let slow: ReturnType<typeof setTimeout> | undefined;
  let opened: number | null = null;
  let live = false;
  let now: Conversation | null = null;

  node.append(region);
  list.setAttribute("aria-live", "off");
  signal.addEventListener("abort", () => [pace, past, slow].forEach(clearTimeout), { once: true });

  const flush = (): void => {
    pace = undefined;
    if (!pending.length) return;
    region.append(h("p", {}, pending.splice(0).join(" ")));
    while (region.childElementCount > KEPT) region.firstChild?.remove();
    pace = setTimeout(flush, PACE);
  };
  const say = (text: string): void => {
    pending.push(text);
    pace ??= setTimeout(flush, 50);
  };
  /** Note all that there is, announcing what is new where that is *aloud*. */
  const go = ({ view }: Conversation, aloud: boolean): void => {
    for (const message of view.messages.slice(-20)) if (message.role === "assistant") read(message, aloud);
    for (const call of view.calls.slice(-20)) note(call.id, stateOf(call), aloud && tellCall(call));
    for (const run of view.runs.slice(-5)) note(run.id, run.status, aloud && tellRun(run));
  };
  const read = (message: Message, aloud: boolean): void => {
    const text = textOf(message.parts);
    const from = spoken.get(message.id) ?? 0;
    const end = message.open ? sentencesEnd(text, from, strings.locale) : text.length;
    if (end <= from) return;
    spoken.set(message.id, end);
    const name = from ? "" : `${message.by?.name || (message.by ? strings.person : strings.assistant)}: `;
    if (aloud) say(name + plain(text.slice(from, end), words.code));
  };
  const note = (id: string, state: string, text: string | false): void => {
    if (known.get(id) === state) return;
    known.set(id, state);
    if (text) say(text);
  };
  const stateOf = (call: Call): string => call.status + (call.approval?.status ?? "");
  const tellCall = ({ status, title, name, approval }: Call): string | false =>
    status !== "requested" && `${status === "waiting" && approval ? approval.title : (title ?? name)}: ${strings.tool[status]}.`;
  const tellRun = ({ status, code }: Run): string | false => status === "failed" && (strings.failed[code ?? ""] ?? strings.failure);

  /** What a stream begins with is the past: it ends with a pause, or with the first thing that the person does. */
  const wait = (conversation: Conversation): void => {
    opened ??= conversation.link === "open" ? Date.now() : null;
    const begin = (): void => {
      live = true;
      if (now) go(now, false);
    };
    clearTimeout(past);
    if (conversation.outbox.length || (opened !== null && Date.now() - opened > PATIENCE)) return begin();
    if (opened !== null) past = setTimeout(begin, QUIET);
  };

  return {
    say,
    update(conversation) {
      const before = now;
      now = conversation;
      if (conversation.link !== before?.link) {
        clearTimeout(slow);
        if (conversation.link === "connecting") slow = setTimeout(() => say(words.connecting), PATIENCE);
      }
      if (live && before?.view === conversation.view) return;
      if (conversation.view.seq < (before?.view.seq ?? 0)) [live, opened] = [false, null]; // another conversation, or this one read again
      if (live) go(conversation, true);
      else wait(conversation);
    },
  };
}

const segmenters = new Map<string, Intl.Segmenter>();

/** Return where the last whole sentence of *text* after *from* ends; a block of code is whole at its end. */
export function sentencesEnd(text: string, from: number, locale: string): number {
  const rest = text.slice(from);
  if ((rest.match(/^ {0,3}(```|~~~)/gm)?.length ?? 0) % 2 || !("Segmenter" in Intl)) return from;
  const segmenter = segmenters.get(locale) ?? new Intl.Segmenter(locale, { granularity: "sentence" });
  segmenters.set(locale, segmenter);
  const all = [...segmenter.segment(rest)];
  return from + (all.at(-1)?.index ?? 0); // the last one may go on
}

/** Return *text* without the marks of markdown, and *code* in the place of each block of code. */
export function plain(text: string, code: string): string {
  return text
    .replace(/^ {0,3}(```|~~~)[^]*?(^ {0,3}\1[^\n]*$|$(?![^]))/gm, code)
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/^\s*\|?[\s:|-]*---[\s:|-]*$/gm, "")
    .replace(/^[ \t]*(#{1,6}|>|[-*+]|\d+[.)])[ \t]+(\[[ x]\][ \t])?/gim, "")
    .replace(/[ \t]*\|[ \t]*/g, ", ")
    .replace(/(\*\*|__|~~|`)(.+?)\1/g, "$2")
    .replace(/(^|[\s(])[*_](\S[^*_\n]*)[*_]/g, "$1$2")
    .replace(/^, |, $/gm, "")
    .replace(/\s+/g, " ")
    .trim();
}
