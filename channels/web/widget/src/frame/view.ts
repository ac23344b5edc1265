/** The widget's face: a header, a banner, the transcript and the composer, painted at most once a frame. */

import { createComposer } from "./composer.js";
import type { Actions, Conversation } from "../talk/conversation.js";
import type { AgentFace, StartPrompt } from "../talk/face.js";
import type { Extras } from "../extras/main.js";
import { h, icon, setAttribute, setText } from "../dom.js";
import type { Load } from "../lazy.js";
import { showEntry } from "../transcript/entry.js";
import { createTranscript } from "../transcript/transcript.js";
import type { Request } from "../wire/client.js";
import type { Access, SentFile } from "../wire/upload.js";
import { banner } from "./banner.js";
import { listen } from "./verbs.js";
import type { Scene } from "../transcript/scene.js";
import { createScroller } from "../transcript/scroll.js";
import { activeRun } from "../log/state.js";
import { explain, type Strings } from "../words/strings.js";

export interface View {
  readonly node: HTMLElement;
  /** Show *conversation* at the next frame; of several only the last is painted. */
  show(conversation: Conversation): void;
  /** Show a page's own words; null leaves them to the agent, or else to the widget. */
  label(words: Labels): void;
  focus(): void;
}

export interface Labels {
  readonly heading: string | null;
  readonly greeting: string | null;
  readonly placeholder: string | null;
  readonly prompts: readonly StartPrompt[] | null;
}

const PLUS = "M12 20h9M16.5 3.5a2.1 2.1 0 013 3L7 19l-4 1 1-4z";

export interface ViewOptions {
  readonly strings: Strings;
  /** What a person can do. */
  readonly actions: Actions;
  readonly request: Request;
  readonly access: Access;
  readonly load: Load;
  /** The version of this script; null where the page has chosen one for good. */
  readonly build: string | null;
  /** Ends the listeners. */
  readonly signal: AbortSignal;
}

export function createView({ strings, actions, request, access, load, build, signal }: ViewOptions): View {
  let now: Conversation | null = null;
  let frame = 0;
  let labels: Labels = { heading: null, greeting: null, placeholder: null, prompts: null };
  let extras: Extras | null = null;
  let refused: Conversation["refused"] = null;

  const stop = (): void => {
    const run = now && activeRun(now.view);
    if (run) actions.stop(run.id);
  };
  const send = (text: string, files: readonly SentFile[] = []): void => {
    scroller.follow();
    actions.send(text, files);
  };
  const composer = createComposer({ strings, access, load, signal, send, stop });
  const scene: Scene = { strings, request, load, decide: actions.decide, offers: { ...actions, send, focus: composer.focus } };
  const list = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": strings.transcript, part: "messages", tabindex: "0" });
  const scroller = createScroller(list, strings, signal);
  const frameParts = createFrame(strings, composer.node, h("div", { class: "middle" }, list, scroller.node));
  const transcript = createTranscript(list, frameParts.greeting, (entry) => showEntry(entry, scene));

  const label = (): void => {
    const { heading = strings.heading, greeting = strings.greeting } = present(labels, now?.agent);
    setText(frameParts.heading, heading);
    setText(frameParts.greetingText, greeting);
    setAttribute(frameParts.node, "aria-label", heading);
    extras?.label(heading, labels.prompts);
  };
  /** Give back what was refused, with the reason above it. */
  const giveBack = (): void => {
    if (refused === (now?.refused ?? null)) return;
    refused = now?.refused ?? null;
    setText(frameParts.refusal, refused?.problem ? explain(refused.problem, strings) : "");
    if (refused) composer.restore(refused.text, refused.files);
  };
  const paint = (): void => {
    frame = 0;
    if (!now || signal.aborted) return;
    label();
    extras?.update(now);
    giveBack();
    const run = activeRun(now.view);
    transcript(now);
    composer.attach(now.agent?.files ?? null, frameParts.node);
    composer.update({ canStop: run !== undefined, stopping: run !== undefined && (run.cancelling || now.stopping.includes(run.id)) });
    setAttribute(frameParts.node, "data-link", now.link);
    frameParts.renew.hidden = !now.view.messages.length && !now.outbox.length;
    banner(frameParts.banner, now, strings);
    scroller.settle();
  };
  listen(frameParts.node, actions, stop, composer.focus, signal);
  load("extras").then((chunk) => {
    if (signal.aborted) return;
    extras = chunk.extras({ strings, frame: frameParts.node, list, greeting: frameParts.greeting, build, send, isTyped: composer.isTyped, signal });
    frame ||= requestAnimationFrame(paint);
  }).catch(() => undefined); // the conversation is whole without it

  return {
    node: frameParts.node,
    show(conversation) {
      now = conversation;
      frame ||= requestAnimationFrame(paint);
    },
    label(words) {
      labels = words;
      composer.placeholder(words.placeholder ?? strings.placeholder);
      label();
    },
    focus: composer.focus,
  };
}

/** Return the texts of *labels*, and where the page has none, those of the agent. */
function present({ heading, greeting }: Labels, agent: AgentFace | null | undefined): { heading?: string; greeting?: string } {
  const [title, hello] = [heading ?? agent?.title, greeting ?? agent?.greeting];
  return { ...(title && { heading: title }), ...(hello && { greeting: hello }) };
}

function createFrame(strings: Strings, composer: Node, middle: Node) {
  const heading = h("h2", { part: "title", dir: "auto" }, strings.heading);
  const renew = h("button", { type: "button", class: "renew", part: "new", "data-renew": true, title: strings.renew }, icon(PLUS), h("span", {}, strings.renew));
  const head = h("header", { part: "header" }, h("i", { class: "lamp", "aria-hidden": "true" }), heading, renew);
  const banner = h("div", { class: "banner", part: "banner", role: "status" });
  const greetingText = h("p", { part: "greeting", dir: "auto" }, strings.greeting);
  const greeting = h("div", { class: "greeting" }, greetingText);
  const refusal = h("p", { class: "refusal", role: "alert" });
  const node = h("section", { class: "frame", part: "frame", lang: strings.locale, dir: strings.dir }, head, banner, middle, refusal, composer);
  return { node, heading, renew, banner, greeting, greetingText, refusal };
}
