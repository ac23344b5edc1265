/** The chunks, in the place of `../lazy.ts`, where a bundler finds them: in the package, and in tests. */

import type { Chunks } from "../lazy.js";

const IMPORTS: { readonly [K in keyof Chunks]: () => Promise<Chunks[K]> } = {
  markdown: () => import("../markdown/main.js"),
  renders: () => import("../drawn/main.js"),
  charts: () => import("../drawn/chart.js"),
  cards: () => import("../cards/main.js"),
  answers: () => import("../answers/main.js"),
  code: () => import("../code/main.js"),
  tools: () => import("../tools/main.js"),
  files: () => import("../files/main.js"),
  host: () => import("../host/main.js"),
  launcher: () => import("../launcher/main.js"),
  notice: () => import("../notice/main.js"),
  list: () => import("../list/main.js"),
  anonymous: () => import("../anonymous/main.js"),
  extras: () => import("../extras/main.js"),
  "words-de": () => import("../languages/de.js"),
  "words-fr": () => import("../languages/fr.js"),
  "words-es": () => import("../languages/es.js"),
  "words-pt": () => import("../languages/pt.js"),
  "words-ja": () => import("../languages/ja.js"),
  "words-ar": () => import("../languages/ar.js"),
};

/** Load the chunk *name*. */
export function load<K extends keyof Chunks>(name: K): Promise<Chunks[K]> {
  return IMPORTS[name]();
}
