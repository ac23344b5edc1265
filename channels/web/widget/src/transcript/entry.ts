/** The node of one entry of the transcript. */

import { answerNode } from "./answer.js";
import type { Entry } from "./entries.js";
import { questionNode } from "./question.js";
import type { Scene, Shown } from "./scene.js";

/** Return the node of *entry*, drawn. */
export function showEntry(entry: Entry, scene: Scene): Shown<Entry> {
  const shown = entry.kind === "question" ? questionNode(scene) : answerNode(scene);
  shown.update(entry as never);
  return shown as Shown<Entry>;
}
