/** Where the focus goes after a decision, and a question in the composer's place. */

import { h } from "../dom.js";
import type { CardStrings } from "./words.js";

const CONTROLS = ".card[data-status=open] :is(button, input, select, textarea):not([disabled])";

/** Focus what comes after *card*: the next open question, else an earlier one, else where messages are written. */
export function goOn(card: HTMLElement): void {
  const root = card.getRootNode() as ParentNode;
  const open = [...root.querySelectorAll<HTMLElement>(CONTROLS)].filter((each) => !card.contains(each));
  const after = open.find((each) => card.compareDocumentPosition(each) & 4); // DOCUMENT_POSITION_FOLLOWING
  const next = after ?? open[0];
  if (next) lead(next);
  else root.querySelector<HTMLElement>(".composer textarea")?.focus();
}

/** Focus *to* and bring it into view, once the transcript has gone to its end, as it does with what is new. */
export function lead(to: HTMLElement | null | undefined): void {
  to?.focus();
  setTimeout(() => to?.scrollIntoView?.({ block: "center" }));
}

/** Return whether *card* has the focus, or had it when the person *voted*: a button that is disabled then loses it. */
export function holdsFocus(card: HTMLElement, voted: boolean): boolean {
  const { activeElement: inside } = card.getRootNode() as Document | ShadowRoot;
  const { activeElement, body } = card.ownerDocument;
  if (inside && inside !== body) return card.contains(inside);
  return voted && (!activeElement || activeElement === body);
}

/** Ask in the place of *composer* whether an open question is to be withdrawn; *stop* does it. */
export function confirmStop(composer: HTMLElement, { approval: words }: CardStrings, stop: () => void): void {
  if (composer.hidden) return;
  const text = h("p", { id: "parley-stop" }, words.stop);
  const yes = h("button", { type: "button", class: "choice no" }, words.stopYes);
  const no = h("button", { type: "button", class: "choice" }, words.stopNo);
  const node = h("div", { class: "confirm", role: "alertdialog", "aria-labelledby": text.id }, text, h("div", { class: "choices" }, yes, no));
  const close = (): void => {
    node.remove();
    composer.hidden = false;
    composer.querySelector("textarea")?.focus();
  };
  yes.addEventListener("click", () => (close(), stop()));
  no.addEventListener("click", close);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // it answers this, and asks nothing more
    close();
  });
  composer.before(node);
  composer.hidden = true;
  no.focus();
}
