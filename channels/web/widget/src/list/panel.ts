/** The panel with a person's conversations, over the widget that it was opened from. */

import { h, icon, PENCIL, setAttribute, setChildren, setText } from "../dom.js";
import type { Actions, Conversation } from "../talk/conversation.js";
import type { Request } from "../wire/client.js";
import { explain, type Strings } from "../words/strings.js";
import { createFinder, type Results } from "./finder.js";
import { createRow, type Row } from "./row.js";
import type { ListWords } from "./words.js";

export interface PanelOptions {
  /** The whole widget. */
  readonly frame: HTMLElement;
  /** What opened it, and gets the focus back. */
  readonly opener: HTMLElement;
  readonly strings: Strings;
  readonly request: Request;
  readonly actions: Actions;
  /** Return the address of a conversation; missing where the page offers none. */
  readonly link?: ((session: string) => string) | undefined;
  now(): Conversation;
  /** Go on to where the next message is written. */
  focus(): void;
  /** Ends the panel with the widget. */
  readonly signal: AbortSignal;
}

const CROSS = "M6 6l12 12M18 6L6 18";

/** Open the panel; Escape and its button close it. */
export function openPanel(options: PanelOptions, words: ListWords): void {
  const { frame, opener, strings, actions } = options;
  const closing = new AbortController();
  const signal = AbortSignal.any([options.signal, closing.signal]);
  const rows = new Map<string, Row>();
  let results: Results | null = null;

  const field = h("input", { type: "search", "aria-label": words.search, placeholder: words.search, maxlength: "200", enterkeyhint: "search" });
  const renew = h("button", { type: "button", class: "renew", title: strings.renew }, icon(PENCIL), h("span", {}, strings.renew));
  const cross = h("button", { type: "button", class: "renew", "aria-label": words.close, title: words.close }, icon(CROSS));
  const note = h("p", { class: "talks-note", role: "status" });
  const list = h("ul", { class: "talks-list", role: "list" });
  const more = h("button", { type: "button", class: "quiet talks-more", hidden: true }, words.more);
  const head = h("header", {}, h("h2", { id: "talks" }, strings.talks), renew, cross);
  const body = h("div", { class: "talks-body" }, note, list, more);
  const node = h("section", { class: "talks", role: "dialog", "aria-modal": "true", "aria-labelledby": "talks" }, head, field, body);
  const beneath = [...frame.children].filter((each): each is HTMLElement => each instanceof HTMLElement && !each.inert);

  const close = (): void => {
    if (closing.signal.aborted) return;
    closing.abort();
    for (const each of beneath) each.inert = false;
    node.remove();
    setAttribute(opener, "aria-expanded", "false");
  };
  const leave = (): void => (close(), opener.focus());
  /** Say what went wrong here, and not under the panel as well. */
  const fail = (): void => {
    const { problem } = options.now();
    setText(note, problem ? explain(problem, strings) : strings.failure);
    actions.dismiss();
  };
  const doing = async (work: Promise<boolean>): Promise<boolean> => {
    const isDone = await work;
    if (!isDone && !signal.aborted) fail();
    return isDone;
  };
  const link = options.link;
  const rowActions = {
    open: (id: string) => void doing(actions.open(id)).then((isDone) => isDone && !signal.aborted && (close(), options.focus())),
    rename: (id: string, title: string) => doing(actions.rename(id, title)).then((isDone) => (isDone && finder.find(field.value.trim()), isDone)),
    async remove(id: string) {
      const isDone = await doing(actions.remove(id));
      if (!isDone || !results) return isDone;
      const at = results.items.findIndex((each) => each.id === id);
      show({ ...results, items: results.items.filter((each) => each.id !== id) });
      const next = results.items[Math.min(at, results.items.length - 1)];
      (next ? rows.get(next.id) : field)?.focus();
      return true;
    },
    link: link && ((id: string) => navigator.clipboard.writeText(link(id))),
  };
  const when = timesIn(strings.locale);
  const rowOf = (state: Parameters<Row["update"]>[0]): Row => {
    const { id } = state.item;
    const row = rows.get(id) ?? createRow(state, rowActions, words, when);
    rows.set(id, row);
    row.update(state);
    return row;
  };
  const show = (next: Results): void => {
    results = next;
    const { items, problem, busy } = next;
    const open = options.now().session;
    const states = items.map((item) => {
      const current = item.id === open;
      return { item, current, unread: !current && item.newest_seq > (actions.read(item.id) ?? item.newest_seq) };
    });
    setChildren(list, states.map((state) => rowOf(state).node));
    setAttribute(list, "aria-busy", busy ? "true" : null);
    more.hidden = !next.more || busy;
    setText(note, problem ? explain(problem, strings) : items.length || busy ? "" : next.words || next.more ? words.nothing : words.none);
  };
  const finder = createFinder(options.request, show, signal);

  const listen = { signal };
  field.addEventListener("input", () => finder.find(field.value.trim()), listen);
  renew.addEventListener("click", () => (actions.renew(), close(), options.focus()), listen);
  cross.addEventListener("click", leave, listen);
  more.addEventListener("click", () => finder.more(), listen);
  node.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Tab") keep(event, node);
    if (event.key !== "Escape") return;
    event.preventDefault(); // neither stops an answer nor closes what the widget is in
    event.stopPropagation();
    leave();
  }, listen);
  options.signal.addEventListener("abort", close, listen);

  for (const each of beneath) each.inert = true;
  frame.append(node);
  setAttribute(opener, "aria-expanded", "true");
  finder.find("");
  field.focus();
}

/** Keep the focus in *node*: after the last of what can have it comes the first. */
function keep(event: KeyboardEvent, node: HTMLElement): void {
  const all = [...node.querySelectorAll<HTMLButtonElement | HTMLInputElement>("button, input")].filter((each) => !each.hidden && !each.disabled);
  const [from, to] = event.shiftKey ? [all[0], all.at(-1)] : [all.at(-1), all[0]];
  if ((node.getRootNode() as ShadowRoot).activeElement !== from) return;
  event.preventDefault();
  to?.focus();
}

/** Return what says when something was: the time of today, else the day. */
function timesIn(locale: string): (time: string) => string {
  const [ofDay, ofYear] = [new Intl.DateTimeFormat(locale, { timeStyle: "short" }), new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" })];
  const older = new Intl.DateTimeFormat(locale, { dateStyle: "medium" });
  return (text) => {
    const [time, today] = [new Date(text), new Date()];
    if (time.toDateString() === today.toDateString()) return ofDay.format(time);
    return (time.getFullYear() === today.getFullYear() ? ofYear : older).format(time);
  };
}
