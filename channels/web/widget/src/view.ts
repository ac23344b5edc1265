/** The widget's face: a header, a banner, the transcript and the composer, painted at most once a frame. */

import { createComposer } from "./composer.js";
import type { Actions, Conversation } from "./conversation.js";
import { h, icon, setAttribute, setChildren, setText } from "./dom.js";
import { entriesOf, type Entry } from "./entries.js";
import { showEntry, type Shown } from "./entry.js";
import type { Draw } from "./renders.js";
import { createScroller } from "./scroll.js";
import { activeRun } from "./state.js";
import { explain, type Strings } from "./strings.js";

export interface View {
  readonly node: HTMLElement;
  /** Show *conversation* at the next frame; of several only the last is painted. */
  show(conversation: Conversation): void;
  label(words: Pick<Strings, "heading" | "greeting" | "placeholder">): void;
  focus(): void;
}

const PLUS = "M12 20h9M16.5 3.5a2.1 2.1 0 013 3L7 19l-4 1 1-4z";

/** Build the view; *actions* are what a person can do, *draw* gives what a render shows, *signal* ends its listeners. */
export function createView(strings: Strings, actions: Actions, draw: Draw, signal: AbortSignal): View {
  let now: Conversation | null = null;
  let frame = 0;

  const stop = (): void => {
    const run = now && activeRun(now.view);
    if (run) actions.stop(run.id);
  };
  const send = (text: string): void => {
    scroller.follow();
    actions.send(text);
  };
  const composer = createComposer(strings, { send, stop }, signal);
  const list = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": strings.transcript, tabindex: "0" });
  const scroller = createScroller(list, strings, signal);
  const frameParts = createFrame(strings, composer.node, h("div", { class: "middle" }, list, scroller.node));
  const transcript = createTranscript(list, frameParts.greeting, (entry) => showEntry(entry, strings, actions.decide, draw));

  const paint = (): void => {
    frame = 0;
    if (!now || signal.aborted) return;
    const run = activeRun(now.view);
    transcript(now);
    composer.update({ canStop: run !== undefined, stopping: run !== undefined && (run.cancelling || now.stopping.includes(run.id)) });
    setAttribute(frameParts.node, "data-link", now.link);
    frameParts.renew.hidden = !now.view.messages.length && !now.outbox.length;
    banner(frameParts.banner, now, strings);
    scroller.settle();
  };
  listen(frameParts.node, actions, stop, composer.focus, signal);

  return {
    node: frameParts.node,
    show(conversation) {
      now = conversation;
      frame ||= requestAnimationFrame(paint);
    },
    label({ heading, greeting, placeholder }) {
      setText(frameParts.heading, heading);
      setText(frameParts.greetingText, greeting);
      setAttribute(frameParts.node, "aria-label", heading);
      composer.placeholder(placeholder);
    },
    focus: composer.focus,
  };
}

function createFrame(strings: Strings, composer: Node, middle: Node) {
  const heading = h("h2", {}, strings.heading);
  const renew = h("button", { type: "button", class: "renew", "data-renew": true, title: strings.renew }, icon(PLUS), h("span", {}, strings.renew));
  const head = h("header", {}, h("i", { class: "lamp", "aria-hidden": "true" }), heading, renew);
  const banner = h("div", { class: "banner", role: "status" });
  const greetingText = h("p", {}, strings.greeting);
  const greeting = h("div", { class: "greeting" }, greetingText);
  const node = h("section", { class: "frame" }, head, banner, middle, composer);
  return { node, heading, renew, banner, greeting, greetingText };
}

/** Return a function that draws the entries of a conversation, touching only the nodes that changed. */
function createTranscript(list: HTMLElement, greeting: HTMLElement, drawn: (entry: Entry) => Shown<Entry>): (conversation: Conversation) => void {
  let shown = new Map<string, Shown<Entry>>();
  return (conversation) => {
    const next = new Map<string, Shown<Entry>>();
    const nodes = entriesOf(conversation).map((entry) => {
      const known = shown.get(entry.key) ?? drawn(entry);
      next.set(entry.key, known);
      known.update(entry);
      return known.node;
    });
    shown = next;
    const loading = !nodes.length && conversation.link !== "idle";
    setAttribute(list, "aria-busy", loading ? "true" : "false");
    setChildren(list, nodes.length || (loading && conversation.link !== "open") ? nodes : [greeting]);
  };
}

function banner(node: HTMLElement, { link, problem, lost }: Conversation, strings: Strings): void {
  const said = problem ? explain(problem, strings) : lost ? strings.lost : link === "reconnecting" ? strings.reconnecting : "";
  const text = link === "broken" ? `${strings.broken} ${said}` : said;
  setAttribute(node, "data-tone", problem ? "error" : link === "reconnecting" ? "wait" : text ? "info" : null);
  if (node.dataset["said"] === `${link} ${text}`) return;
  node.dataset["said"] = `${link} ${text}`;
  const retry = link === "broken" && h("button", { type: "button", class: "quiet", "data-reconnect": true }, strings.retry);
  const dismiss = link !== "broken" && (problem !== null || lost) && h("button", { type: "button", class: "quiet", "data-dismiss": true }, strings.dismiss);
  node.replaceChildren(...[text && h("span", {}, text), retry, dismiss].filter((each) => each !== false && each !== ""));
}

/** Handle every click and key of the widget in one place. */
function listen(node: HTMLElement, actions: Actions, stop: () => void, focus: () => void, signal: AbortSignal): void {
  const verbs: Readonly<Record<string, (value: string, target: HTMLElement) => void>> = {
    renew: () => (actions.renew(), focus()),
    reconnect: () => actions.reconnect(),
    dismiss: () => actions.dismiss(),
    resend: (key) => actions.resend(key),
    withdraw: (run) => actions.stop(run),
    again: (text) => (actions.send(text), focus()),
    copy: (_value, target) => copy(target),
  };
  node.addEventListener("click", (event) => {
    const target = (event.target as Element).closest<HTMLElement>("button");
    for (const [name, value] of Object.entries(target?.dataset ?? {})) verbs[name]?.(value ?? "", target as HTMLElement);
  }, { signal });
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing) stop();
  }, { signal });
}

/** Copy the code block that *button* is part of. */
export function copy(button: HTMLElement): void {
  const text = button.closest(".code")?.querySelector("pre")?.textContent ?? "";
  const mark = (): void => {
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  };
  navigator.clipboard?.writeText(text).then(mark, () => undefined);
}
