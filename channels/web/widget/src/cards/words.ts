/** The words of questions about calls; a page replaces any of them by `strings.approval`. */

import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";

export const CARDS = {
  label: "Approval",
  approve: "Approve",
  approveEdited: "Approve with these changes",
  remember: "Don’t ask again in this conversation",
  edit: "Edit",
  deny: "Deny",
  back: "Back",
  submit: "Send",
  decline: "Decline",
  reason: "Reason (optional)",
  /** {time} is such as "5 minutes". */
  left: "{time} left to decide",
  soon: "less than a minute left to decide",
  votes: "{yes} of {quorum} approvals",
  waits: "Waiting for {who} to approve this.",
  waitsForm: "Waiting for {who} to answer this.",
  or: " or ",
  by: "by",
  you: "you",
  team: "the team",
  someone: "someone",
  edited: "The input was changed.",
  closely: "Look closely:",
  mixes: "mixes {scripts} letters",
  and: "and",
  alike: "has no Latin letters, but looks as if it had",
  rounded: "This browser may show long numbers rounded.",
  unreadable: "This is not valid here. Use JSON: a number, true, false, a list or an object.",
  required: "This has to be filled in.",
  optional: "(optional)",
  choose: "Choose…",
  lines: "One per line.",
  number: "Write a number.",
  whole: "Write a whole number.",
  least: "At least {n}.",
  most: "At most {n}.",
  over: "More than {n}.",
  under: "Less than {n}.",
  longer: "At least {n} characters.",
  shorter: "At most {n} characters.",
  format: "This is not complete, or not of the right form.",
  pattern: "This is not of the form that is asked for.",
  yes: "yes",
  no: "no",
  who: { asker: "the person who asked", operators: "the team", anyone: "anyone here", not_asker: "someone else" } as Readonly<Record<string, string>>,
  status: { approved: "Approved", denied: "Denied", expired: "No decision came in time", cancelled: "Withdrawn" },
  /** Of a form that a tool shows. */
  answered: { approved: "Answered", denied: "Declined", expired: "No answer came in time", cancelled: "Withdrawn" },
  stop: "Stop and withdraw the question?",
  stopYes: "Stop",
  stopNo: "Keep waiting",
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
