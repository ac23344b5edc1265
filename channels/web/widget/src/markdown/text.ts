/** What an answer says as nodes, and the mark at the end of what is being written. */

import type { Scene } from "../transcript/scene.js";
import type { TextBlock } from "../transcript/text.js";
import { markdownIn } from "./markdown.js";

/** In which text may go on; of tables only what has text. */
const PLACES = "p,h3,h4,h5,h6,ul,ol,li,blockquote,.code,pre,pre code,.table,table,:is(thead,tbody,tr):has(:is(th,td):not(:empty)),:is(th,td):not(:empty)";

/** Return a function that shows a text in *node*, which may hold it as it came. */
export function textIn(node: HTMLElement, { strings, load }: Scene): (block: TextBlock) => void {
  const write = markdownIn(node, strings);
  const fresh = node.getElementsByClassName("fresh");
  let stamp = "";
  let tip: Element | null = null;
  return ({ text, open }) => {
    if (stamp === `${open}${text}`) return;
    stamp = `${open}${text}`;
    write(text, !open);
    tip?.classList.remove("writing");
    tip = open ? tipOf(node) : null;
    tip?.classList.add("writing");
    for (const code of [...fresh]) {
      if (open && node.lastChild?.contains(code)) continue; // it may grow
      code.classList.remove("fresh");
      load("code").then(({ dress }) => dress(code, strings.code), () => undefined); // it stays readable
    }
  };
}

/** Return the innermost block at the end of *node*: the mark of a text that is being written comes after its last word. */
function tipOf(node: Element): Element {
  let last = node.lastElementChild;
  while (last && !last.matches(PLACES)) last = last.previousElementSibling;
  return last ? tipOf(last) : node;
}
