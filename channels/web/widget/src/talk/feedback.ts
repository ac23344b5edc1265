/** What this page has said of answers: a rating of a run, and why. */

import type { Problem } from "../wire/problem.js";

export type Rating = "up" | "down";

export interface Given {
  /** The last one that counted; null before the first. */
  readonly rating: Rating | null;
  readonly comment?: string | undefined;
  readonly sending: boolean;
  /** It was said before this page came. */
  readonly isOlder?: boolean;
  /** Why what was said last did not count. */
  readonly problem?: Problem;
}

/** By run. */
export type Feedback = Readonly<Record<string, Given>>;
