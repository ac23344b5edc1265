/** Modules that are loaded from beside the script, and are what it was built with. */

const VERSION_LENGTH = 16; // characters of the hash in an address; `channels/web/routes.py` computes the same

/**
 * Import the script *name* from beside *base*, whose SHA-256 is *hash*.
 *
 * An `integrity` on the script does not cover what it imports. A module that was preloaded with one is checked by the browser, and
 * `import` then takes that very module; a browser that cannot preload modules has the versioned address alone.
 */
export async function verified(name: string, hash: string, base: string): Promise<unknown> {
  const version = hash.slice(0, VERSION_LENGTH).replaceAll("+", "-").replaceAll("/", "_");
  const address = new URL(`./${name}?v=${version}`, base).href;
  const link = document.createElement("link");
  if (link.relList.supports("modulepreload")) {
    await new Promise((resolve, reject) => {
      Object.assign(link, { rel: "modulepreload", href: address, crossOrigin: "anonymous", integrity: `sha256-${hash}`, onload: resolve });
      link.onerror = () => reject(new Error(`${address} cannot be loaded, or is not what this script was built with`));
      document.head.append(link);
    }).finally(() => link.remove());
  }
  return import(address);
}
