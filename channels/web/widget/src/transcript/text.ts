/** What an answer says and what the model thought, as nodes. */

import { h, setText } from "../dom.js";
import type { Block } from "./entries.js";
import { markdownIn } from "./markdown.js";
import type { Scene, Shown } from "./scene.js";

export function textNode({ strings }: Scene): Shown<Block & { kind: "text" }> {
  const node = h("div", { class: "text", dir: "auto" });
  const write = markdownIn(node, strings);
  let stamp = "";
  return {
    node,
    update({ text, open }) {
      if (stamp === `${open}${text}`) return;
      stamp = `${open}${text}`;
      node.classList.toggle("open", open);
      write(text, !open);
    },
  };
}

export function reasoningNode({ strings }: Scene): Shown<Block & { kind: "reasoning" }> {
  const text = h("div", { class: "detail" });
  const node = h("details", { class: "reasoning" }, h("summary", {}, strings.reasoning), text);
  return { node, update: (block) => setText(text, block.text) };
}
