/** Where an operator says something to the person, in their own name. */

import { h, icon, setAttribute, setText } from "../dom.js";
import { asProblem } from "../wire/problem.js";
import { explain } from "../words/strings.js";
import type { Reply } from "./api.js";
import { TALK, WORDS } from "./words.js";

export interface ReplyBox {
  readonly node: HTMLElement;
  focus(): void;
}

export interface ReplyBoxOptions {
  /** The name that was used last, else that of the key. */
  readonly name: string;
  readonly renamed: (name: string) => void;
  readonly send: (reply: Reply) => Promise<void>;
  readonly newKey: () => string;
  readonly signal: AbortSignal;
}

const UP = "M12 19V5M5 12l7-7 7 7";
const TALLEST = 200; // pixels; the text scrolls beyond
const LONGEST_NAME = "80";

/** Return a box; Enter sends, Shift+Enter breaks the line. What could not be sent stays in it. */
export function createReplyBox({ name, renamed, send, newKey, signal }: ReplyBoxOptions): ReplyBox {
  const words = WORDS.reply;
  const area = h("textarea", { rows: "1", "aria-label": words.label, placeholder: words.placeholder, enterkeyhint: "send", maxlength: "100000" });
  const submit = h("button", { type: "submit", class: "round send", "aria-label": words.send, title: words.send, disabled: true }, icon(UP));
  const as = h("input", { type: "text", class: "name", "aria-label": words.name, placeholder: words.name, maxlength: LONGEST_NAME, autocomplete: "name" });
  const status = h("span", { class: "said", role: "status" });
  const form = h("form", { class: "composer" }, area, submit);
  const node = h("div", { class: "reply" }, form, h("div", { class: "as" }, h("label", {}, words.as, " ", as), status));
  let held: { readonly text: string; readonly key: string } | null = null;
  as.value = name;

  const grow = (): void => {
    area.style.blockSize = "auto";
    area.style.blockSize = `${Math.min(TALLEST, area.scrollHeight)}px`;
    submit.disabled = area.readOnly || !area.value.trim();
  };
  const busy = (isBusy: boolean, said = ""): void => {
    area.readOnly = isBusy;
    setText(status, said);
    setAttribute(status, "data-tone", said && !isBusy ? "error" : null);
    grow();
  };
  const post = async (): Promise<void> => {
    const text = area.value.trim();
    if (!text || area.readOnly) return;
    // The same words again are the same reply: what seemed to fail may have arrived.
    held = held?.text === text ? held : { text, key: newKey() };
    busy(true, words.sending);
    try {
      await send({ ...held, name: as.value.trim() });
      held = null;
      area.value = "";
      busy(false);
    } catch (error) {
      busy(false, explain(asProblem(error), TALK));
    }
  };

  form.addEventListener("submit", (event) => (event.preventDefault(), void post(), area.focus()), { signal });
  area.addEventListener("input", grow, { signal });
  as.addEventListener("change", () => renamed(as.value.trim()), { signal });
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void post();
  }, { signal });
  return { node, focus: () => area.focus() };
}
