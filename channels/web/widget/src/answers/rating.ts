/** Thumbs up and down, and a small form for the reason. */

import { h, setAttribute } from "../dom.js";
import type { Rating } from "../talk/feedback.js";
import type { Answer } from "../transcript/entries.js";
import type { Offers } from "../transcript/scene.js";
import { explain, type Strings } from "../words/strings.js";
import { PICTURES, pictured } from "./buttons.js";
import type { AnswerWords } from "./words.js";

export interface RatingBar {
  readonly buttons: readonly HTMLElement[];
  /** The place of the form; empty while none is open. */
  readonly form: HTMLElement;
  update(answer: Answer): void;
}

/** Return thumbs for an answer: a click counts at once, and asks for the reason. */
export function ratingOf(offers: Offers, words: AnswerWords, strings: Strings, say: (text: string) => void): RatingBar {
  const form = h("div");
  const wrong = h("p", { class: "wrong", role: "alert" });
  let run = "";
  let now: Answer["feedback"];
  const close = (to: HTMLElement): void => (to.focus(), open(null));
  const open = (asked: HTMLElement | null): void => form.replaceChildren(...(asked ? [asked] : []), ...(wrong.textContent ? [wrong] : []));
  const button = (rating: Rating, name: string, path: string): HTMLElement => {
    let asked: HTMLElement | null = null;
    const node: HTMLElement = pictured(name, path, () => {
      if (now?.rating !== rating || now.problem) offers.feedback(run, rating);
      const send = (comment: string): void => {
        if (comment) offers.feedback(run, rating, comment);
        say(words.thanks);
        close(node);
      };
      asked ??= reasonForm(rating, words, strings, send, () => close(node));
      open(asked);
      asked.querySelector("button")?.focus();
    });
    return node;
  };
  const thumbs = { up: button("up", words.good, PICTURES.good), down: button("down", words.bad, PICTURES.bad) };
  return {
    buttons: [thumbs.up, thumbs.down],
    form,
    update({ run: rated, feedback }) {
      run = rated?.id ?? "";
      now = feedback;
      for (const [rating, node] of Object.entries(thumbs)) setAttribute(node, "aria-pressed", String(feedback?.rating === rating));
      wrong.replaceChildren(feedback?.problem ? `${words.unkept} ${explain(feedback.problem, strings)}` : "");
      if (feedback?.problem) form.append(wrong);
      else wrong.remove();
    },
  };
}

/** Return a form that asks for the reason of *rating*; it keeps what was written while it is closed. */
function reasonForm(rating: Rating, words: AnswerWords, strings: Strings, send: (comment: string) => void, close: () => void): HTMLElement {
  const chips = Object.values(words.reasons[rating]).map((reason) => {
    const chip = h("button", { type: "button", class: "chip", "aria-pressed": "false" }, reason);
    chip.addEventListener("click", () => setAttribute(chip, "aria-pressed", String(chip.getAttribute("aria-pressed") !== "true")));
    return chip;
  });
  const text = h("textarea", { rows: "2", "aria-label": words.more, placeholder: words.more });
  const later = h("button", { type: "button", class: "quiet" }, words.later);
  const buttons = h("div", { class: "form-buttons" }, later, h("button", { type: "submit", class: "solid" }, strings.send));
  const node = h("form", { class: "reasons", "aria-label": words.why[rating] }, h("p", {}, words.why[rating]), h("div", { class: "chips" }, ...chips), text, buttons);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const picked = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.textContent);
    send([picked.join(", "), text.value.trim()].filter(Boolean).join("\n"));
  });
  later.addEventListener("click", close);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation(); // it ends the form, not the run
    close();
  });
  return node;
}
