/** The chunks of the widget: parts that are loaded from beside the script when they are first needed. */

import { verified } from "./verified.js";

/** The hash of each chunk, SHA-256 as base64, by its name: the build writes it in, so that no two versions meet. */
declare const CHUNKS: Readonly<Record<string, string>>;

/** What each chunk gives. */
export interface Chunks {
  readonly markdown: typeof import("./markdown/main.js");
  readonly renders: typeof import("./drawn/main.js");
  readonly charts: typeof import("./drawn/chart.js");
  readonly cards: typeof import("./cards/main.js");
  readonly answers: typeof import("./answers/main.js");
  readonly code: typeof import("./code/main.js");
  readonly tools: typeof import("./tools/main.js");
  readonly files: typeof import("./files/main.js");
  readonly host: typeof import("./host/main.js");
  readonly launcher: typeof import("./launcher/main.js");
  readonly notice: typeof import("./notice/main.js");
  readonly anonymous: typeof import("./anonymous/main.js");
  readonly list: typeof import("./list/main.js");
  readonly extras: typeof import("./extras/main.js");
  /** Loaded by the extras, which have their hashes. */
  readonly "words-de": typeof import("./languages/de.js");
  readonly "words-fr": typeof import("./languages/fr.js");
  readonly "words-es": typeof import("./languages/es.js");
  readonly "words-pt": typeof import("./languages/pt.js");
  readonly "words-ja": typeof import("./languages/ja.js");
  readonly "words-ar": typeof import("./languages/ar.js");
}

export type Load = typeof load;

const loading = new Map<string, Promise<unknown>>();

/** Milliseconds after which a page that paints nothing, as in a tab that is not visible, loads all the same. */
const UNPAINTED = 500;
let first: Promise<void> | undefined;

/** Wait until the first frame was painted: what a chunk loads and computes would hold it up. */
function painted(): Promise<void> {
  return (first ??= new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, UNPAINTED);
  }));
}

/** Load the chunk *name*; a failure is forgotten, so that the next call tries again. */
export function load<K extends keyof Chunks>(name: K): Promise<Chunks[K]> {
  let found = loading.get(name) as Promise<Chunks[K]> | undefined;
  if (!found) {
    found = painted().then(() => verified(`parley-${name}.js`, CHUNKS[name] ?? "", import.meta.url)) as Promise<Chunks[K]>;
    loading.set(name, found);
    found.catch(() => loading.delete(name));
  }
  return found;
}
