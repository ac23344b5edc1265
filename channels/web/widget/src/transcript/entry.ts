/** The node of one entry of the transcript. */

import { answerNode } from "./answer.js";
import { dayNode } from "./day.js";
import type { Day, Entry } from "./entries.js";
import { questionNode } from "./question.js";
import type { Scene, Shown } from "./scene.js";

/** Return the node of *entry*, drawn. */
export function showEntry<T extends Entry | Day>(entry: T, scene: Scene): Shown<T> {
  const shown = entry.kind === "day" ? dayNode(scene) : entry.kind === "question" ? questionNode(scene) : answerNode(scene);
  shown.update(entry as never);
  return shown as Shown<T>;
}
