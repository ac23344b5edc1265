/** The words around answers and questions; a page replaces any of them by `strings.answers`. */

import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";

export const ANSWERS = {
  actions: "Actions for this answer",
  ownActions: "Actions for what you wrote",
  copied: "Copied",
  uncopied: "This could not be copied.",
  good: "Good answer",
  bad: "Bad answer",
  regenerate: "Answer again",
  edit: "Edit",
  editing: "What you wrote, to be changed",
  cancel: "Cancel",
  why: { up: "What was good about it?", down: "What was wrong with it?" },
  reasons: {
    up: { correct: "Correct", clear: "Easy to understand", complete: "Complete" },
    down: { wrong: "Not correct", missed: "Not what I asked", unclear: "Hard to understand", incomplete: "Incomplete" },
  },
  more: "Anything else? (optional)",
  later: "Not now",
  thanks: "Thank you for your feedback.",
  unkept: "Your feedback was not stored:",
  sources: "Sources",
  source: "Source",
  suggestions: "Suggestions",
  newTab: "Opens in a new tab",
  enlarge: "Show large:",
  download: "Download:",
  close: "Close",
  loading: "Loading…",
  unfetched: "This file could not be loaded.",
  sizes: { byte: "B", kilobyte: "kB", megabyte: "MB", gigabyte: "GB" },
};

export type AnswerWords = typeof ANSWERS;

/** Return the words of *strings* around answers, every one of them. */
export function wordsOf(strings: Strings): AnswerWords {
  return merged(ANSWERS, strings.answers);
}
