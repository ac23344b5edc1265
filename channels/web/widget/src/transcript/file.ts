/** The place of a file: its name, until the card of it is loaded. */

import { h } from "../dom.js";
import type { SentFile } from "../wire/upload.js";
import { extra, type Scene } from "./scene.js";

export function fileNode(file: SentFile, scene: Scene): HTMLElement {
  const node = h("div", { class: file.mime.startsWith("image/") ? "file photo" : "file" }, file.name);
  extra<SentFile>(scene, ({ fileCard }) => (each) => fileCard(node, each, scene))(file);
  return node;
}
