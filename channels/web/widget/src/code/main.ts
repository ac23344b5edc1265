/** The chunk of code: colours, and lines that wrap; loaded when the first block of code is whole. */

import { h } from "../dom.js";
import { adopt } from "../styles/adopt.js";
import { merged, type Changes } from "../words/merge.js";
import css from "./code.css";
import { spansOf } from "./spans.js";
import { CODE, type CodeWords } from "./words.js";

const AHEAD = "600px"; // of the visible part: code far away is not coloured yet

/** Dress *block*, a `.code` with its bar, once it comes near the visible part. */
export function dress(block: Element, words: Changes<CodeWords> | undefined): void {
  const near = new IntersectionObserver(([entry]) => {
    if (!entry?.isIntersecting) return;
    near.disconnect();
    adopt(block as HTMLElement, css);
    dressed(block, merged(CODE, words));
  }, { root: block.closest(".log"), rootMargin: AHEAD });
  near.observe(block);
}

/** Give *block* the colours of the language that its bar names, and a button that lets long lines wrap. */
export function dressed(block: Element, { wrap }: CodeWords): void {
  const code = block.querySelector("code");
  const label = block.querySelector(".code-bar span");
  if (!code || !label) return;
  const spans = spansOf(code.textContent ?? "", (label.textContent ?? "").toLowerCase());
  if (spans) code.replaceChildren(spans);
  const button = h("button", { type: "button", class: "wrap", "aria-pressed": "false" }, wrap);
  button.addEventListener("click", () => button.setAttribute("aria-pressed", String(block.classList.toggle("wrapped"))));
  label.after(button);
}
