/** What can be done with one's own message: copy it, and put the newest one in other words. */

import { h, setAttribute, setChildren } from "../dom.js";
import type { Question } from "../transcript/entries.js";
import type { Offers, Scene } from "../transcript/scene.js";
import { copyButton, PICTURES, pictured, timeNode } from "./buttons.js";
import type { AnswerWords } from "./words.js";

/** Return a function that shows in *host* what can be done with the message that *bubble* shows. */
export function questionFoot(host: HTMLElement, bubble: HTMLElement, { strings }: Scene, offers: Offers, words: AnswerWords): (question: Question) => void {
  const said = h("span", { class: "said", role: "status" });
  const copy = copyButton(strings.copy, () => ({ text: now.text }), (done) => said.replaceChildren(done ? words.copied : words.uncopied));
  const edit = pictured(words.edit, PICTURES.edit, () => begin());
  const bar = h("div", { class: "acts", role: "group", "aria-label": words.ownActions });
  let now: Question;
  let form: HTMLElement | null = null;
  let stamp = "";

  const end = (): void => {
    form?.remove();
    form = null;
    bubble.hidden = bar.hidden = false;
  };
  const begin = (): void => {
    const { key, text } = now;
    const send = async (changed: string): Promise<void> => {
      if (changed === text) return cancel();
      if ((await offers.edit?.(key, changed)) === false) return;
      end();
      offers.focus();
    };
    const cancel = (): void => (end(), edit.focus());
    form = editForm(text, words, strings.send, send, cancel);
    bubble.hidden = bar.hidden = true;
    bubble.after(form);
    form.querySelector("textarea")?.focus();
  };
  return (question) => {
    now = question;
    const seen = JSON.stringify([question.text, question.time, question.editable, question.tag]);
    if (seen === stamp) return;
    stamp = seen;
    const isEditable = question.editable && question.text !== "" && offers.edit !== undefined;
    if (!isEditable) end();
    setAttribute(host, "data-newest", question.editable);
    const all = question.tag === "deleted" ? [] : [timeNode(question.time, strings.locale), question.text && copy, isEditable && edit, said];
    setChildren(bar, all.filter((each): each is HTMLElement => typeof each === "object" && each !== null));
    setChildren(host, [bar]);
  };
}

/** Return a form in the place of a message: Enter sends, Shift+Enter breaks the line, Escape cancels. */
function editForm(text: string, words: AnswerWords, sends: string, send: (text: string) => Promise<void>, cancel: () => void): HTMLElement {
  const area = h("textarea", { rows: "1", "aria-label": words.editing, enterkeyhint: "send" });
  area.value = text;
  const stop = h("button", { type: "button", class: "quiet" }, words.cancel);
  const go = h("button", { type: "submit", class: "solid" }, sends);
  const node = h("form", { class: "edit" }, area, h("div", { class: "form-buttons" }, stop, go));
  const submit = (): void => {
    const changed = area.value.trim();
    if (!changed || go.disabled) return;
    go.disabled = true;
    send(changed).finally(() => (go.disabled = false));
  };
  node.addEventListener("submit", (event) => (event.preventDefault(), submit()));
  stop.addEventListener("click", cancel);
  node.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      event.stopPropagation(); // it ends the form, not the run
      cancel();
    }
    if (event.key !== "Enter" || event.shiftKey || event.target !== area) return;
    event.preventDefault();
    submit();
  });
  return node;
}
