/** The chunks of the widget: parts that are loaded from beside the script when they are first needed. */

/** The hash of each chunk, SHA-256 as base64, by its name: the build writes it in, so that no two versions meet. */
declare const CHUNKS: Readonly<Record<string, string>>;

/** What each chunk gives. */
export interface Chunks {
  readonly markdown: typeof import("./markdown/main.js");
  readonly renders: typeof import("./drawn/main.js");
  readonly cards: typeof import("./cards/main.js");
  readonly answers: typeof import("./answers/main.js");
  readonly code: typeof import("./code/main.js");
  readonly tools: typeof import("./tools/main.js");
  readonly files: typeof import("./files/main.js");
  readonly host: typeof import("./host/main.js");
  readonly launcher: typeof import("./launcher/main.js");
  readonly anonymous: typeof import("./anonymous/main.js");
  readonly list: typeof import("./list/main.js");
}

export type Load = typeof load;

const VERSION_LENGTH = 16; // characters of the hash in an address; `channels/web/routes.py` computes the same
const loading = new Map<string, Promise<unknown>>();

/** Load the chunk *name*; a failure is forgotten, so that the next call tries again. */
export function load<K extends keyof Chunks>(name: K): Promise<Chunks[K]> {
  let found = loading.get(name) as Promise<Chunks[K]> | undefined;
  if (!found) {
    found = fetched(name);
    loading.set(name, found);
    found.catch(() => loading.delete(name));
  }
  return found;
}

/**
 * An `integrity` on the script does not cover what it imports. A module that was preloaded with one is checked by the browser, and
 * `import` then takes that very module; a browser that cannot preload modules has the versioned address alone.
 */
async function fetched<K extends keyof Chunks>(name: K): Promise<Chunks[K]> {
  const hash = CHUNKS[name] ?? "";
  const version = hash.slice(0, VERSION_LENGTH).replaceAll("+", "-").replaceAll("/", "_");
  const address = new URL(`./parley-${name}.js?v=${version}`, import.meta.url).href;
  const link = document.createElement("link");
  if (link.relList.supports("modulepreload")) {
    await new Promise((resolve, reject) => {
      Object.assign(link, { rel: "modulepreload", href: address, crossOrigin: "anonymous", integrity: `sha256-${hash}`, onload: resolve });
      link.onerror = () => reject(new Error(`${address} cannot be loaded, or is not what this script was built with`));
      document.head.append(link);
    }).finally(() => link.remove());
  }
  return import(address) as Promise<Chunks[K]>;
}
