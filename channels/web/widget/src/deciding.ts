/** What this page has said to questions, as far as it is not in the log yet. */

import type { Problem } from "./problem.js";

export interface Deciding {
  readonly sending: boolean;
  /** Why what was said did not count. */
  readonly problem?: Problem;
}
export type Decisions = Readonly<Record<string, Deciding>>;
