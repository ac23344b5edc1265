/** In which language the widget speaks: its own words are English, those of others are chunks. */

import type { Load } from "../lazy.js";
import { merged, type Changes } from "./merge.js";
import { STRINGS, type Strings } from "./strings.js";

const OTHERS = ["de", "fr", "es", "pt", "ja", "ar"] as const;

/** Return the tag of *wanted* as the reader's browser would have it: "de" is "de-AT" where people write so. */
export function tagOf(wanted: string, preferred: readonly string[]): string {
  try {
    const tag = Intl.getCanonicalLocales(wanted)[0] ?? "en";
    return preferred.find((each) => each.startsWith(`${tag}-`)) ?? tag;
  } catch {
    return "en"; // no language at all
  }
}

/** Return the words of the language of *tag* with a page's own in their places, or English ones where there are none of it. */
export function wordsOf(tag: string, own: Changes<Strings> | undefined, load: Load): Strings | Promise<Strings> {
  const language = OTHERS.find((each) => each === tag.split("-")[0]);
  const made = (words?: Changes<Strings>): Strings => merged(words ? merged<Strings>(STRINGS, { ...words, locale: tag }) : english(tag), own);
  return language ? load(`words-${language}`).then(({ words }) => made(words), () => made()) : made();
}

function english(tag: string): Strings {
  return tag.startsWith("en") ? { ...STRINGS, locale: tag } : STRINGS;
}
