/** What is around a table and a chart: the title, the buttons, and the line that is announced. */

import { h, setAttribute, setText } from "../dom.js";
import type { DrawnStrings } from "./words.js";

export interface Frame {
  readonly node: HTMLElement;
  /** Announce *text* to those who cannot see what changed. */
  say(text: string): void;
  /** Add a button that does *act*; one that fails says so. */
  button(label: string, about: string, act: (button: HTMLButtonElement) => unknown): HTMLButtonElement;
}

/** Return a figure called *title*, else *fallback*, that is described by *words*. */
export function frameOf(title: string | undefined, fallback: string, words: DrawnStrings): Frame {
  const buttons = h("div", { class: "drawn-buttons" });
  const said = h("p", { class: "hidden", role: "status" });
  const heading = h("figcaption", { class: title ? null : "quiet-title" }, h("bdi", {}, title ?? fallback));
  const node = h("figure", { class: "drawn", "aria-label": title ?? fallback }, h("div", { class: "drawn-bar" }, heading, buttons), said);
  const say = (text: string): void => setText(said, text);
  return {
    node,
    say,
    button(label, about, act) {
      const made = h("button", { type: "button", title: about, "aria-label": about }, label);
      made.addEventListener("click", () => void (async () => act(made))().catch(() => say(words.unsaved)));
      buttons.append(made);
      return made;
    },
  };
}

/** Add the button that shows the data; return the place where it appears. */
export function dataButton({ button }: Frame, words: DrawnStrings, grid: () => HTMLElement): HTMLElement {
  const place = h("div", { class: "data", hidden: true });
  const toggle = button(words.data, words.data, () => {
    if (!place.firstChild) place.append(grid());
    place.hidden = !place.hidden;
    toggle.textContent = place.hidden ? words.data : words.noData;
    setAttribute(toggle, "aria-label", toggle.textContent);
    setAttribute(toggle, "title", null);
    setAttribute(toggle, "aria-expanded", String(!place.hidden));
  });
  setAttribute(toggle, "aria-expanded", "false");
  return place;
}
