/** Modules that are loaded from beside the script, and are what it was built with. */

const VERSION_LENGTH = 16; // characters of the hash in an address; `channels/web/routes.py` computes the same

interface Policy {
  createScriptURL(address: string): string;
}

let policy: Policy | null | undefined;

/**
 * Import the script *name* from beside *base*, whose SHA-256 is *hash*.
 *
 * An `integrity` on the script does not cover what it imports. A module that was loaded with one by an element is checked by the
 * browser, and `import` then takes that very module; where no element can do it there is the versioned address alone.
 */
export async function verified(name: string, hash: string, base: string): Promise<unknown> {
  const version = hash.slice(0, VERSION_LENGTH).replaceAll("+", "-").replaceAll("/", "_");
  const address = new URL(`./${name}?v=${version}`, base).href;
  const node = loader(address);
  if (node) {
    await new Promise((resolve, reject) => {
      Object.assign(node, { crossOrigin: "anonymous", integrity: `sha256-${hash}`, onload: resolve });
      node.onerror = () => reject(new Error(`${address} cannot be loaded, or is not what this script was built with`));
      document.head.append(node);
    }).finally(() => node.remove());
  }
  return import(address);
}

/** Return what loads the module at *address* and checks its integrity; null where the browser has nothing that does. */
function loader(address: string): HTMLElement | null {
  // WebKit (2.50 tried, Safari 26) preloads modules without a look at their integrity; it does look at that of a script.
  if (navigator.vendor.startsWith("Apple")) return script(address);
  const link = document.createElement("link");
  return link.relList.supports("modulepreload") ? Object.assign(link, { rel: "modulepreload", href: address }) : null;
}

/** Return a script for the module at *address*; null where Trusted Types are required and the page has no policy for us. */
function script(address: string): HTMLElement | null {
  const { trustedTypes } = globalThis as { trustedTypes?: { createPolicy(name: string, rules: Policy): Policy } };
  try {
    if (policy === undefined) policy = trustedTypes?.createPolicy("parley-chat", { createScriptURL: (each) => each }) ?? null;
  } catch {
    policy = null;
  }
  try {
    return Object.assign(document.createElement("script"), { type: "module", src: policy?.createScriptURL(address) ?? address });
  } catch {
    return null;
  }
}
