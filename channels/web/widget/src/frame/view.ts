/** The widget's face: a header, a banner, the transcript and the composer, painted at most once a frame. */

import { createComposer } from "./composer.js";
import type { Actions, Conversation } from "../talk/conversation.js";
import { h, icon, PENCIL, setAttribute, setText } from "../dom.js";
import type { Extras } from "../extras/main.js";
import type { Load } from "../lazy.js";
import { showEntry } from "../transcript/entry.js";
import { createTranscript } from "../transcript/transcript.js";
import type { Request } from "../wire/client.js";
import type { Access, SentFile } from "../wire/upload.js";
import { banner } from "./banner.js";
import { listen, stopRun } from "./verbs.js";
import type { Scene } from "../transcript/scene.js";
import { createScroller } from "../transcript/scroll.js";
import { activeRun } from "../log/state.js";
import { explain, type Strings } from "../words/strings.js";

export interface View {
  readonly node: HTMLElement;
  /** Show *conversation* at the next frame; of several only the last is painted. */
  show(conversation: Conversation): void;
  label(words: Pick<Strings, "heading" | "greeting" | "placeholder">): void;
  focus(): void;
}

/** The version of this build, which the build writes in. */
declare const BUILD: string;

const LINES = "M4 6h16M4 12h16M4 18h10";

export interface ViewOptions {
  readonly strings: Strings;
  /** What a person can do. */
  readonly actions: Actions;
  readonly request: Request;
  readonly access: Access;
  readonly load: Load;
  /** Whether there are links to conversations. */
  readonly links?: boolean;
  /** Ends the listeners. */
  readonly signal: AbortSignal;
}

export function createView({ strings, actions, request, access, load, links = false, signal }: ViewOptions): View {
  let now: Conversation | null = null;
  let frame = 0;
  let extras: Extras | null = null;
  let settled = false;
  let refused: Conversation["refused"] = null;
  let talk = -1;

  const stop = (): void => {
    if (now) stopRun(now.view, actions, composer.node, load, strings);
  };
  const send = (text: string, files: readonly SentFile[] = []): void => {
    scroller.follow();
    actions.send(text, files);
  };
  /** Until another conversation is painted, what is in the tray belongs to the one before. */
  const attached = (files: readonly SentFile[]): void => {
    if (now?.talk === talk) actions.attach(files);
  };
  const composer = createComposer({ strings, access, load, signal, send, stop, typed: actions.write, attached });
  const scene: Scene = { strings, request, load, decide: actions.decide, dress: (place) => extras?.dress(place), offers: { ...actions, send, focus: composer.focus } };
  const list = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": strings.transcript, part: "messages", tabindex: "0" });
  const scroller = createScroller(list, strings, signal);
  const frameParts = createFrame(strings, composer.node, h("div", { class: "middle" }, list, scroller.node));
  const transcript = createTranscript(list, frameParts.greeting, (entry) => showEntry(entry, scene), actions.older, signal);

  const paintSoon = (): void => void (frame ||= requestAnimationFrame(paint));
  const paint = (): void => {
    frame = 0;
    if (!now || signal.aborted) return;
    extras?.update(now);
    const run = activeRun(now.view);
    if (settled) transcript(now);
    if (talk !== (talk = now.talk)) composer.write(actions.draft(), actions.attached());
    if (refused !== now.refused) giveBack((refused = now.refused));
    composer.attach(now.agent?.files ?? null, frameParts.node);
    composer.update({ canStop: run !== undefined, stopping: run !== undefined && (run.cancelling || now.stopping.includes(run.id)) });
    setAttribute(frameParts.node, "data-link", now.link);
    frameParts.renew.hidden = !now.view.messages.length && !now.outbox.length;
    banner(frameParts.banner, now, strings);
  };
  /** Give back what was refused, with the reason above it. */
  const giveBack = (outgoing: Conversation["refused"]): void => {
    setText(frameParts.refusal, outgoing?.problem ? explain(outgoing.problem, strings) : "");
    if (outgoing) composer.restore(outgoing.text, outgoing.files);
  };
  listen(frameParts.node, actions, stop, composer.focus, signal);
  load("extras").then((chunk) => {
    extras = chunk.extras({ strings, list, ...frameParts, build: typeof BUILD === "undefined" ? "" : BUILD, send, isTyped: composer.isTyped, signal });
  }).catch(() => undefined).then(() => {
    settled = true; // the conversation is whole without the extras, if not as pretty
    paintSoon();
  });
  const { talks } = frameParts;
  talks.addEventListener("click", async () => {
    const { openList } = await load("list");
    if (now && !signal.aborted) openList({ frame: frameParts.node, opener: talks, strings, request, actions, now: () => now as Conversation, focus: composer.focus, signal }, links);
  }, { signal });

  return {
    node: frameParts.node,
    show(conversation) {
      now = conversation;
      paintSoon();
    },
    label({ heading, greeting, placeholder }) {
      setText(frameParts.heading, heading);
      setText(frameParts.greetingText, greeting);
      setAttribute(frameParts.node, "aria-label", heading);
      composer.placeholder(placeholder);
      paintSoon(); // an agent has words of its own
    },
    focus: composer.focus,
  };
}

function createFrame(strings: Strings, composer: Node, middle: Node) {
  const heading = h("h2", { part: "title" }, strings.heading);
  const renew = h("button", { type: "button", class: "renew", part: "new", "data-renew": true, title: strings.renew }, icon(PENCIL), h("span", {}, strings.renew));
  const talks = h("button", { type: "button", class: "renew", part: "talks", "aria-label": strings.talks, title: strings.talks, "aria-haspopup": "dialog", "aria-expanded": "false" }, icon(LINES));
  const head = h("header", { part: "header" }, h("i", { class: "lamp", "aria-hidden": "true" }), heading, renew, talks);
  const banner = h("div", { class: "banner", part: "banner", role: "status" });
  const refusal = h("p", { class: "refusal", role: "alert" });
  const greetingText = h("p", { part: "greeting", dir: "auto" }, strings.greeting);
  const greeting = h("div", { class: "greeting" }, greetingText);
  const node = h("section", { class: "frame", part: "frame", lang: strings.locale, dir: strings.dir || null }, head, banner, middle, refusal, composer);
  return { node, heading, renew, talks, banner, greeting, greetingText, refusal };
}
