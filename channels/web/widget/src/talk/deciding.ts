/** What this page has said to questions, as far as it is not in the log yet. */

import type { Approval } from "../log/state.js";
import type { Problem } from "../wire/problem.js";

export interface Deciding {
  readonly sending: boolean;
  /** Why what was said did not count. */
  readonly problem?: Problem;
}
export type Decisions = Readonly<Record<string, Deciding>>;

/** What a person says to a question about a call. */
export interface Vote {
  readonly approved: boolean;
  readonly reason?: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
  readonly remember?: boolean;
}
export type Decide = (approval: string, vote: Vote) => void;

/** Return whether this page's visitor is among those who may: the server has the last word. */
export function mayDecide({ arguments: given, mayDecide: known, responders }: Approval): boolean {
  if (known !== undefined) return known;
  const named = responders.some((each) => each === "asker" || each === "anyone" || each.startsWith("actor:"));
  return given !== undefined && named && !responders.includes("not_asker");
}
