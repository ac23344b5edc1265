/** The words of questions about calls; a page replaces any of them by `strings.approval`. */

import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";

export const CARDS = {
  label: "Approval",
  approve: "Approve",
  approveEdited: "Approve with these changes",
  remember: "Allow for the rest of this conversation",
  edit: "Edit",
  deny: "Deny",
  back: "Back",
  reason: "Reason (optional)",
  until: "Open until",
  votes: "approvals",
  waits: "This needs the approval of",
  by: "by",
  you: "you",
  edited: "The input was changed.",
  closely: "Look closely:",
  mixes: "mixes {scripts} letters",
  and: "and",
  alike: "has no Latin letters, but looks as if it had",
  rounded: "This browser may show long numbers rounded.",
  unreadable: "This is not valid here. Use JSON: a number, true, false, a list or an object.",
  who: { asker: "the person who asked", operators: "an operator", anyone: "anyone here", not_asker: "someone other than the person who asked" } as Readonly<Record<string, string>>,
  status: { approved: "Approved", denied: "Denied", expired: "No decision came in time", cancelled: "Withdrawn" },
};

export type CardWords = typeof CARDS;
/** All words, those of questions whole. */
export type CardStrings = Strings & { readonly approval: CardWords };

/** Return why a text may pass for another that mixes *scripts*; one without any only looks Latin. */
export function doubtful(scripts: readonly string[], words: CardWords): string {
  if (!scripts.length) return words.alike;
  const named = `${scripts.slice(0, -1).join(", ")} ${words.and} ${scripts[scripts.length - 1] ?? ""}`;
  return words.mixes.replace("{scripts}", named);
}

/** Return *strings* with every word of questions. */
export function whole(strings: Strings): CardStrings {
  return { ...strings, approval: merged(CARDS, strings.approval) };
}
