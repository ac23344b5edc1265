/** The words of other languages than English, each a chunk of its own. */

import { load, type Chunks } from "../lazy.js";
import type { Changes } from "../words/merge.js";
import type { Strings } from "../words/strings.js";

const LANGUAGES = ["de", "fr", "es", "pt", "ja", "ar"] as const;

/** Return the words of the language *wanted*, a BCP 47 tag; undefined where there are none. */
export async function translated(wanted: string): Promise<Changes<Strings> | undefined> {
  const tag = tagOf(wanted, navigator.languages ?? []);
  const language = LANGUAGES.find((each) => each === tag.split("-")[0]);
  if (!language) return undefined;
  const name: keyof Chunks = `words-${language}`;
  return { ...(await load(name)).words, locale: tag };
}

/** Return *wanted* as the reader's browser would have it: "de" is "de-AT" where people write so. */
export function tagOf(wanted: string, preferred: readonly string[]): string {
  try {
    const tag = Intl.getCanonicalLocales(wanted)[0] ?? "en";
    return preferred.find((each) => each.startsWith(`${tag}-`)) ?? tag;
  } catch {
    return "en"; // no language at all
  }
}
