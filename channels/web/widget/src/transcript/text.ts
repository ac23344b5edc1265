/** What an answer says and what the model thought, as nodes. */

import { h, setText } from "../dom.js";
import type { Block } from "./entries.js";
import { markdownIn } from "./markdown.js";
import type { Scene, Shown } from "./scene.js";

/** In which text may go on; of tables only what has text. */
const PLACES = "p,h3,h4,h5,h6,ul,ol,li,blockquote,.code,pre,pre code,.table,table,:is(thead,tbody,tr):has(:is(th,td):not(:empty)),:is(th,td):not(:empty)";

export function textNode({ strings, load }: Scene): Shown<Block & { kind: "text" }> {
  const node = h("div", { class: "text" });
  const write = markdownIn(node, strings);
  const plain = node.getElementsByClassName("plain");
  let stamp = "";
  let tip: Element | null = null;
  return {
    node,
    update({ text, open }) {
      if (stamp === `${open}${text}`) return;
      stamp = `${open}${text}`;
      node.classList.toggle("open", open);
      write(text, !open);
      tip?.classList.remove("tip");
      tip = open ? tipOf(node) : null;
      tip?.classList.add("tip");
      for (const code of [...plain]) {
        if (open && node.lastChild?.contains(code)) continue; // it may grow
        code.classList.remove("plain");
        load("code").then(({ dress }) => dress(code, strings.code), () => undefined); // it stays readable
      }
    },
  };
}

/** Return the innermost block at the end of *node*: the mark of a text that is being written comes behind its last word. */
function tipOf(node: Element): Element {
  let last = node.lastElementChild;
  while (last && !last.matches(PLACES)) last = last.previousElementSibling;
  return last ? tipOf(last) : node;
}

export function reasoningNode({ strings }: Scene): Shown<Block & { kind: "reasoning" }> {
  const text = h("div", { class: "detail" });
  const node = h("details", { class: "reasoning" }, h("summary", {}, strings.reasoning), text);
  return { node, update: (block) => setText(text, block.text) };
}
