/** In which language the widget speaks: its own words are English, those of others are loaded. */

import { load } from "../lazy.js";
import { merged, type Changes } from "./merge.js";
import { STRINGS, type Strings } from "./strings.js";

/** Return the words for *host*, with the page's *own* in their places: by its `locale`, else the language of the page around it. */
export function wordsFor(host: Element, own: Changes<Strings> | undefined): Strings | Promise<Strings> {
  const wanted = host.getAttribute("locale") || host.closest("[lang]")?.getAttribute("lang") || "en";
  const made = (words?: Changes<Strings>): Strings => written(merged(merged<Strings>(STRINGS, words), own));
  if (!/^en\b/i.test(wanted)) return load("extras").then(({ translated }) => translated(wanted)).then(made, () => made());
  const preferred = globalThis.navigator?.language ?? "";
  return made({ locale: preferred.startsWith(wanted) ? preferred : wanted });
}

/** Return *words* so that numbers and times can be written by their `locale`: that of the browser where it is no language. */
function written(words: Strings): Strings {
  try {
    Intl.getCanonicalLocales(words.locale);
    return words;
  } catch {
    return { ...words, locale: Intl.DateTimeFormat().resolvedOptions().locale };
  }
}
