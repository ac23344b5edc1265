/** One conversation in the list: what opens it, and what else can be done with it. */

import { h, icon, setAttribute, setText } from "../dom.js";
import type { Item } from "./finder.js";
import type { ListWords } from "./words.js";

export interface RowActions {
  open(session: string): void;
  rename(session: string, title: string): Promise<boolean>;
  remove(session: string): Promise<boolean>;
  /** Copy a link to it; missing where the page offers none. */
  readonly link: ((session: string) => Promise<void>) | undefined;
}

export interface RowState {
  readonly item: Item;
  readonly current: boolean;
  readonly unread: boolean;
}

export interface Row {
  readonly node: HTMLElement;
  update(state: RowState): void;
  focus(): void;
}

const DOTS = "M12 5v.01M12 12v.01M12 19v.01";

/** Return the row of a conversation; *when* says when something happened in it last. */
export function createRow(first: RowState, actions: RowActions, words: ListWords, when: (time: string) => string): Row {
  const { id } = first.item;
  let title = "";
  const name = h("span", { class: "talk-title", dir: "auto" });
  const mark = h("span", { class: "talk-mark" });
  const time = h("time", {});
  const open = h("button", { type: "button", class: "talk-open" }, name, mark, time);
  const more = h("button", { type: "button", class: "talk-more", "aria-expanded": "false" }, icon(DOTS));
  const place = h("div", { class: "talk-place" });
  const node = h("li", { class: "talk" }, h("div", { class: "talk-line" }, open, more), place);

  const button = (label: string, click: () => void, kind = ""): HTMLElement => {
    const made = h("button", { type: "button", class: `quiet ${kind}` }, label);
    made.addEventListener("click", click);
    return made;
  };
  const show = (...nodes: readonly HTMLElement[]): void => {
    place.replaceChildren(...nodes);
    setAttribute(more, "aria-expanded", String(nodes.length > 0));
  };
  const close = (): void => (show(), more.focus());
  const options = (): void => {
    const link = actions.link;
    const copy = link && button(words.link, () => void link(id).then(() => setText(copy as HTMLElement, words.copied)));
    show(h("div", { class: "talk-choices" }, button(words.rename, rename), copy, button(words.remove, ask, "danger")));
    place.querySelector("button")?.focus();
  };
  const rename = (): void => {
    const field = h("input", { type: "text", "aria-label": words.title, maxlength: "200", required: true, dir: "auto" });
    const form = h("form", { class: "talk-choices" }, field, h("button", { type: "submit", class: "quiet" }, words.save), button(words.cancel, close));
    field.value = title;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = field.value.trim();
      if (given) void actions.rename(id, given).then((isDone) => isDone && close());
    });
    show(form);
    field.select();
    field.focus();
  };
  const ask = (): void => {
    const yes = button(words.remove, () => {
      yes.setAttribute("disabled", "");
      void actions.remove(id).then((isDone) => isDone || yes.removeAttribute("disabled"));
    }, "danger");
    const no = button(words.keep, close);
    show(h("div", { class: "talk-choices", role: "group", "aria-label": words.sure }, h("span", {}, words.sure), yes, no));
    no.focus();
  };
  open.addEventListener("click", () => actions.open(id));
  more.addEventListener("click", () => (place.childElementCount ? close() : options()));
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing || !place.childElementCount) return;
    event.preventDefault();
    event.stopPropagation();
    close();
  });

  return {
    node,
    focus: () => open.focus(),
    update({ item, current, unread }) {
      title = item.title ?? words.untitled;
      setText(name, title);
      setText(mark, current ? words.current : unread ? words.unread : "");
      setAttribute(node, "data-unread", unread);
      setAttribute(open, "aria-current", current ? "true" : null);
      setText(time, when(item.last_activity_at));
      setAttribute(time, "datetime", item.last_activity_at);
      for (const attribute of ["aria-label", "title"]) setAttribute(more, attribute, words.options.replace("{title}", () => title));
    },
  };
}
