/** The transcript of a conversation, drawn by the widget's pieces, with who said what, and what each run has used. */

import { h, setAttribute, setChildren, setText } from "../dom.js";
import { entriesOf, startOf, type Entry } from "../transcript/entries.js";
import { showEntry } from "../transcript/entry.js";
import type { Scene, Shown } from "../transcript/scene.js";
import { createScroller } from "../transcript/scroll.js";
import { copy } from "../frame/verbs.js";
import { shownOf, type Desk, type DeskActions } from "./desk.js";
import type { Ledger } from "./ledger.js";
import { full, nameOf, spentLine, TALK, WORDS } from "./words.js";

export interface Transcript {
  readonly node: HTMLElement;
  /** The log goes on at least until *time*: nothing is drawn before that has come. */
  expect(time: string): void;
  /** Show *desk* at the next frame; *mayStop*: this key may cancel runs. */
  show(desk: Desk, mayStop: boolean): void;
  /** Go down to the newest text. */
  follow(): void;
}

/** Messages that are drawn; as many more with each push of the button. */
export const DRAWN = 100;
const [FEW, SOON] = [50, 50]; // so many facts in so many milliseconds are news; more are what was there before
const LATEST = 3_000; // milliseconds after which a long log is drawn as far as it has come

export function createTranscript(actions: DeskActions, scene: Scene, signal: AbortSignal): Transcript {
  const list = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": TALK.transcript, tabindex: "0" });
  const scroller = createScroller(list, TALK, signal);
  const node = h("div", { class: "middle" }, list, scroller.node);
  const earlier = h("button", { type: "button", class: "quiet earlier" }, WORDS.earlier);
  const empty = h("p", { class: "nothing" });
  let shown = new Map<string, Row>();
  let now: { desk: Desk; mayStop: boolean } | null = null;
  let most = DRAWN;
  let frame = 0;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let isReady = false;
  let [expected, waits] = ["", 0];

  const paint = (): void => {
    frame = 0;
    if (!now || signal.aborted) return;
    const { desk, mayStop } = now;
    const conversation = shownOf(desk);
    const next = new Map<string, Row>();
    const { messages } = conversation.view;
    const nodes = entriesOf(conversation, startOf(messages, messages.length - most)).map((entry) => {
      const row = shown.get(entry.key) ?? rowOf(entry, scene);
      next.set(entry.key, row);
      row.update(plain(entry, mayStop), desk.ledger);
      return row.node;
    });
    shown = next;
    const loading = !nodes.length && conversation.link !== "open";
    setText(empty, desk.missing ? WORDS.missing : loading ? WORDS.loading : WORDS.empty);
    setAttribute(list, "aria-busy", loading && !desk.missing ? "true" : "false");
    setChildren(list, [...(messages.length > most ? [earlier] : []), ...(nodes.length ? nodes : [empty])]);
  };
  const repaint = (): void => void (frame ||= requestAnimationFrame(paint));
  /** Draw once what is read at first has come: a long log would be drawn many times on the way to its end. */
  const prepare = (before: number): void => {
    const seq = now?.desk.ledger.seq ?? 0;
    waits += SOON;
    isReady = isThere() || waits > LATEST || (!expected && seq - before < FEW) || (now?.desk.missing ?? false);
    if (isReady) repaint();
    else waiting = setTimeout(prepare, SOON, seq);
  };
  const isThere = (): boolean => expected !== "" && (now?.desk.ledger.time ?? "") >= expected;

  signal.addEventListener("abort", () => clearTimeout(waiting), { once: true });
  earlier.addEventListener("click", () => ((most += DRAWN), repaint()), { signal });
  node.addEventListener("click", (event) => {
    const target = (event.target as Element).closest<HTMLElement>("button");
    if (target?.dataset["copy"] !== undefined) copy(target);
    if (target?.dataset["withdraw"]) actions.stop(target.dataset["withdraw"]);
  }, { signal });
  return {
    node,
    follow: scroller.follow,
    show(desk, mayStop) {
      now = { desk, mayStop };
      isReady ||= isThere();
      if (isReady) repaint();
      else waiting ??= setTimeout(prepare, SOON, desk.ledger.seq);
    },
    expect(time) {
      expected ||= time;
    },
  };
}

/** Return *entry* without what only the person who asked can do. */
function plain(entry: Entry, mayStop: boolean): Entry {
  if (entry.kind === "answer") return entry.again === null ? entry : { ...entry, again: null };
  return mayStop || entry.run === null ? entry : { ...entry, run: null };
}

interface Row {
  readonly node: HTMLElement;
  update(entry: Entry, ledger: Ledger): void;
}

function rowOf(entry: Entry, scene: Scene): Row {
  const drawn: Shown<Entry> = showEntry(entry, scene);
  const who = h("p", { class: "who" });
  const sum = h("span");
  const used = h("p", { class: "used" }, h("span", { class: "hidden" }, WORDS.used), sum);
  const detail = h("p", { class: "wrong cause" });
  const answer = drawn.node.querySelector(".turn");
  (answer ?? drawn.node).prepend(who);
  answer?.append(detail, used);
  return {
    node: drawn.node,
    update(next, ledger) {
      drawn.update(next);
      sayWho(who, next.key, ledger);
      if (next.kind === "answer") setAttribute(drawn.node, "data-person", ledger.said.get(next.key)?.person != null);
      if (next.kind === "question") return;
      const spent = next.run && ledger.runs.get(next.run.id);
      setText(sum, spent && !next.busy ? spentLine(spent) : "");
      used.hidden = !sum.textContent;
      setText(detail, spent?.detail ?? "");
    },
  };
}

function sayWho(who: HTMLElement, message: string, { said }: Ledger): void {
  const found = said.get(message);
  if (!found || who.textContent) return;
  const time = h("time", { datetime: found.time, title: full(found.time) }, new Date(found.time).toLocaleTimeString([], { timeStyle: "short" }));
  who.replaceChildren(...(found.person ? [h("b", {}, nameOf(found.person)), " "] : []), time);
}
