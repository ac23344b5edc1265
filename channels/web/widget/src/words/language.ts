/** In which language the widget speaks: its own words are English, those of others are loaded. */

import { load } from "../lazy.js";
import { merged, type Changes } from "./merge.js";
import { STRINGS, type Strings } from "./strings.js";

/** Return the words for *host*, with the page's *own* in their places: by its `locale`, else the language of the page around it. */
export function wordsFor(host: Element, own: Changes<Strings> | undefined): Strings | Promise<Strings> {
  const wanted = host.getAttribute("locale") || host.closest("[lang]")?.getAttribute("lang") || "en";
  const made = (words?: Changes<Strings>): Strings => merged(merged<Strings>(STRINGS, words), own);
  if (!/^en\b/i.test(wanted)) return load("extras").then(({ translated }) => translated(wanted)).then(made, () => made());
  const preferred = globalThis.navigator?.language ?? "";
  return made({ locale: preferred.startsWith(wanted) ? preferred : wanted });
}
