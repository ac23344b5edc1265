/** The chunks, in the place of `../lazy.ts`, where a bundler finds them: in the package, and in tests. */

import type { Chunks } from "../lazy.js";

const IMPORTS: { readonly [K in keyof Chunks]: () => Promise<Chunks[K]> } = {
  markdown: () => import("../markdown/main.js"),
  renders: () => import("../drawn/main.js"),
  cards: () => import("../cards/main.js"),
  answers: () => import("../answers/main.js"),
  code: () => import("../code/main.js"),
  tools: () => import("../tools/main.js"),
  files: () => import("../files/main.js"),
  host: () => import("../host/main.js"),
  launcher: () => import("../launcher/main.js"),
  list: () => import("../list/main.js"),
  anonymous: () => import("../anonymous/main.js"),
};

/** Load the chunk *name*. */
export function load<K extends keyof Chunks>(name: K): Promise<Chunks[K]> {
  return IMPORTS[name]();
}
