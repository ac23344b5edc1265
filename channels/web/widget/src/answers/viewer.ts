/** A picture by itself, as large as the page is. */

import { h } from "../dom.js";
import { PICTURES, pictured } from "./buttons.js";
import type { AnswerWords } from "./words.js";

/** Show the picture at *url* over the page that *from* is part of; Escape, a click beside it, and its button close it. */
export function enlarge(from: HTMLElement, url: string, name: string, words: AnswerWords): void {
  const root = from.getRootNode();
  if (!(root instanceof ShadowRoot)) return;
  const close = pictured(words.close, PICTURES.close, () => dialog.close());
  const dialog = h("dialog", { class: "viewer", "aria-label": name }, h("img", { src: url, alt: name }), close);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  root.append(dialog); // beside the frame: Escape in it stops no run
  dialog.showModal();
}
