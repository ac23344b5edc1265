/** A file as a node. */

import { h } from "../dom.js";
import type { Block } from "./entries.js";

export function fileNode({ file: { name } }: Block & { kind: "file" }): HTMLElement {
  return h("p", { class: "file" }, name);
}
