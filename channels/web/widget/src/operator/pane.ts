/** One conversation: its head with Stop, its transcript, and the reply box. */

import type { Client } from "../wire/client.js";
import { h, icon, setAttribute, setText } from "../dom.js";
import { unmistakable } from "../legible.js";
import { load } from "../lazy.js";
import { activeRun } from "../log/state.js";
import { explain } from "../words/strings.js";
import type { Api, Session } from "./api.js";
import { openDesk, type Desk } from "./desk.js";
import { costOf } from "./ledger.js";
import { createReplyBox } from "./replybox.js";
import { linkOf } from "./side.js";
import { createTranscript } from "./transcript.js";
import { money, nameOf, TALK, WORDS } from "./words.js";

export interface Pane {
  readonly node: HTMLElement;
  /** Say what the conversation is called and who is in it. */
  label(session: Session, agent: string): void;
  /** Show what the key may do now. */
  permit(): void;
  focus(): void;
}

export interface PaneOptions {
  readonly session: string;
  readonly client: Client;
  readonly api: Api;
  readonly can: (scope: string) => boolean;
  readonly name: string;
  readonly renamed: (name: string) => void;
  readonly newKey: () => string;
  /** The state of a run has changed. */
  readonly stirred: () => void;
  readonly signal: AbortSignal;
}

const BACK = "M15 5l-7 7 7 7";

export function createPane({ session, client, api, can, name, renamed, newKey, stirred, signal }: PaneOptions): Pane {
  const heading = h("h2", {}, WORDS.loading);
  const about = h("p", { class: "about" });
  const related = h("p", { class: "about related" });
  const badge = h("span", { class: "badge" });
  const stop = h("button", { type: "button", class: "choice no", hidden: true }, WORDS.stop);
  const back = h("a", { href: "#/", class: "back", "aria-label": WORDS.back, title: WORDS.back }, icon(BACK));
  const head = h("header", {}, back, h("i", { class: "lamp", "aria-hidden": "true" }), h("div", { class: "titles" }, heading, about, related), badge, stop);
  const banner = h("div", { class: "banner", role: "status" });
  const node = h("section", { class: "pane", "aria-label": TALK.transcript, tabindex: "-1" }, head, banner);
  let now: Desk | null = null;
  let names = "";
  let stirring = "";

  const paint = (): void => {
    if (!now) return;
    const { conversation, ledger, missing } = now;
    const run = activeRun(conversation.view);
    const stopping = run !== undefined && (run.cancelling || conversation.stopping.includes(run.id));
    const cost = costOf(ledger);
    setAttribute(node, "data-link", conversation.link);
    setAttribute(badge, "data-status", run?.status ?? "idle");
    setText(badge, WORDS.status[run?.status ?? "idle"] ?? run?.status ?? "");
    stop.hidden = !run || !can("run");
    stop.disabled = stopping;
    setText(stop, stopping ? WORDS.stopping : WORDS.stop);
    setText(about, [names, cost !== null && `${money(cost)} ${WORDS.total}`].filter(Boolean).join(" · "));
    if (missing) setText(heading, WORDS.missing);
    reply.node.hidden = missing || !can("run");
    say(banner, now);
    transcript.show(now, can("run"));
    const state = conversation.view.runs.slice(-3).map(({ id, status }) => `${id}${status}`).join();
    if (stirring && state !== stirring) stirred();
    stirring = state || " ";
  };
  let frame = 0;
  const changed = (desk: Desk): void => {
    now = desk;
    frame ||= requestAnimationFrame(() => ((frame = 0), signal.aborted || paint()));
  };
  const desk = openDesk({ session, client, api, changed, mayApprove: () => can("approve"), signal });
  const transcript = createTranscript(desk, { strings: TALK, request: client.request, load, decide: desk.decide }, signal);
  const send = async (said: Parameters<typeof desk.reply>[0]): Promise<void> => {
    transcript.follow();
    await desk.reply(said);
  };
  const reply = createReplyBox({ name, renamed, send, newKey, signal });
  node.append(transcript.node, reply.node);

  stop.addEventListener("click", () => {
    const run = now && activeRun(now.conversation.view);
    if (run) desk.stop(run.id);
  }, { signal });
  banner.addEventListener("click", (event) => {
    const verb = (event.target as HTMLElement).dataset;
    if (verb["reconnect"] !== undefined) desk.reconnect();
    if (verb["dismiss"] !== undefined) desk.dismiss();
  }, { signal });
  return {
    node,
    label({ title, actor, last_activity_at: newest, forked_from: from, replaced_by: to }, agent) {
      transcript.expect(newest);
      setText(heading, title ? unmistakable(title) : WORDS.untitled);
      const links = [from && h("a", { href: linkOf(from) }, WORDS.before), to && h("a", { href: linkOf(to) }, WORDS.after)];
      related.replaceChildren(...links.filter((each) => each instanceof Node));
      names = [nameOf(actor), unmistakable(agent)].filter(Boolean).join(" · ");
      paint();
    },
    permit() {
      desk.review();
      paint();
    },
    focus: () => node.focus(),
  };
}

function say(banner: HTMLElement, { conversation: { link, problem }, missing }: Desk): void {
  const said = missing ? "" : problem ? explain(problem, TALK) : link === "reconnecting" ? TALK.reconnecting : "";
  setAttribute(banner, "data-tone", said ? (problem ? "error" : "wait") : null);
  if (banner.dataset["said"] === `${link} ${said}`) return;
  banner.dataset["said"] = `${link} ${said}`;
  const [attribute, word] = link === "broken" ? ["data-reconnect", TALK.retry] : ["data-dismiss", TALK.dismiss];
  const button = problem && h("button", { type: "button", class: "quiet", [attribute]: true }, word);
  banner.replaceChildren(...(said ? [h("span", {}, said), ...(button ? [button] : [])] : []));
}
