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

type All = Omit<typeof STRINGS, "locale"> & {
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
type Plain = { readonly [K in keyof All as All[K] extends string ? K : never]: string };
type Sections = { readonly [K in keyof All as All[K] extends string ? never : K]?: All[K] };

/**
 * The words of a language: every plain word, and each of its sections whole.
 *
 * A section that is missing is English until it is there; `test/languages.test.ts` names those that are.
 */
export type Translation = Plain & Sections;
