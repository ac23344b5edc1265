/** What a language has to say: the words of the widget, and those of its chunks. */

import type { ANSWERS } from "../answers/words.js";
import type { CARDS } from "../cards/words.js";
import type { CODE } from "../code/words.js";
import type { DRAWN } from "../drawn/words.js";
import type { EXTRAS } from "../extras/words.js";
import type { FILES } from "../files/words.js";
import type { LAUNCHER } from "../launcher/words.js";
import type { LIST } from "../list/words.js";
import type { TOOLS } from "../tools/words.js";
import type { STRINGS } from "../words/strings.js";

/** The words of a language: every plain word, and each section whole; none falls back to English. */
export type Translation = Omit<typeof STRINGS, "locale"> & {
  readonly answers: typeof ANSWERS;
  readonly approval: typeof CARDS;
  readonly code: typeof CODE;
  readonly drawn: typeof DRAWN;
  readonly extras: typeof EXTRAS;
  readonly files: typeof FILES;
  readonly list: typeof LIST;
  readonly launcher: typeof LAUNCHER;
  readonly tools: typeof TOOLS;
};
