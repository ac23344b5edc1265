/** Calls of tools as a node: what they are called, until the chunk that draws them is there. */

import { h, setText } from "../dom.js";
import type { ToolBlock } from "./blocks.js";
import type { Scene, Shown } from "./scene.js";

export function toolNode(scene: Scene): Shown<ToolBlock> {
  const node = h("div", { class: "tool note" });
  let drawn: Shown<ToolBlock> | null = null;
  let last: ToolBlock;
  scene.load("tools").then((chunk) => {
    drawn = chunk.tool(node, scene);
    drawn.update(last);
  }, () => node.append(` · ${scene.strings.unloaded}`));
  return {
    node,
    update(block) {
      last = block;
      const call = block.kind === "tool" ? block.call : block.calls[0];
      if (drawn) drawn.update(block);
      else if (call && !node.firstChild) setText(node, call.approval?.title ?? call.title ?? call.name);
    },
  };
}
