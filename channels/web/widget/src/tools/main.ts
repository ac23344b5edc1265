/** The chunk of calls of tools, loaded when the first is to be shown. */

import { adopt } from "../styles/adopt.js";
import type { ToolBlock } from "../transcript/blocks.js";
import type { Scene, Shown } from "../transcript/scene.js";
import { lineNode } from "./line.js";
import css from "./tools.css";

/** Draw in *node* a call, or several, and keep them up to date. */
export function tool(node: HTMLElement, scene: Scene): Shown<ToolBlock> {
  let isStyled = false;
  const shown = lineNode(node, scene);
  return {
    node,
    update(block) {
      isStyled ||= adopt(node, css); // it may not be on the page yet
      shown.update(block);
    },
  };
}
