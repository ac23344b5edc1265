/** The line between two days, as a node. */

import { h, setText } from "../dom.js";
import { midnight, type Day } from "./entries.js";
import type { Scene, Shown } from "./scene.js";

const DAY = 86_400_000; // milliseconds

export function dayNode({ strings }: Scene): Shown<Day> {
  const node = h("div", { class: "day" });
  let today = 0;
  return {
    node,
    update({ time }) {
      if (today !== (today = midnight(Date.now()))) setText(node, dayName(time, today, strings.locale));
    },
  };
}

/** Return the day of *time* as people at *now* call it, in *language* (default: the reader's own): "today", "yesterday", else its date. */
export function dayName(time: number, now: number, language?: string): string {
  const ago = Math.round((midnight(now) - midnight(time)) / DAY); // a day may have 23 hours
  if (ago === 0 || ago === 1) return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(-ago, "day");
  return new Date(time).toLocaleDateString(language, { dateStyle: "full" });
}
