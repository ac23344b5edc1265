/** What an answer says and what the model thought, as nodes. */

import { h, setText } from "../dom.js";
import type { Block } from "./entries.js";
import type { Scene, Shown } from "./scene.js";

export type TextBlock = Block & { kind: "text" };

/** Return the node of a text: as it came, until what draws markdown is there. */
export function textNode(scene: Scene): Shown<TextBlock> {
  const node = h("div", { class: "text raw", dir: "auto" });
  let last: TextBlock | null = null;
  let write = ({ text }: TextBlock): void => setText(node, text);
  scene.load("markdown").then(({ textIn }) => {
    node.classList.remove("raw");
    node.replaceChildren();
    write = textIn(node, scene);
    if (last) write(last);
  }).catch(() => undefined); // what was said can be read without
  return {
    node,
    update(block) {
      last = block;
      node.classList.toggle("open", block.open);
      write(block);
    },
  };
}

export function reasoningNode({ strings }: Scene): Shown<Block & { kind: "reasoning" }> {
  const text = h("div", { class: "detail" });
  const node = h("details", { class: "reasoning" }, h("summary", {}, strings.reasoning), text);
  return { node, update: (block) => setText(text, block.text) };
}
